"""The queue as a model in Promela: no interleaving and no death in it breaks what is promised. See queue.pml."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.check import search, what_is_missing
from tests.model.sizes import SMALL, WITHOUT

LONG = 300.0

pytestmark = [
    pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing())),
    pytest.mark.timeout(3 * LONG),
]


@pytest.mark.parametrize("size", SMALL)
def test_no_interleaving_and_no_death_breaks_the_queue(size: str, tmp_path: Path) -> None:
    found = search(tmp_path, SMALL[size], LONG)
    assert found.violation is None
    assert found.states > 10_000


@pytest.mark.parametrize("precaution", WITHOUT)
def test_the_queue_breaks_without_a_precaution(precaution: str, tmp_path: Path) -> None:
    assert search(tmp_path, WITHOUT[precaution], LONG).violation is not None
