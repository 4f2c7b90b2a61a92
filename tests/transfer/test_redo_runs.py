"""Runs that recovery sees in the records of a log, and in a checkpoint. `test_runs.py` compares the states."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rtmw.transfer.address import Life
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.events import ArriveRun, ConsumeRun, ReceiverJoined, SendRun, SendTransfer, TakeRun
from rtmw.transfer.records import Request, TransferId, TransferState
from rtmw.transfer.recovery import RUN_MOST, pack_state, redo, unpack_state
from rtmw.transfer.state import State
from tests.transfer.memory import ME, Core, header
from tests.transfer.test_runs import one_by_one

PRODUCERS = (Life(5000, 77, 0), Life(5001, 77, 0))
FAR = 1 << 40
"""Behind all records."""


def letters(count: int) -> Core:
    """A core in which so many letters wait, of several sizes."""
    core = Core()
    core.step(ReceiverJoined("ingest", ME))
    bodies = [bytes(1 + at % 40) for at in range(count)]
    core.step(SendRun(header(bodies[0]), bodies, "gauge", Request(PRODUCERS[0], 1)))
    return core


def arrived(count: int) -> Core:
    """The same of letters of another node, which sends every second one to others."""
    core = Core()
    core.step(ReceiverJoined("ingest", ME))
    core.step(ArriveRun(header(b"xx"), "valve", {TransferId("hub", 9, 2 * at): b"xx" for at in range(count)}))
    return core


def again(core: Core) -> State:
    state = redo(core.log.records()).state
    assert state is not None
    assert pack_state(state) == pack_state(one_by_one(core.log.records()))
    return state


@pytest.mark.parametrize("core", [letters(3 * RUN_MOST), arrived(3 * RUN_MOST)])
def test_letters_that_wait_are_runs_again(core: Core) -> None:
    for state in (again(core), unpack_state(pack_state(core.state), FAR)):
        runs = list(state.items.runs)
        assert len(state.items.made) <= 3
        assert len(runs) <= 2 * RUN_MOST.bit_length()


def test_runs_that_are_taken_and_consumed_leave_nothing() -> None:
    core = letters(2 * RUN_MOST)
    while taken := core.step(TakeRun("ingest", ME, 100)):
        assert isinstance(taken, list)
        assert core.step(ConsumeRun([item.lsn for item in taken], ME)) is True
    assert again(core).counts == {TransferState.CONSUMED: 2 * RUN_MOST}


def test_letters_of_senders_that_take_turns_are_those_that_they_are_one_by_one() -> None:
    core = Core()
    for number in range(1, 50):
        for producer, service in zip(PRODUCERS, ("ingest", "archive"), strict=True):
            core.step(SendTransfer(header(b"x", service), b"x", "gauge", request=Request(producer, number)))
    assert len(again(core).items) == 98


def test_letters_that_are_found_in_a_run_again_are_answered_by_what_asked_for_them() -> None:
    core = letters(RUN_MOST)
    for state in (again(core), unpack_state(pack_state(core.state), FAR)):
        (id,) = state.asked_before(Request(PRODUCERS[0], RUN_MOST // 2))
        item = state.find(id)
        assert item is not None
        assert (item.record.request, item.visible) == (Request(PRODUCERS[0], RUN_MOST // 2), item.lsn)


def contradicting(records: Sequence[tuple[int, bytes]], kind: int) -> list[tuple[int, bytes]]:
    """The last record of this kind comes again behind all others, twice."""
    last = [data for _, data in records if data[1] == kind][-1]
    return [*records, (FAR, last), (FAR + 1, last)]


@pytest.mark.parametrize(("kind", "wrong"), [(1, "comes again"), (2, "TAKE of"), (9, "becomes CONSUMED; it is not")])
def test_a_record_that_contradicts_those_before_it_is_refused_where_it_looks_like_a_run(kind: int, wrong: str) -> None:
    core = letters(9)
    taken = core.step(TakeRun("ingest", ME, 5))
    assert isinstance(taken, list)
    core.step(ConsumeRun([item.lsn for item in taken], ME))
    with pytest.raises(TransfersDamaged, match=wrong) as caught:
        redo(contradicting(core.log.records(), kind))
    assert caught.value.position == FAR


def test_a_transfer_that_a_checkpoint_has_twice_is_refused_where_it_looks_like_a_run() -> None:
    core = letters(2)
    second = max(core.state.items)
    data = pack_state(core.state).replace(second.to_bytes(8, "little"), min(core.state.items).to_bytes(8, "little"))
    with pytest.raises(TransfersDamaged, match="which cannot be"):
        unpack_state(data, FAR)
