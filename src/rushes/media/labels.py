"""Tags and collections: names that an owner has for some of the owner's media.

Names are the same whatever their capitals and Unicode form; the one that came first is shown. What
somebody else owns is not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rushes import errors
from rushes.db.database import Tx
from rushes.media import label_store, media
from rushes.media.label_store import Label, LabelKind
from rushes.media.media import Media
from rushes.text_match import folded

NAME_LIMITS: Mapping[LabelKind, int] = {"tag": 100, "collection": 200}
# Of one user.
MOST: Mapping[LabelKind, int] = {"tag": 2_000, "collection": 10_000}
# Of one media, of each kind.
MOST_OF_MEDIA = 50
COLLECTION_ID = re.compile(r"col_[0-9a-f]{32}")
FIELDS: Mapping[LabelKind, str] = {"tag": "tags", "collection": "collections"}


def check_name(kind: LabelKind, name: str, field: str = "name") -> str:
    tidy = media.one_line(name)
    if not folded(tidy).strip():
        raise errors.BadField(field, "must not be empty")
    if len(tidy) > NAME_LIMITS[kind]:
        raise errors.BadField(field, f"a {kind} must have at most {NAME_LIMITS[kind]} characters")
    if COLLECTION_ID.fullmatch(tidy):
        raise errors.BadField(field, "must not look like the id of a collection")
    return tidy


def folder_name(path: str) -> str | None:
    """The collection of a file that came in this folder, such as `2020/Summer`; None: of none."""
    parts = (media.one_line(part) for part in re.split(r"[/\\]", path))
    kept = [part for part in parts if part not in ("", ".", "..")]
    name = "/".join(kept)[: NAME_LIMITS["collection"]].strip("/ ")
    return None if COLLECTION_ID.fullmatch(name) else name or None


# Labels themselves


def found(tx: Tx, kind: LabelKind, id: str, user_id: str | None) -> Label:
    """NotFound also for what is somebody else's."""
    label = label_store.get(tx, id, kind, user_id)
    if label is None:
        raise errors.NotFound(f"no {kind} {id}")
    return label


def create(tx: Tx, user_id: str, kind: LabelKind, name: str) -> Label:
    name = check_name(kind, name)
    if label_store.named(tx, user_id, kind, [name]):
        raise errors.AlreadyExists(f"there is a {kind} of this name already")
    return _add(tx, user_id, kind, name)


def rename(tx: Tx, label: Label, name: str) -> None:
    if not label_store.rename(tx, label, check_name(label.kind, name)):
        raise errors.AlreadyExists(f"there is another {label.kind} of this name")


def _add(tx: Tx, user_id: str, kind: LabelKind, name: str) -> Label:
    if label_store.count(tx, user_id, kind) >= MOST[kind]:
        raise errors.BadField(FIELDS[kind], f"you can have at most {MOST[kind]} {FIELDS[kind]}")
    return label_store.add(tx, user_id, kind, name)


# What media have


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelChange:
    """Which to add and which to take away. A tag is its name, a collection its id or its name;
    what is added under a name that is not there yet is made."""

    add: Sequence[str] = ()
    remove: Sequence[str] = ()


def change(
    tx: Tx, kind: LabelKind, user_id: str, media_ids: Sequence[str], wanted: LabelChange
) -> list[str]:
    """Of one owner's media; those that were changed. NotFound for a collection's id that is not
    the owner's."""
    added = _labels(tx, kind, user_id, wanted.add, make=True)
    changed: set[str] = set()
    for label in _labels(tx, kind, user_id, wanted.remove):
        changed.update(label_store.take(tx, label.id, media_ids))
    for label in added:
        changed.update(label_store.put(tx, label.id, media_ids))
    if added:
        _check_number(tx, kind, media_ids)
    if changed:
        label_store.tell(tx, sorted(changed))
    return sorted(changed)


def replace(tx: Tx, kind: LabelKind, item: Media, wanted: Sequence[str]) -> None:
    """All that the media is to have of this kind."""
    labels = {each.id for each in _labels(tx, kind, item.user_id, wanted, make=True)}
    there = label_store.of_media(tx, [item.id]).get(item.id, [])
    before = {each.id for each in there if each.kind == kind}
    for id in sorted(before - labels):
        label_store.take(tx, id, [item.id])
    for id in sorted(labels - before):
        label_store.put(tx, id, [item.id])


def put_in_folder(tx: Tx, user_id: str, media_id: str, folder: str | None) -> None:
    """Never a reason to refuse a file that has arrived."""
    name = folder_name(folder) if folder else None
    if name is None:
        return
    known = label_store.named(tx, user_id, "collection", [name])
    if not known and label_store.count(tx, user_id, "collection") >= MOST["collection"]:
        return
    label = known[0] if known else label_store.add(tx, user_id, "collection", name)
    label_store.put(tx, label.id, [media_id])


def _labels(
    tx: Tx, kind: LabelKind, user_id: str, said: Sequence[str], *, make: bool = False
) -> list[Label]:
    """Each once. What is to be taken away and is not there is no error."""
    field = FIELDS[kind]
    if len(said) > MOST_OF_MEDIA:
        raise errors.BadField(field, f"a media can have at most {MOST_OF_MEDIA} {field}")
    by_id: dict[str, Label] = {}
    names: dict[str, str] = {}
    for each in said:
        if kind == "collection" and COLLECTION_ID.fullmatch(each):
            by_id[each] = found(tx, kind, each, user_id)
        else:
            name = check_name(kind, each, field)
            names.setdefault(folded(name), name)
    known = {each.name_folded: each for each in label_store.named(tx, user_id, kind, [*names])}
    for key, name in names.items():
        if key not in known and make:
            known[key] = _add(tx, user_id, kind, name)
    return [*(by_id | {each.id: each for each in known.values()}).values()]


def _check_number(tx: Tx, kind: LabelKind, media_ids: Sequence[str]) -> None:
    for labels in label_store.of_media(tx, media_ids).values():
        if sum(each.kind == kind for each in labels) > MOST_OF_MEDIA:
            field = FIELDS[kind]
            raise errors.BadField(field, f"a media can have at most {MOST_OF_MEDIA} {field}")


# Looking for media by them


def wanted(
    tx: Tx, *, sees: str | None, user_id: str, tag: str | None, collection: str | None
) -> tuple[tuple[str, ...], ...]:
    """For a filter: of each, the ids of labels that are meant. A tag of the same name means the
    same to whoever sees several users' media. NotFound for a collection that is not there."""
    asked: list[tuple[str, ...]] = []
    if collection is not None:
        asked.append((_collection(tx, sees, user_id, collection).id,))
    if tag is not None:
        named = label_store.named(tx, sees, "tag", [media.one_line(tag)])
        asked.append(tuple(sorted(each.id for each in named)))
    return tuple(asked)


def _collection(tx: Tx, sees: str | None, user_id: str, said: str) -> Label:
    if COLLECTION_ID.fullmatch(said):
        return found(tx, "collection", said, sees)
    for label in label_store.named(tx, user_id, "collection", [media.one_line(said)]):
        return label
    raise errors.NotFound("no collection of this name")
