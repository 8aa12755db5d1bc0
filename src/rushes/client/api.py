"""The API as a client sees it: requests, pages, streams, and errors in our words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2

from rushes import errors
from rushes.client.shapes import Document

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 60.0
PAGE = 200
FAMILIES: dict[int, type[errors.RushesError]] = {
    401: errors.Unauthorized,
    403: errors.Denied,
    404: errors.NotFound,
    408: errors.Unavailable,
    409: errors.Conflict,
    410: errors.Gone,
    413: errors.TooLarge,
    415: errors.UnsupportedMedia,
    423: errors.UploadBusy,
    429: errors.TooMany,
    507: errors.DiskFull,
}


class Api:
    """The API under `/api/v1`, at `where`."""

    def __init__(
        self,
        where: str,
        token: str,
        *,
        transport: httpx2.BaseTransport | None = None,
        trust_env: bool = True,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        self.where = where.rstrip("/")
        self._http = httpx2.Client(
            base_url=f"{self.where}/api/v1",
            headers={"Authorization": f"Bearer {token}", "User-Agent": "rushes"},
            timeout=httpx2.Timeout(seconds, connect=CONNECT_SECONDS),
            transport=transport,
            trust_env=trust_env,
            # Reading all certificates takes longer than most commands, and is for nothing here.
            verify=trust_env or self.where.startswith("https:"),
        )

    def get(self, path: str, **params: Any) -> Any:
        return self.send("GET", path, params=_given(params)).json()

    def post(self, path: str, body: Any = None) -> Any:
        return self.send("POST", path, json=body).json()

    def patch(self, path: str, body: Any) -> Any:
        return self.send("PATCH", path, json=body).json()

    def delete(self, path: str) -> None:
        self.send("DELETE", path)

    def items(self, path: str, limit: int, **params: Any) -> list[Document]:
        """Up to `limit` of a list, over as many pages as it takes."""
        found: list[Document] = self.whole(path, limit, **params)["items"]
        return found

    def whole(self, path: str, limit: int, **params: Any) -> Document:
        """The same, with what else the last page says."""
        found: list[Document] = []
        page: Document = {}
        cursor = None
        while len(found) < limit:
            size = min(PAGE, limit - len(found))
            page = self.get(path, limit=size, cursor=cursor, **params)
            found += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        return {**page, "items": found}

    def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """One request; whatever is not an answer in the 200s is raised as one of our errors."""
        with self._renamed():
            answer = self._http.request(method, path, **options)
        if not answer.is_success:
            raise self._error(answer)
        return answer

    @contextmanager
    def stream(
        self,
        path: str,
        *,
        silence_seconds: float | None = None,
        headers: Mapping[str, str] | None = None,
        **params: Any,
    ) -> Iterator[Iterator[str]]:
        """The lines of an answer as they come; `silence_seconds` without any ends it."""
        timeout = httpx2.Timeout(silence_seconds, connect=CONNECT_SECONDS)
        with (
            self._renamed(),
            self._http.stream(
                "GET", path, params=_given(params), headers=headers, timeout=timeout
            ) as answer,
        ):
            if not answer.is_success:
                answer.read()
                raise self._error(answer)
            yield answer.iter_lines()

    @contextmanager
    def content(self, path: str) -> Iterator[Iterator[bytes]]:
        """The bytes of a file as they come, also where the storage sends them."""
        with self._renamed(), self._http.stream("GET", path) as answer:
            if not answer.has_redirect_location:
                if not answer.is_success:
                    answer.read()
                    raise self._error(answer)
                yield answer.iter_bytes()
                return
            there = answer.headers["location"]
        # Without our token: the link is all it takes.
        with self._renamed(), httpx2.stream("GET", there, timeout=ANSWER_SECONDS) as answer:
            if not answer.is_success:
                raise errors.Unavailable(f"the storage answered HTTP {answer.status_code}")
            yield answer.iter_bytes()

    def pieces(self, path: str) -> Iterator[bytes]:
        """The same, one after the other."""
        with self.content(path) as pieces:
            yield from pieces

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    @contextmanager
    def _renamed(self) -> Iterator[None]:
        try:
            yield
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise errors.Unavailable(
                f"{self.where} cannot be reached ({error}): is the server running there?"
            ) from error
        except httpx2.TimeoutException as error:
            raise errors.Unavailable(f"{self.where} did not answer in time") from error
        except (httpx2.TransportError, httpx2.StreamError) as error:
            raise errors.Unavailable(f"the connection to {self.where} broke ({error})") from error

    def _error(self, answer: httpx2.Response) -> errors.RushesError:
        if answer.has_redirect_location:
            there = urlsplit(answer.headers["location"])
            return errors.Invalid(
                f"{self.where} redirects to {there.scheme}://{there.netloc}: if that is right,"
                " set RUSHES_SERVER to it"
            )
        status = answer.status_code
        by_status = errors.Unavailable if status >= 500 else errors.Invalid
        said = _problem(answer)
        error = FAMILIES.get(status, by_status)(said.get("detail") or self._unclear(answer))
        error.code = said.get("code", error.code)
        return error

    def _unclear(self, answer: httpx2.Response) -> str:
        asked = f"{self.where} answered HTTP {answer.status_code}"
        if answer.request.method == "HEAD":
            return asked
        return f"{asked}, but not as a Rushes server would"


def _problem(answer: httpx2.Response) -> Mapping[str, Any]:
    try:
        said = answer.json()
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}
