"""A checkpoint as records: parts of a bounded size, whose content put together is the state."""

from __future__ import annotations

import tracemalloc

import pytest

from rtmw.transfer.records import LARGEST_PART, TransferId, TransferState
from rtmw.transfer.recovery import checkpoint_of, pack_state, unpack_state
from rtmw.transfer.state import State
from tests.transfer.memory import Core, header
from tests.transfer.steps import arriving

LONG = "x" * 4000


def state_of(size: int) -> State:
    """A state whose checkpoint has so many bytes."""
    state = State()
    state.node, state.incarnation, state.life = "plant", 77, 1
    while size - len(pack_state(state)) > 2 * len(LONG):
        _owe(state, LONG)
    _owe(state, "")
    while size - len(pack_state(state)) > 1000:
        _owe(state, "x" * 500)
    id, (how, _) = state.owed.popitem()
    state.owed[id] = how, ""
    state.owed[id] = how, "x" * (size - len(pack_state(state)))
    return state


def _owe(state: State, cause: str) -> None:
    state.owed[TransferId("river", 5, len(state.owed))] = TransferState.REFUSED, cause


@pytest.mark.parametrize("size", [LARGEST_PART - 1, LARGEST_PART, LARGEST_PART + 1, 5 * LARGEST_PART, 200_000])
def test_all_parts_of_a_checkpoint_but_the_last_are_as_large_as_they_may_be(size: int) -> None:
    state = state_of(size)
    data, parts = pack_state(state), list(checkpoint_of(state))
    assert len(data) == size
    assert b"".join(part.data for part in parts) == data
    assert [len(part.data) for part in parts[:-1]] == [LARGEST_PART] * ((size - 1) // LARGEST_PART)
    assert [(part.index, part.last) for part in parts] == [(at, at + 1 == len(parts)) for at in range(len(parts))]
    assert pack_state(unpack_state(data, 1 << 40)) == data


def test_a_part_of_a_checkpoint_takes_the_memory_of_one_record_beside_its_own() -> None:
    """Records of letters are as large as a peer makes them."""
    core = Core()
    body = bytes(4000)
    for number in range(16):
        letters = {TransferId("hub", 9, number << 16 | at): body for at in range(256)}
        core.step(arriving(header(body), letters))
    parts = checkpoint_of(core.state)
    tracemalloc.start()
    try:
        first = next(parts)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(first.data) == LARGEST_PART
    assert peak < 8 * 256 * len(body)


def test_a_state_that_holds_nothing_has_a_checkpoint_of_one_part() -> None:
    (part,) = checkpoint_of(State())
    assert (part.index, part.last, part.data) == (0, True, pack_state(State()))
