"""What two cores hold, without the numbers of their records: these differ where letters share one."""

from __future__ import annotations

from typing import Any

from rtmw.transfer.events import Came, Effect, Moved
from rtmw.transfer.queues import Item
from rtmw.transfer.state import State


def item_view(item: Item) -> tuple[Any, ...]:
    """All of a transfer but its number."""
    record = item.record
    told = record.id, record.header, record.body, record.sender, record.life, record.deadline_ns, record.copy
    return *told, record.request, record.once, item.state, item.txn, item.taker, item.deliveries, item.cause


def state_view(state: State) -> dict[str, Any]:
    """All of a state but the numbers, and who would be handed what next."""
    heads = {
        (name, life): found.record.id
        for name, queue in state.queues.items()
        for life in {None, *queue.lists}
        if (found := queue.first(life, state.items)) is not None
    }
    return {
        "items": [item_view(item) for item in state.items.values()],
        "count": (len(state.items), state.items.inline_bytes),
        "for nodes": [node for _, node in state.items.for_nodes()],
        "heads": heads,
        "owed": state.owed,
        "seen": state.seen.marks,
        "requests": state.requests.marks,
        "sequence": (state.life, state.sequence),
        "counts": state.counts,
        "ends": state.ends,
        "asked": [
            state.asked_before(item.record.request) for item in state.items.values() if item.record.request is not None
        ],
    }


def effects_view(effects: list[Effect]) -> list[tuple[Any, ...]]:
    """Which transfers have moved, one by one, in order; those that came are ACCEPTED in either form."""
    return [
        (item.record.id, note.state, note.cause) for note in effects if isinstance(note, Moved) for item in note.items
    ] + [(note,) for note in effects if not isinstance(note, Moved | Came)]
