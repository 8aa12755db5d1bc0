"""Models that somebody fetches beforehand: in the background, each once at a time, with how far it
is and what became of it."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from rushes import errors
from rushes.engines import catalog, custom
from rushes.engines.cache import Cache
from rushes.engines.engine import ModelUnavailable

log = logging.getLogger(__name__)

# After this the thread is left to itself; the process ends without it.
LEAVE_SECONDS = 2.0


@dataclass(slots=True)
class Download:
    """`error`: why it ended without success; None while it goes on."""

    received_bytes: int
    total_bytes: int
    error: str | None = None


class Downloads:
    """Those of this process; jobs that fetch what they need are not among them."""

    def __init__(self, cache: Cache, stopping: threading.Event) -> None:
        self._cache = cache
        self._stopping = stopping
        self._lock = threading.Lock()
        self._known: dict[str, Download] = {}
        self._threads: dict[str, threading.Thread] = {}

    def of(self, name: str) -> Download | None:
        return self._known.get(name)

    def names(self) -> list[str]:
        return list(self._known)

    def start(self, entry: catalog.CatalogModel) -> None:
        """Harmless when it is there, or on its way."""
        with self._lock:
            if entry.name in self._threads or self._cache.installed(entry.name):
                return
            self._known[entry.name] = Download(0, entry.size_bytes)
            thread = threading.Thread(
                target=self._fetch, args=[entry], name=f"download {entry.name}", daemon=True
            )
            self._threads[entry.name] = thread
            thread.start()

    def wanted(self, name: str) -> catalog.CatalogModel:
        """ModelUnavailable for what nobody could fetch, such as a directory that the operator has
        not brought."""
        entry = self._cache.wanted(name)
        is_new = not entry.sources and not entry.own_files
        if is_new and entry.name.startswith(custom.OWN):
            raise ModelUnavailable(f"there is no {entry.name} here")
        return entry

    def remove(self, entry: catalog.CatalogModel) -> bool:
        """Whether there was anything to remove. WrongState while it is being fetched, whoever does
        it."""
        with self._lock:
            if entry.name in self._threads:
                _refuse()
            there = self._cache.remove(entry.name, watch=_refuse)
            return self._known.pop(entry.name, None) is not None or there

    def close(self) -> None:
        """Call it once `stopping` is set: what was fetched so far is used the next time."""
        for thread in list(self._threads.values()):
            thread.join(LEAVE_SECONDS)

    def _fetch(self, entry: catalog.CatalogModel) -> None:
        download = self._known[entry.name]

        def tell(done: int, total: int, what: str) -> None:
            download.received_bytes, download.total_bytes = done, total or entry.size_bytes

        error = None
        try:
            self._cache.pull(entry.name, tell, self._watch)
        except errors.JobOutcome as outcome:
            error = outcome.message
        except Exception:
            log.exception("%s could not be fetched", entry.name)
            error = "something went wrong; the server's log knows more"
        with self._lock:
            del self._threads[entry.name]
            download.error = error
            if error is None:
                del self._known[entry.name]

    def _watch(self) -> None:
        if self._stopping.is_set():
            raise errors.Stopped("the server was stopped before all of it was here")


def _refuse() -> None:
    raise errors.WrongState("it is being fetched just now: try again when that has ended")
