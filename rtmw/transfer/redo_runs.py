"""Recovery of letters by the run: the records of a run differ in a few numbers and the bodies, so they are unpacked,
and applied, together, with the same state as one by one.

What the first record is like is taken to hold for those behind it, and they are packed again: as many of them as have
the same bytes belong to its run. What no run may have is left to `State.apply`, which says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rtmw.transfer.changes import ChangeRun, changes_in
from rtmw.transfer.enqueued import EnqueuedRun, letters_in, may_follow
from rtmw.transfer.queues import Item, next_states
from rtmw.transfer.record_bytes import ITEM
from rtmw.transfer.records import NONE, Change, Enqueue, Record, Spooled, Take, TransferState
from rtmw.transfer.runs import COMMON, is_plain
from rtmw.transfer.state import State

__all__ = ["RUN_MOST", "keep_run", "most_next", "redo_run"]

RUN_MOST: Final = 256
"""Records that are looked at together."""


def redo_run(state: State, first: Record, lsns: Sequence[int], records: Sequence[bytes]) -> int:
    """Apply the run at the front of these records, of which `first` is the first one: how many it has. 0: nothing was
    applied. The records are two or more."""
    if isinstance(first, Enqueue):
        return _redo_letters(state, first, lsns, records)
    if isinstance(first, Take | Change) and first.txn == NONE and records[0][:ITEM] == records[1][:ITEM]:
        return _redo_changes(state, changes_in(first, records))
    return 0


def _is_common(record: Enqueue) -> bool:
    """Does it go the common way (`runs`)?"""
    is_alone = record.txn == record.prev == NONE and not isinstance(record.body, Spooled)
    is_special = record.life is not None or record.deadline_ns or record.copy or record.once
    return is_alone and not is_special and is_plain(record.header)


def _run_at(first: Enqueue, lsns: Sequence[int], records: Sequence[bytes]) -> EnqueuedRun | None:
    """None: the first two are no letters of the common way, or not of one run."""
    if len(records) == 1 or not may_follow(first, records[0], records[1]) or not _is_common(first):
        return None
    run = letters_in(first, records)
    run.lsns = lsns[: len(run)]
    return run if run.bodies else None


def _redo_letters(state: State, first: Enqueue, lsns: Sequence[int], records: Sequence[bytes]) -> int:
    run, request = _run_at(first, lsns, records), first.request
    if run is None:
        return 0
    if state.is_own(first.id):
        if request is None or not (state.seen.is_next(first.id) and state.requests.is_new(request)):
            return 0
        state.apply_run(run, request)
    else:
        ids = run.ids
        if request is not None or len(set(ids)) < len(ids) or any(map(state.has_come, ids)):
            return 0
        state.apply_arrivals(run, ids)
    return len(run)


def _redo_changes(state: State, run: ChangeRun) -> int:
    items = [item for lsn in dict.fromkeys(run.items) if (item := state.items.get(lsn)) is not None]
    if len(items) < len(run):
        return 0
    if isinstance(run.model, Take):
        taker = run.model.life
        if any(item.state is not TransferState.ACCEPTED or item.record.life not in (None, taker) for item in items):
            return 0
        state.hand_run(items, taker)
    else:
        wanted = run.model.state
        if run.model.cause or wanted not in COMMON or not all(_may_become(item, wanted) for item in items):
            return 0
        state.settle_run(items, wanted)
    return len(run)


def _may_become(item: Item, wanted: TransferState) -> bool:
    return not item.txn and wanted in next_states(item) and not isinstance(item.record.body, Spooled)


def keep_run(state: State, first: Enqueue, lsns: Sequence[int], records: Sequence[bytes]) -> int:
    """Keep the run at the front of these records of a checkpoint, of letters that wait and were never taken: how many
    it has. 0: nothing was kept. `lsns`: in ascending order, above those of all transfers that the state has."""
    run = _run_at(first, lsns, records)
    if run is None or (first.request is None) is state.is_own(first.id):
        return 0
    state.keep_run(run)
    return len(run)


def most_next(most: int, found: int) -> int:
    """How many records to look at next, where `found` of `most` were a run: what is looked at in vain stays in
    proportion to what was found."""
    return min(RUN_MOST, 2 * most) if found == most else 1
