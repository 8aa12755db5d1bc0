"""Of a request that has been answered nothing is left, unless it asked for that.

What this misses, because somebody hung up or the server was killed, the chores find: nobody says
any more that the media is waited for.
"""

from __future__ import annotations

import asyncio
import logging

from rushes import errors
from rushes.accounts.account import Principal
from rushes.media import purge
from rushes.web.http import idempotency
from rushes.web.services import Services

log = logging.getLogger("rushes.web")


class Awaited:
    """A media while requests wait for its words: the same one may be sent again meanwhile, and
    whoever is last to be answered forgets it. Only in the event loop's thread."""

    def __init__(
        self,
        services: Services,
        who: Principal,
        once: idempotency.Repeat,
        media_id: str,
        *,
        is_stored: bool,
    ) -> None:
        self._site = services
        self._who = who
        self._once = once
        self._media_id = media_id
        self._is_stored = is_stored

    def __enter__(self) -> None:
        self._site.awaited[self._media_id] += 1

    def __exit__(self, *error: object) -> None:
        self._site.awaited[self._media_id] -= 1
        if not self._site.awaited[self._media_id]:
            del self._site.awaited[self._media_id]

    async def forget(self) -> None:
        """Never a reason to fail."""
        if self._is_stored or self._site.awaited[self._media_id] > 1:
            return
        try:
            await asyncio.to_thread(self._forget)
        except (errors.RushesError, OSError):
            log.warning("what was transcribed is forgotten a little later", exc_info=True)

    def _forget(self) -> None:
        services = self._site
        services.db.run(lambda tx: self._once.forget(tx, self._who))
        purge.forget(services.db, services.queue, services.storage, self._media_id)
