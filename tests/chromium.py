"""A real Chromium, for tests of what people see."""

from __future__ import annotations

import asyncio
import shutil
from asyncio import AbstractEventLoop
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

# On a busy machine what comes at once may take a while.
expect.set_options(timeout=20_000)

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--autoplay-policy=no-user-gesture-required",
]


@contextmanager
def launched() -> Iterator[Browser]:
    """Skips where there is none."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield opened
        opened.close()


@contextmanager
def in_use(loop: AbstractEventLoop) -> Iterator[None]:
    """The browser's event loop counts as running in this thread only while a test talks to it;
    otherwise nobody else could run one."""
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def kept_browser() -> Iterator[tuple[Browser, AbstractEventLoop]]:
    with launched() as opened:
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield opened, loop
        asyncio._set_running_loop(loop)


@pytest.fixture
def browser(kept_browser: tuple[Browser, AbstractEventLoop]) -> Iterator[Browser]:
    """Started once; each test opens windows of its own."""
    opened, loop = kept_browser
    with in_use(loop):
        yield opened
