"""From records to a state: where it begins, what it refuses, and that it says how far it is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rtmw.transfer.address import Life
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.events import ReceiverJoined, SendTransfers, SettleTransfers, TakeTransfers
from rtmw.transfer.records import NONE, Enqueue, Request, TransferId, TransferState, pack
from rtmw.transfer.recovery import LOOK, checkpoint_of, pack_state, redo, saying, unpack_state
from rtmw.transfer.state import State
from tests.transfer.memory import ME, Core, header
from tests.transfer.steps import arriving, settle

PRODUCER = Life(5000, 77, 0)
FAR = 1 << 40
"""Behind all records."""
NEVER_UNPACKED = b"\xff\x01 what a later version may have written"


def letters(count: int) -> Core:
    """A core in which so many letters of one record wait, of several sizes."""
    core = Core()
    core.step(ReceiverJoined("ingest", ME))
    bodies = [bytes(1 + at % 40) for at in range(count)]
    core.step(SendTransfers(header(bodies[0]), bodies, "gauge", request=Request(PRODUCER, 1)))
    return core


def arrived(count: int) -> Core:
    """The same of letters of another node, which sends every second one to others."""
    core = Core()
    core.step(ReceiverJoined("ingest", ME))
    core.step(arriving(header(b"xx"), {TransferId("hub", 9, 2 * at): b"xx" for at in range(count)}))
    return core


def again(core: Core) -> list[State]:
    """The state that the records say, and that of a checkpoint."""
    packed = pack_state(core.state)
    states = [redo(core.log.records()).state, unpack_state(packed, FAR)]
    assert all(state is not None and pack_state(state) == packed for state in states)
    return states  # type: ignore[return-value]


def taken(core: Core, most: int) -> list[int]:
    found: Any = core.step(TakeTransfers("ingest", ME, most=most))
    return [item.lsn for item in found]


@pytest.mark.parametrize("core", [letters(100), arrived(100)])
def test_letters_of_one_record_that_wait_are_one_record_again(core: Core) -> None:
    for state in again(core):
        assert not state.items.made
        assert [len(run.record) for run in state.items.runs] == [100]
        assert len(state.items) == 100


def test_letters_that_were_looked_at_make_no_other_checkpoint() -> None:
    core = letters(9)
    packed = pack_state(core.state)
    assert list(core.state.items.values())
    assert pack_state(core.state) == packed


def test_letters_of_one_record_may_have_any_states() -> None:
    core = letters(9)
    numbers = taken(core, 6)
    core.step(SettleTransfers([numbers[0], numbers[3]], TransferState.CONSUMED, by=ME))
    settle(core, numbers[1], TransferState.ACCEPTED, "later", by=ME)
    settle(core, numbers[4], TransferState.DEAD, "spoilt")
    for state in again(core):
        found = [(lsn, item.state.name, item.deliveries, item.cause) for lsn, item in state.items.items()]
        assert found == [
            (numbers[1], "ACCEPTED", 1, "later"),
            (numbers[2], "DELIVERED", 1, ""),
            (numbers[4], "DEAD", 1, "spoilt"),
            (numbers[5], "DELIVERED", 1, ""),
            *((numbers[5] + at, "ACCEPTED", 0, "") for at in (1, 2, 3)),
        ]
        assert state.numbers(TransferId("plant", 5, (1 << 32) + 1)) == ()
        assert state.numbers(TransferId("plant", 5, (1 << 32) + 2)) == (numbers[1],)


def test_letters_that_are_taken_and_consumed_leave_nothing() -> None:
    core = letters(500)
    while numbers := taken(core, 100):
        assert core.step(SettleTransfers(numbers, TransferState.CONSUMED, by=ME)) == {}
    for state in again(core):
        assert state.counts == {TransferState.CONSUMED: 500}
        assert not list(state.items.runs)
        assert not state.items.inline_bytes


def test_letters_of_one_record_are_answered_by_what_asked_for_them() -> None:
    core = letters(20)
    for state in again(core):
        (id,) = state.asked_before(Request(PRODUCER, 10))
        item = state.find(id)
        assert item is not None
        assert (item.record.request, item.visible) == (Request(PRODUCER, 10), item.lsn)


def contradicting(records: Sequence[tuple[int, bytes]], kind: int) -> list[tuple[int, bytes]]:
    """The last record of this kind comes again behind all others."""
    return [*records, (FAR, [data for _, data in records if data[1] == kind][-1])]


@pytest.mark.parametrize(("kind", "wrong"), [(1, "comes again"), (2, "TAKE of"), (9, "becomes CONSUMED; it is not")])
@pytest.mark.parametrize("core", [letters(9), arrived(9)])
def test_a_record_that_contradicts_those_before_it_is_refused(core: Core, kind: int, wrong: str) -> None:
    if not core.state.counts:
        core.step(SettleTransfers(taken(core, 5), TransferState.CONSUMED, by=ME))
    with pytest.raises(TransfersDamaged, match=wrong) as caught:
        redo(contradicting(core.log.records(), kind))
    assert caught.value.position == FAR


OWN = TransferId("plant", 5, 7)
HUBS = TransferId("hub", 9, 7)
STARTED = 1 << 32
"""Sequences of the first life are above this one."""
TWO = Enqueue(NONE, NONE, HUBS, header(b"x"), (b"x", b"y"), "valve", others=(8,))


@pytest.mark.parametrize(
    ("record", "wrong"),
    [
        (replace(TWO, others=(7,)), "comes again"),
        (replace(TWO, id=OWN), "letters of node 'plant' that None has sent"),
        (replace(TWO, id=OWN, others=(), request=Request(PRODUCER, 5)), "comes again"),
        (replace(TWO, others=(), request=Request(PRODUCER, 1)), "letters of node 'hub' that Request"),
        (
            replace(TWO, id=TransferId("plant", 5, (1 << 32) + 4), others=(), request=Request(PRODUCER, 4)),
            "comes again",
        ),
        (
            replace(TWO, id=TransferId("plant", 5, (1 << 32) + 5), others=(), request=Request(PRODUCER, 3)),
            "comes again",
        ),
    ],
)
def test_letters_in_one_record_that_cannot_be_are_refused(record: Enqueue, wrong: str) -> None:
    records = letters(4).log.records()
    with pytest.raises(TransfersDamaged, match=wrong):
        redo([*records, (FAR, pack(record))])


def test_a_transfer_that_a_checkpoint_has_twice_is_refused() -> None:
    core = letters(2)
    core.step(SendTransfers(header(b"x"), [b"x"], "gauge", request=Request(PRODUCER, 3)))
    last = max(core.state.items)
    assert unpack_state(pack_state(core.state), FAR)
    for number in (min(core.state.items), min(core.state.items) + 1, FAR):
        data = pack_state(core.state).replace(last.to_bytes(8, "little"), number.to_bytes(8, "little"))
        with pytest.raises(TransfersDamaged, match="which cannot be"):
            unpack_state(data, FAR)


def test_what_lies_before_the_first_whole_checkpoint_is_not_unpacked() -> None:
    state = letters(3).state
    parts = [pack(part) for part in checkpoint_of(state)]
    before = [NEVER_UNPACKED, pack(next(iter(checkpoint_of(State())))).replace(b"\x02\x0b", b"\x02\x0c", 1)]
    records = list(enumerate([*before, *parts], start=1 << 40))
    done = redo(records)
    assert done.state is not None
    assert (pack_state(done.state), done.checkpoint) == (pack_state(state), (1 << 40) + len(before))


def test_a_log_that_takes_long_to_read_says_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rtmw.transfer")
    records = [(at << 10, b"") for at in range(100, 100 + 2 * LOOK)]
    assert list(saying(records, (100 + 4 * LOOK) << 10, every=0)) == records
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"reads the log of its transfers: {done} of 4.0 MiB" for done in ("0 B", "1.0 MiB")]


def test_a_log_that_is_read_at_once_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rtmw.transfer")
    assert len(list(saying([(1, b"")] * (LOOK + 1), 2))) == LOOK + 1
    assert not caplog.records
