"""Wrong versions quote lines of the sources: those that no longer fit prove nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from wrong_versions import MUTANTS, Mutant

SOURCES = Path(__file__).parents[2] / "src" / "rushes"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant[0])
def test_a_mutant_fits_the_sources(mutant: Mutant) -> None:
    text = (SOURCES / mutant[1]).read_text()
    for right, wrong in zip(mutant[2::2], mutant[3::2], strict=True):
        assert right in text
        text = text.replace(right, wrong)
