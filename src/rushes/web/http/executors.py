"""Threads by what they are for: a heartbeat must not wait behind a long report, nor a viewer's file
behind either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")

HEARTBEATS = ThreadPoolExecutor(8, thread_name_prefix="heartbeat")
# What else workers say.
REPORTS = ThreadPoolExecutor(24, thread_name_prefix="report")
# Files for viewers.
READS = ThreadPoolExecutor(16, thread_name_prefix="read")


async def in_thread(executor: Executor, call: Callable[..., T], *args: object) -> T:
    """As `asyncio.to_thread`, in a thread of this executor."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(executor, copy_context().run, call, *args)
