"""Search: where something was said, to the second, and whose title says it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from rushes.transcripts import search as moments
from rushes.web import auth, models
from rushes.web.http.problems import documented
from rushes.web.models import Limit
from rushes.web.services import Here

router = APIRouter(tags=["search"], responses=documented(401, 422))

Words = Annotated[
    str,
    Query(
        min_length=1,
        max_length=300,
        description='All of these words, in any form; "in quotes" just so. The last one may be'
        " the beginning of a word unless a space follows; alone, from three letters on.",
    ),
]
SearchCursor = Annotated[
    str | None, Query(pattern=r"^\d{1,19}\.\d{1,3}$", description="`next_cursor` of a page.")
]


@router.get("/search")
def search(
    q: Words, who: auth.User, services: Here, limit: Limit = 20, cursor: SearchCursor = None
) -> models.MomentPage:
    """Moments and titles, the best of the newest first. When nothing is found, words outside of
    quotes may be misspelt: then `corrected` says what was looked for."""
    with services.db.read() as tx:
        page = moments.search(tx, q, user_id=who.sees, limit=limit, cursor=cursor)
    return models.MomentPage(
        items=[
            models.Moment(
                media_id=hit.media_id,
                title=hit.title,
                kind=hit.kind,
                segment_id=hit.segment_id,
                start=hit.start,
                end=hit.end,
                speaker=hit.speaker,
                snippet=hit.snippet,
                marks=list(hit.marks),
                html=hit.html,
            )
            for hit in page.hits
        ],
        next_cursor=page.next_cursor,
        corrected=page.corrected,
    )
