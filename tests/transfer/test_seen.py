"""High-water marks and gaps beside a set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmw.transfer import duplicates
from rtmw.transfer.address import Address
from rtmw.transfer.duplicates import HighWater, Seen
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.header import Delivery, Header, Kind, Level
from rtmw.transfer.records import NONE, Change, Enqueue, Settled, TransferId, TransferState
from rtmw.transfer.state import State


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


# Proves G200.
def test_of_more_gaps_than_are_kept_the_oldest_are_one_and_only_what_lies_between_them_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(duplicates, "MOST_GAPS", 2)
    known = Seen()
    for sequence in (1, 3, 5, 7):
        known.check(TransferId("b", 1, sequence))
        known.add(TransferId("b", 1, sequence))
    assert known.marks["b"][1].gaps == [(0, 4), (6, 6)]
    assert [sequence for sequence in range(9) if TransferId("b", 1, sequence) in known] == [5, 7]
    for sequence in (6, 2):
        known.add(TransferId("b", 1, sequence))
    assert known.marks["b"][1].gaps == [(0, 1), (3, 4)]


# Proves G200.
def test_what_has_not_ended_or_is_owed_has_come_however_many_gaps_lie_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(duplicates, "MOST_GAPS", 2)
    ids = [TransferId("b", 1, 2 * number) for number in range(1, 50)]
    state = State()
    state.node, state.incarnation = "a", 1
    header = Header(Address.parse("ingest"), Kind.BUF, 1, Level.ACCEPTED, Delivery.LOG, 0, 0, 0)
    for lsn, id in enumerate(ids, 1):
        state.apply(lsn, Enqueue(NONE, NONE, id, header, (b"x",), "gauge", None, NONE, 0, None, b""))
    assert all(state.has_come(id) for id in ids)
    state.apply(100, Change((1,), TransferState.CANCELLED, ""))
    assert state.has_come(ids[0]), "its node does not know yet how it has ended"
    state.apply(101, Settled(ids[0]))
    assert [id for id in ids if not state.has_come(id)] == [ids[0]]


def test_an_incarnation_that_is_forgotten_is_refused_and_not_taken_for_a_new_one() -> None:
    known = Seen()
    for incarnation in range(10, 10 + duplicates.MOST_INCARNATIONS + 1):
        known.add(TransferId("b", incarnation, 1))
    with pytest.raises(TransferRefused, match="nobody knows"):
        known.check(TransferId("b", 10, 1))
    known.check(TransferId("b", 11, 2))
    known.check(TransferId("c", 1, 1))
