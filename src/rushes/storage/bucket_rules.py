"""What Rushes wants of a bucket: what ends by itself, and which pages may read it. Pure.

A bucket has one list of each, and it may be others' as well: what is not ours stays as it is, and
ours are known by their ids, which have the storage's prefix in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from rushes.storage.storage import CHECKS

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
# Folders in which objects are put in parts.
IN_PARTS = ("media", "sources")
# What a worker has put there and confirmed is copied at once; what is old was never confirmed.
STAGING_DAYS = 7
CHECK_DAYS = 1
CORS_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """`prefix` without a slash at its end; empty for the whole bucket."""

    prefix: str
    abort_days: int
    origins: Sequence[str]

    def lifecycle(self) -> list[Element]:
        rules = [
            self._rule(
                f"abort-{folder}",
                folder,
                ("AbortIncompleteMultipartUpload", "DaysAfterInitiation", self.abort_days),
            )
            for folder in IN_PARTS
        ]
        rules.append(self._rule("staging", "staging", ("Expiration", "Days", STAGING_DAYS)))
        rules.append(self._rule("check", CHECKS, ("Expiration", "Days", CHECK_DAYS)))
        return rules

    def cors(self) -> list[Element]:
        rule = Element("CORSRule")
        SubElement(rule, "ID").text = self._id("playback")
        for origin in self.origins:
            SubElement(rule, "AllowedOrigin").text = origin
        for method in ("GET", "HEAD"):
            SubElement(rule, "AllowedMethod").text = method
        SubElement(rule, "AllowedHeader").text = "*"
        for header in ("Content-Length", "Content-Range", "ETag"):
            SubElement(rule, "ExposeHeader").text = header
        SubElement(rule, "MaxAgeSeconds").text = str(CORS_SECONDS)
        return [rule]

    def _rule(self, name: str, folder: str, action: tuple[str, str, int]) -> Element:
        rule = Element("Rule")
        SubElement(rule, "ID").text = self._id(name)
        place = SubElement(rule, "Filter")
        SubElement(place, "Prefix").text = f"{self.prefix}/{folder}/".lstrip("/")
        SubElement(rule, "Status").text = "Enabled"
        outer, inner, days = action
        SubElement(SubElement(rule, outer), inner).text = str(days)
        return rule

    def _id(self, name: str) -> str:
        # An id has at most 255 characters.
        return f"rushes {name} {self.prefix[-200:]}".rstrip()


def merged(root: str, existing: bytes | None, wanted: Sequence[Element]) -> bytes | None:
    """The document to send, or None when all that is wanted is there already."""
    present = [] if existing is None else list(_plain(ElementTree.fromstring(existing)))
    ours = {_id_of(rule) for rule in wanted}
    before = [rule for rule in present if _id_of(rule) in ours]
    if existing is not None and _said(before) == _said(wanted):
        return None
    document = Element(root, {"xmlns": NAMESPACE})
    document.extend([rule for rule in present if _id_of(rule) not in ours])
    document.extend(wanted)
    return ElementTree.tostring(document)


def missing(existing: bytes | None, wanted: Sequence[Element]) -> list[str]:
    """The ids of rules that are not there as they are wanted."""
    present = [] if existing is None else list(_plain(ElementTree.fromstring(existing)))
    kept = _said(present)
    return [_id_of(rule) for rule in wanted if not _said([rule]) <= kept]


def described(rules: Sequence[Element]) -> list[str]:
    """For people, a line each."""
    return [" ".join(text for text in rule.itertext() if text.strip()) for rule in rules]


def _id_of(rule: Element) -> str:
    return rule.findtext("ID") or ""


def _plain(root: Element) -> Element:
    """Without namespaces: some servers have them, some do not."""
    for each in root.iter():
        each.tag = each.tag.rpartition("}")[2]
    return root


def _said(rules: Sequence[Element]) -> set[frozenset[tuple[str, str]]]:
    """What they say, in whatever order."""
    return {
        frozenset((each.tag, (each.text or "").strip()) for each in rule.iter()) for rule in rules
    }
