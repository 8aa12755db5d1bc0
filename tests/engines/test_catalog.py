"""The manifest of models."""

from __future__ import annotations

import re

import pytest

from rushes.engines import catalog
from rushes.engines.catalog import Hub, Packages
from rushes.engines.engine import DEFAULT_MODEL, DEFAULT_SPEAKERS, ModelUnavailable


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("whisper-base", "whisper-base"),
        ("base", "whisper-base"),
        ("tiny.en", "whisper-tiny.en"),
        ("whisper-1", "whisper-base"),
        (" Large-V3-Turbo ", "whisper-large-v3-turbo"),
        ("diarization-default", "diarization-default"),
    ],
)
def test_models_have_short_names(said: str, meant: str) -> None:
    assert catalog.find(said).name == meant


@pytest.mark.parametrize("said", ["", "huge", "../whisper-base", "whisper-base/.."])
def test_what_there_is_not_is_told_with_what_there_is(said: str) -> None:
    with pytest.raises(ModelUnavailable, match="there are whisper-tiny, whisper-tiny"):
        catalog.find(said)


def test_every_file_is_pinned_and_has_an_origin() -> None:
    for entry in catalog.MODELS.values():
        assert isinstance(entry.sources[0], Hub), "the hub is asked first"
        for source in entry.sources:
            names = {each.name for each in source.files}
            assert len(names) == len(source.files)
            assert all(re.fullmatch("[0-9a-f]{64}", each.sha256) for each in source.files)
            assert all(re.fullmatch(r"[\w.]+", name) for name in names)
            match source:
                case Hub():
                    assert set(source.origins) == names
                    revisions = [each.revision for each in source.origins.values()]
                    assert all(re.fullmatch("[0-9a-f]{40}", each) for each in revisions)
                case Packages():
                    assert set(source.parts) == names
                    assert set(source.metadata) <= names
                    given = {each.name for each in source.wheels}
                    used = {package for parts in source.parts.values() for package, _ in parts}
                    assert used == given
                    assert all(re.fullmatch("[0-9a-f]{64}", each.sha256) for each in source.wheels)


def test_the_defaults_can_be_had_without_a_hub() -> None:
    for name in (DEFAULT_MODEL, DEFAULT_SPEAKERS, "whisper-tiny.en"):
        assert any(isinstance(each, Packages) for each in catalog.find(name).sources)


def test_the_package_of_the_default_model_holds_the_very_files_of_the_hub() -> None:
    hub, packages, *_ = catalog.find(DEFAULT_MODEL).sources
    assert hub.files == packages.files
