"""The queue and the replicated log as models in Promela: no interleaving and no death breaks what is promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.check import REPLICA, search, what_is_missing
from tests.model.sizes import REPLICA_SMALL, REPLICA_WITHOUT, SMALL, WITHOUT
from tests.whole import sample

LONG = 300.0

pytestmark = [
    pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing())),
    pytest.mark.timeout(3 * LONG),
]


@pytest.mark.parametrize("size", SMALL)
# Proves G34, G60.
def test_no_interleaving_and_no_death_breaks_the_queue(size: str, tmp_path: Path) -> None:
    found = search(tmp_path, SMALL[size], LONG)
    assert found.violation is None
    assert found.states > 10_000


@pytest.mark.parametrize("precaution", WITHOUT)
# Proves G98.
def test_the_queue_breaks_without_a_precaution(precaution: str, tmp_path: Path) -> None:
    assert search(tmp_path, WITHOUT[precaution], LONG).violation is not None


@pytest.mark.parametrize("size", sample(REPLICA_SMALL, 1))
# Proves G373.
def test_no_crash_loss_or_delay_makes_replicas_lose_what_was_committed(size: str, tmp_path: Path) -> None:
    found = search(tmp_path, REPLICA_SMALL[size], LONG, REPLICA)
    assert found.violation is None
    assert found.states > 10_000


@pytest.mark.parametrize("rule", sample(REPLICA_WITHOUT, 2))
# Proves G346.
def test_replicas_break_without_a_rule(rule: str, tmp_path: Path) -> None:
    assert search(tmp_path, REPLICA_WITHOUT[rule], LONG, REPLICA).violation is not None
