"""Imports: a job of the server fetches what a URL names, and takes it in as an upload of its owner.

The URL is a stranger's: `webhooks.targets` decides where we go, at each redirect anew. The bytes go
the way of every upload, with its limits, its quota and its look at what they are; what has come
before a break is kept, and the next attempt asks for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import httpx2

from rushes import errors
from rushes.settings import Settings
from rushes.uploads import uploads
from rushes.uploads.receiver import Receiver, Writer
from rushes.uploads.upload import Metadata, Upload
from rushes.webhooks import targets
from rushes.worker.context import JobContext

REDIRECTS = 5
REPEATED = (408, 416, 425, 429)
# What a checkpoint remembers of an unfinished upload.
UPLOAD, VALIDATOR = "upload_id", "validator"


@dataclass(frozen=True, slots=True)
class Begun:
    """What is there of an earlier attempt, and by what to know that the rest is of the same."""

    upload: Upload
    validator: str


class Import:
    """The handler of the kind `import`."""

    def __init__(self, receiver: Receiver, settings: Settings) -> None:
        self._receiver = receiver
        self._fetcher = targets.Fetcher(
            seconds=settings.import_timeout, allow_private=settings.import_private_sources
        )

    def __call__(self, job: JobContext) -> Any:
        begun = self._begun(job)
        job.progress(0.0, "connecting")
        with explained(), self._opened(str(job.args["url"]), begun) as answer:
            if begun is not None and answer.status != 206:
                # It is another one by now, or can only be had from its beginning.
                self._receiver.drop(begun.upload.id)
                begun = None
            if begun is None and answer.status != 200:
                raise _refused(answer.status)
            return {"media_id": self._take(job, answer, begun)}

    def _begun(self, job: JobContext) -> Begun | None:
        noted = job.checkpoint if isinstance(job.checkpoint, dict) else {}
        if not noted.get(UPLOAD) or not noted.get(VALIDATOR):
            return None
        try:
            with self._receiver.db.read() as tx:
                found = uploads.found(tx, str(noted[UPLOAD]), job.user_id)
        except (errors.NotFound, errors.Gone):
            return None
        return Begun(found, str(noted[VALIDATOR])) if found.offset_bytes else None

    @contextmanager
    def _opened(self, url: str, begun: Begun | None) -> Iterator[targets.Fetched]:
        headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
        if begun is not None:
            headers |= {"Range": f"bytes={begun.upload.offset_bytes}-", "If-Range": begun.validator}
        for _ in range(REDIRECTS + 1):
            with self._fetcher.get(url, headers) as answer:
                if answer.location is None:
                    yield answer
                    return
                url = str(httpx2.URL(url).join(answer.location))
        raise errors.PermanentFailure("it redirects too often", code="too_many_redirects")

    def _take(self, job: JobContext, answer: targets.Fetched, begun: Begun | None) -> str:
        item = begun.upload if begun else self._create(job, answer)
        if begun is None:
            noted = {UPLOAD: item.id, VALIDATOR: answer.validator}
            job.progress(0.0, "fetching", checkpoint=noted)
        elif answer.begins_at != item.offset_bytes:
            self._receiver.drop(item.id)
            raise errors.TransientFailure("another part came than was asked for", code="bad_answer")
        writer = self._receiver.open(item.id, item.user_id, offset_bytes=item.offset_bytes)
        try:
            self._copy(job, answer, writer)
            received = writer.seal()
            made = self._receiver.db.run(lambda tx: writer.commit(tx, received))
        except BaseException as error:
            writer.leave(error)
            if isinstance(error, errors.Invalid | errors.Canceled):
                self._receiver.drop(item.id)
            raise
        writer.close()
        self._receiver.remove_spare(made)
        assert made.media_id is not None
        return made.media_id

    def _create(self, job: JobContext, answer: targets.Fetched) -> Upload:
        """A length that is not told is known when all is there."""
        given: dict[str, str] = job.args.get("options") or {}
        metadata: Metadata = {"filename": _file_name(str(job.args["url"])).encode()}
        metadata |= {name: str(value).encode() for name, value in given.items()}
        return self._receiver.create(job.user_id, length_bytes=answer.length, metadata=metadata)

    def _copy(self, job: JobContext, answer: targets.Fetched, writer: Writer) -> None:
        length = writer.upload.length_bytes
        for chunk in answer.chunks:
            job.raise_if_stopped()
            writer.write(chunk)
            if writer.is_due:
                writer.flush()
                # So much of nobody knows how much is shown as none.
                share = writer.end_bytes / length if length else 0.0
                job.progress(min(0.99, share), "fetching")
        if length is not None and writer.end_bytes != length:
            raise errors.TransientFailure("it ended before all of it had come", code="cut_off")


@contextmanager
def explained() -> Iterator[None]:
    """What goes wrong in words for people; nothing of what a receiver has said."""
    try:
        yield
    except targets.FetchFailed as error:
        kind = errors.PermanentFailure if error.is_final else errors.TransientFailure
        raise kind(error.message, code=error.code) from None
    except (errors.Invalid, errors.Unauthorized) as error:
        raise errors.PermanentFailure(error.message, code=error.code) from None


def _refused(status: int) -> errors.JobOutcome:
    again = status >= 500 or status in REPEATED
    kind = errors.TransientFailure if again else errors.PermanentFailure
    return kind(f"the address answered with HTTP {status}", code=f"http_{status}")


def _file_name(url: str) -> str:
    path = httpx2.URL(url).path
    return unquote(path.rstrip("/").rpartition("/")[2]) or httpx2.URL(url).host
