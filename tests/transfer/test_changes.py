"""A run of records that each name one letter, beside each of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rtmw.transfer.records import NONE, Change, ChangeRun, Take, TransferState, pack
from tests.transfer.memory import ME


@pytest.mark.parametrize(
    "model",
    [Take(NONE, NONE, 800, ME), Change(800, TransferState.CONSUMED), Change(800, TransferState.REFUSED, "unwanted")],
    ids=["takes", "changes", "changes for a cause"],
)
def test_the_records_of_a_run_are_those_of_its_letters(model: Take | Change) -> None:
    run = ChangeRun(model, [800, 960, 1 << 63])
    assert len(run) == 3
    assert list(run) == [pack(replace(model, item=item)) for item in run.items]
