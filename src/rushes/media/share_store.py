"""The SQL of share links. The token is the media's; the terms of a link are beside it, and count
only for the token that they were said of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushes.db.database import Tx
from rushes.records import from_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What its owner has said of a link. None: it has no end, or no password."""

    expires_at: int | None
    password_hash: str | None
    allow_download: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLink:
    """As it is at `now`, by the clock that decides."""

    media_id: str
    token: str
    terms: Terms
    views: int
    last_viewed_at: int | None
    now: int

    @property
    def is_expired(self) -> bool:
        ends = self.terms.expires_at
        return ends is not None and ends <= self.now

    @property
    def is_open(self) -> bool:
        """To whoever has it, and until it is taken back."""
        return self.terms.expires_at is None and self.terms.password_hash is None


def get(tx: Tx, media_id: str) -> ShareLink | None:
    """None if it is not shared."""
    row = tx.one(
        """
        SELECT media.id AS media_id, media.share_token AS token, expires_at, password_hash,
            coalesce(allow_download, 0) AS allow_download, coalesce(views, 0) AS views,
            last_viewed_at, {now} AS now
        FROM media LEFT JOIN share_links
            ON share_links.media_id = media.id AND share_links.token = media.share_token
        WHERE media.id = :media_id AND share_token IS NOT NULL""",
        media_id=media_id,
    )
    if row is None:
        return None
    terms = from_row(Terms, row, allow_download=bool(row["allow_download"]))
    return from_row(ShareLink, row, terms=terms)


def set_terms(tx: Tx, media_id: str, token: str, terms: Terms) -> None:
    """What was said of another token is gone with its views."""
    tx.all(
        """
        INSERT INTO share_links (media_id, token, expires_at, password_hash, allow_download)
        VALUES (:media_id, :token, :expires_at, :password_hash, :allow_download)
        ON CONFLICT (media_id) DO UPDATE SET token = excluded.token,
            expires_at = excluded.expires_at, password_hash = excluded.password_hash,
            allow_download = excluded.allow_download,
            views = CASE WHEN share_links.token = excluded.token THEN share_links.views ELSE 0 END,
            last_viewed_at = CASE WHEN share_links.token = excluded.token
                THEN share_links.last_viewed_at END""",
        media_id=media_id,
        token=token,
        expires_at=terms.expires_at,
        password_hash=terms.password_hash,
        allow_download=int(terms.allow_download),
    )


def count_view(tx: Tx, media_id: str, token: str) -> None:
    tx.all(
        """
        INSERT INTO share_links (media_id, token, views, last_viewed_at)
        VALUES (:media_id, :token, 1, {now})
        ON CONFLICT (media_id) DO UPDATE SET views = share_links.views + 1,
            last_viewed_at = excluded.last_viewed_at
        WHERE share_links.token = excluded.token""",
        media_id=media_id,
        token=token,
    )


def remove(tx: Tx, media_ids: Sequence[str]) -> None:
    tx.all(
        "DELETE FROM share_links WHERE media_id IN ({given:id text})",
        given=[{"id": id} for id in media_ids],
    )
