"""Runs: letters of one sender, whose requests and ids are numbered one after the other. Their headers are one, or those
of one sender on this host differ in their length alone.

They go the common way: for any receiver of a service, a BUF that lies in its record, in no transaction, without a
lifetime and without an id of the sender. The records of a run differ in two numbers and in the body, so they are made
at once. Letters for another node go there as runs, and come as runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Final

from rtmw.transfer.address import Life, check_receiver
from rtmw.transfer.enqueued import ChangeRun, EnqueuedRun
from rtmw.transfer.events import Append, ArriveRun, SendRun, Steps, TakeRun
from rtmw.transfer.queues import Item, next_states
from rtmw.transfer.records import (
    LARGEST_INLINE,
    NONE,
    Change,
    Enqueue,
    Settled,
    Take,
    TransferId,
    TransferState,
    is_plain,
)
from rtmw.transfer.state import State
from rtmw.transfer.undoing import append

__all__ = ["COMMON", "arrive_run", "confirm_ends", "consume_run", "send_run", "settle_run", "take_run"]

COMMON: Final = (TransferState.SENT, TransferState.DELIVERED, TransferState.CONSUMED)
"""The states to which letters come when nothing is wrong."""


def send_run(state: State, run: SendRun, first: TransferId, parked: int) -> Steps[TransferId | None]:
    """Send the letters of a run in one batch of the log, with the same result as one by one. `first`: the id of the
    first letter; `parked`: transfers that there may be."""
    has_room = len(state.items) + len(run.bodies) <= parked
    are_small = max(map(len, run.bodies)) <= LARGEST_INLINE
    is_common = are_small and is_plain(run.header) and run.header.to.node != state.node
    if not (has_room and is_common and state.requests.is_new(run.request)):
        return None
    model = Enqueue(NONE, NONE, first, run.header, run.bodies[0], run.sender, request=run.request)
    enqueued = EnqueuedRun(model, range(first.sequence, first.sequence + len(run.bodies)), tuple(run.bodies))
    yield from _log(enqueued)
    yield state.apply_run(enqueued, run.request)
    return first


def arrive_run(state: State, run: ArriveRun, parked: int) -> Steps[bool]:
    """Enqueue letters of another node in one batch of the log, with the same result as one by one."""
    has_room = len(state.items) + len(run.letters) <= parked
    is_common = is_plain(run.header) and not run.header.to.node
    if not (has_room and is_common) or any(state.is_own(id) or state.has_come(id) for id in run.letters):
        return False
    ids, bodies = tuple(run.letters), tuple(run.letters.values())
    state.seen.check(ids[0])
    model = Enqueue(NONE, NONE, ids[0], run.header, bodies[0], run.sender)
    enqueued = EnqueuedRun(model, [id.sequence for id in ids], bodies)
    yield from _log(enqueued)
    yield state.apply_arrivals(enqueued, ids)
    return True


def _log(run: EnqueuedRun) -> Steps[None]:
    lsns = yield Append(run)
    assert lsns is not None, "the driver of a step answers an Append with the LSNs of its records"
    run.lsns = lsns


def take_run(state: State, run: TakeRun, receivers: Mapping[str, Collection[Life]]) -> Steps[list[Item]]:
    """Hand the first letters of a queue to a receiver in one batch of the log, with the same result as one by one."""
    check_receiver(run.life, run.service, receivers)
    queue = state.queues.get(run.service)
    items = queue.first_letters(run.life, state.items, run.most) if queue is not None else []
    if items:
        yield Append(ChangeRun(Take(NONE, NONE, items[0].lsn, run.life), [item.lsn for item in items]))
        yield state.hand_run(items, run.life)
    return items


def consume_run(state: State, items: Collection[int], by: Life) -> Steps[bool]:
    """Log in one batch that a receiver has consumed what it was handed, with the same result as one by one."""
    found: list[Item] = []
    for lsn in items:
        item = state.items.get(lsn)
        if item is None or item.txn or item.taker != by or item.state is not TransferState.DELIVERED:
            return False
        found.append(item)
    yield from _settle(state, found, TransferState.CONSUMED)
    return True


def settle_run(state: State, states: Mapping[int, TransferState]) -> Steps[None]:
    """Log what has become of transfers for another node; those in a row that come to one state, in one batch."""
    for wanted, same in groupby(states, states.__getitem__):
        found = [item for lsn in same if (item := state.items.get(lsn)) is not None]
        items = [item for item in found if not item.txn and wanted in next_states(item)]
        if items:
            yield from _settle(state, items, wanted)


def _settle(state: State, items: Sequence[Item], wanted: TransferState) -> Steps[None]:
    """Log in one batch that transfers come to this state. Each may come to it."""
    lsns = [item.lsn for item in items]
    headers = {id(item.record.header): item.record.header for item in items}.values()
    if items and wanted in COMMON and all(map(is_plain, headers)):
        yield Append(ChangeRun(Change(lsns[0], wanted), lsns))
        yield state.settle_run(items, wanted)
    else:
        yield from append(state, *[Change(lsn, wanted) for lsn in lsns])


def confirm_ends(state: State, ids: Collection[TransferId]) -> Steps[None]:
    """Log in one batch that the node where these transfers began knows their ends."""
    ended = [Settled(id) for id in ids if id in state.owed and not state.numbers(id)]
    if ended:
        yield from append(state, *ended)
