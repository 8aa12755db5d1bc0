"""Live events as a stream of server-sent events, for one client.

`id:` lines without data move the client's last position, which it sends when it comes back.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable

from rushes import errors
from rushes.live import Subscription

log = logging.getLogger("rushes.web")

MEDIA_TYPE = "text/event-stream"
# Proxies must neither keep nor hold back what they pass on.
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
CHECK_SECONDS = 30.0


def since(last_event_id: str | None) -> int | None:
    """The position a client names; what cannot be one of ours will make it begin anew."""
    if not last_event_id:
        return None
    return int(last_event_id) if last_event_id.isdecimal() and last_event_id.isascii() else -1


async def stream(
    subscription: Subscription,
    *,
    still_allowed: Callable[[], bool],
    keep_alive_seconds: float,
    retry_seconds: float,
    check_seconds: float = CHECK_SECONDS,
) -> AsyncIterator[bytes]:
    """Until the client leaves, the relay closes, or `still_allowed` (asked in a thread) denies."""
    loop = asyncio.get_running_loop()
    check_at = loop.time() + check_seconds * random.uniform(0.5, 1)
    try:
        if not await subscription.opened():
            return
        # So that a client which has heard nothing yet also comes back to where it was.
        told = subscription.position
        yield b"retry: %d\nid: %d\n\n" % (retry_seconds * 1000, told)
        while (messages := await subscription.take(keep_alive_seconds)) is not None:
            if loop.time() >= check_at:
                if not await asyncio.to_thread(still_allowed):
                    return
                check_at = loop.time() + check_seconds
            if messages:
                yield b"".join([message.frame for message in messages])
                told = messages[-1].position
            else:
                yield _keep_alive(told, subscription.position)
                told = subscription.position
    except errors.Unavailable as error:
        log.warning("a stream of events ended: %s", error.message)
    finally:
        subscription.close()


def _keep_alive(told: int, position: int) -> bytes:
    """With the position when others' events have passed since, so that coming back is quick."""
    return b": keep-alive\n\n" if position == told else b": keep-alive\nid: %d\n\n" % position
