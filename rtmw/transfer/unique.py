"""The ids that a store gives are its own: a START begins a new incarnation where they might be those of another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rtmw.transfer.effects import Steps
from rtmw.transfer.place import Lies
from rtmw.transfer.queues import Item
from rtmw.transfer.records import NONE, Change, Start, TransferId, TransferState
from rtmw.transfer.state import State
from rtmw.transfer.undoing import append

__all__ = ["start"]

NEXT: Final = 1 << 32
"""A new incarnation is larger by so much at least: those between are of transfers that no log keeps, one for each
life."""


def start(state: State, node: str, wall_ns: int, lies: Lies) -> Steps[None]:
    """Log the START of a core. Of a store that was set back, transfers that may have ids of others get new ones."""
    waiting = _of_last_life(state) if lies is Lies.BEHIND else []
    is_new = lies is not Lies.HERE or not state.incarnation
    incarnation = max(wall_ns, state.incarnation + NEXT) if is_new else state.incarnation
    yield from append(state, Start(state.life + 1, node, incarnation))
    for item in waiting:
        id = TransferId(state.node, state.incarnation, (state.life << 32) + state.sequence + 1)
        yield from append(state, replace(item.record, id=id, txn=NONE, prev=NONE))
        cause = f"the store of its node was set back, and this id was used before; it goes on as {id}"
        yield from append(state, Change(item.lsn, TransferState.CANCELLED, cause))


def _of_last_life(state: State) -> list[Item]:
    """Transfers that the life before this one has accepted for other nodes, and that have gone to none. Those of
    earlier lives may be older than the store that was set back, and their ids are right then."""
    items = [state.items[lsn] for lsn, _ in state.items.for_nodes()]
    return [item for item in items if item.state is TransferState.ACCEPTED and _is_of_life(state, item.record.id)]


def _is_of_life(state: State, id: TransferId) -> bool:
    return state.is_own(id) and id.sequence >> 32 == state.life
