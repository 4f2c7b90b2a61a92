"""High-water marks and gaps beside a set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmw.transfer import seen
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.records import TransferId
from rtmw.transfer.seen import HighWater, Seen


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=80))
def test_marks_and_gaps_say_what_a_set_says(steps: list[tuple[bool, int]]) -> None:
    mark, wanted = HighWater(), set[int]()
    for comes, sequence in steps:
        (mark.add if comes else mark.discard)(sequence)
        (wanted.add if comes else wanted.discard)(sequence)
        assert [number for number in range(40) if number in mark] == sorted(wanted)
        assert mark.high == max(wanted, default=-1)
        missing = sorted(set(range(mark.high + 1)) - wanted)
        assert [number for first, last in mark.gaps for number in range(first, last + 1)] == missing
        assert all(last + 1 < first for (_, last), (first, _) in zip(mark.gaps, mark.gaps[1:], strict=False))


def test_a_life_that_ends_leaves_one_gap_however_many_sequences_it_did_not_use() -> None:
    mark = HighWater()
    for life in range(1, 4):
        for number in range(1, 100):
            mark.add((life << 32) + number)
    assert len(mark.gaps) == 3


def test_more_gaps_than_are_kept_are_refused_and_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "MOST_GAPS", 2)
    known = Seen()
    for sequence in (1, 3):
        known.check(TransferId("b", 1, sequence))
        known.add(TransferId("b", 1, sequence))
    with pytest.raises(TransferRefused, match="2 are open; send first what is missing below 3"):
        known.check(TransferId("b", 1, 5))
    known.check(TransferId("b", 1, 4))
    known.check(TransferId("b", 1, 2))


def test_an_incarnation_that_is_forgotten_is_refused_and_not_taken_for_a_new_one() -> None:
    known = Seen()
    for incarnation in range(10, 10 + seen.MOST_INCARNATIONS + 1):
        known.add(TransferId("b", incarnation, 1))
    with pytest.raises(TransferRefused, match="nobody knows"):
        known.check(TransferId("b", 10, 1))
    known.check(TransferId("b", 11, 2))
    known.check(TransferId("c", 1, 1))
