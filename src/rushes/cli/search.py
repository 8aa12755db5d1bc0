"""`rushes search`: the moments at which something is said."""

from __future__ import annotations

from typing import Annotated

import cyclopts

from rushes.cli import client, output

Words = Annotated[
    str,
    cyclopts.Parameter(name="WORDS", help='What is looked for; "several words" as they follow.'),
]
Limit = Annotated[int, cyclopts.Parameter(help="So many at most.")]


def run(*words: Words, limit: Limit = 20, json: output.Json = False) -> None:
    """Newest first: which media, at which time, and what is said there."""
    with client.connect() as api:
        page = api.whole("/search", limit, q=" ".join(words))
    found = page["items"]
    if corrected := page.get("corrected"):
        output.note(f"nothing says that; found for: {corrected}")
    if json:
        output.print_json(found)
        return
    rows = [
        (each["media_id"], output.length(each["start"]), each["title"], each["snippet"])
        for each in found
    ]
    output.print_table(("media", "at", "title", "what is said"), rows)
    if not rows:
        output.note("nothing was found")
