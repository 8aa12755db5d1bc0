"""`rushes storage`: the bucket that RUSHES_STORAGE_URL names, made ready for a fleet."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import cyclopts

from rushes import config, errors
from rushes.cli import output

if TYPE_CHECKING:
    from rushes.storage.s3 import S3Storage

app = cyclopts.App(name="storage", help="Make a bucket ready.", help_epilogue="")

WORDS = {"done": "done", "already": "as it was", "would": "to do", "failed": "failed"}
COLORS = {"done": "green", "already": "dim", "would": "yellow", "failed": "red"}

Create = Annotated[bool, output.FLAG, cyclopts.Parameter(help="Make the bucket if there is none.")]
DryRun = Annotated[
    bool, output.FLAG, cyclopts.Parameter(help="Only say what would be done; changes nothing.")
]
Origins = Annotated[
    list[str] | None,
    cyclopts.Parameter(
        name="--origin",
        negative="",
        help="Whose pages may read it, such as https://rushes.example.org; may be repeated."
        " RUSHES_BASE_URL if not given, or anybody's if that is not set either.",
    ),
]
AbortDays = Annotated[
    int,
    cyclopts.Parameter(
        validator=cyclopts.validators.Number(gte=1, lte=365),
        help="After how many days the parts of an upload that was never completed are removed.",
    ),
]


@app.command
def setup(
    *,
    create: Create = False,
    dry_run: DryRun = False,
    origin: Origins = None,
    abort_days: AbortDays = 2,
    json: output.Json = False,
) -> int:
    """Tell the bucket what ends by itself and which pages may read it; harmless to repeat."""
    settings = config.load()
    opened = _open(settings.storage_url)
    from rushes.storage import bucket_setup
    from rushes.storage.bucket_rules import Wanted

    calls = opened.calls
    if calls is None:
        raise errors.BadSetting(
            "STORAGE_URL: this needs keys in it, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    own = [settings.base_url] if settings.has_base_url else ["*"]
    wanted = Wanted(
        prefix=opened.address.prefix,
        abort_days=abort_days,
        origins=[_origin(each) for each in origin or own],
    )
    steps = bucket_setup.set_up(calls, wanted, region=calls.region, create=create, dry_run=dry_run)
    outcomes = []
    for each in steps:
        outcomes.append(each)
        if not json:
            print(f"{output.paint(WORDS[each.state].ljust(9), COLORS[each.state])}  {each.step}")
            for line in each.said:
                print(f"           {output.one_line(line)}")
    if json:
        output.print_json([asdict(each) for each in outcomes])
    return 1 if any(each.state == "failed" for each in outcomes) else 0


def _open(url: str) -> S3Storage:
    if not url.startswith("s3://"):
        raise errors.BadSetting("STORAGE_URL: only an s3:// storage has a bucket to set up")
    from rushes.storage import s3

    return s3.from_url(url)


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if text == "*":
        return text
    if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
        raise errors.BadField("--origin", "must be such as https://rushes.example.org, or *")
    return f"{parts.scheme}://{parts.netloc}"
