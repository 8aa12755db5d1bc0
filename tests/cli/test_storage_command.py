"""`rushes storage setup`, as it is typed."""

from __future__ import annotations

import uuid

from services import Seaweed
from shell import Shell


def test_a_bucket_is_made_ready_and_stays_so(shell: Shell, seaweed: Seaweed) -> None:
    bucket = f"cli-{uuid.uuid4().hex[:12]}"
    shell.set(storage_url=seaweed.url(prefix="p", bucket=bucket))
    assert shell.run("storage", "setup") == 1
    assert "--create makes it" in shell.out
    assert shell.run("storage", "setup", "--create", "--dry-run") == 0
    assert shell.out.count("to do") == 3
    done = shell.json("storage", "setup", "--create", "--origin", "https://a.example/watch")
    assert [each["state"] for each in done] == ["done"] * 3
    assert "https://a.example GET" in done[2]["said"][0]
    again = shell.json("storage", "setup", "--origin", "https://a.example")
    assert [each["state"] for each in again] == ["already"] * 3


def test_what_is_in_the_way_is_said(shell: Shell, seaweed: Seaweed) -> None:
    shell.set(storage_url=seaweed.url(secret="wrong"))
    assert shell.run("storage", "setup") == 1
    assert "check the keys" in shell.out
    assert seaweed.access_key not in shell.out + shell.err
    shell.set(storage_url="file:///srv/rushes")
    assert shell.run("storage", "setup") == 2
    assert "only an s3:// storage" in shell.err
    shell.set(storage_url=seaweed.url())
    assert shell.run("storage", "setup", "--origin", "nonsense") == 2
