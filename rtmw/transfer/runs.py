"""Runs: letters of one sender with one header, whose requests and ids are numbered one after the other.

They go the common way: for any receiver of a service of this node, a BUF that lies in its record, in no transaction,
without a lifetime and without an id of the sender. The records of a run differ in two numbers and in the body, so they
are made at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from struct import Struct

from rtmw.transfer.address import Reach
from rtmw.transfer.effects import Append, Steps
from rtmw.transfer.events import SendRun
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.record_bytes import NUMBER, SEQUENCE, pack
from rtmw.transfer.records import (
    LARGEST_INLINE,
    NONE,
    Change,
    Enqueue,
    Record,
    Settled,
    TransferId,
    TransferState,
)
from rtmw.transfer.state import State, next_states
from rtmw.transfer.undoing import append

__all__ = ["confirm_ends", "is_plain", "send_run", "settle_run"]


def is_plain(header: Header) -> bool:
    """May letters with this header go the common way? What says no has to be looked at one by one."""
    to = header.to
    here = to.reach is Reach.ANY and not to.node
    return here and header.kind is Kind.BUF and not header.lifetime_ns and header.length <= LARGEST_INLINE


def send_run(state: State, run: SendRun, first: TransferId, parked: int) -> Steps[TransferId | None]:
    """Send the letters of a run in one batch of the log, with the same result as one by one. `first`: the id of the
    first letter; `parked`: transfers that there may be."""
    has_room = len(state.items) + len(run.bodies) <= parked
    if not (has_room and is_plain(run.header) and state.requests.is_new(run.request)):
        return None
    rows = _rows_of(run, first)
    lsns = yield Append(rows)
    assert lsns is not None, "the driver of a step answers an Append with the LSNs of its records"
    yield state.apply_run(lsns, rows, run, first)
    return first


def _rows_of(run: SendRun, first: TransferId) -> list[bytes]:
    """The ENQUEUE records of a run, as `record_bytes.pack` makes each of them. `first`: the id of the first letter."""
    model = pack(Enqueue(NONE, NONE, first, run.header, run.bodies[0], run.sender, request=run.request))
    head, middle = model[:SEQUENCE], model[SEQUENCE + 8 : NUMBER]
    tail = model[NUMBER + 8 : len(model) - run.header.length]
    pack_row = Struct(f"<{len(head)}sQ{len(middle)}sQ{len(tail)}s{run.header.length}s").pack
    sequence, number = first.sequence, run.request.number
    return [pack_row(head, sequence + n, middle, number + n, tail, body) for n, body in enumerate(run.bodies)]


def settle_run(state: State, states: Mapping[int, TransferState]) -> Steps[None]:
    """Log in one batch what has become of transfers for another node."""
    changes: list[Record] = []
    for lsn, wanted in states.items():
        item = state.items.get(lsn)
        if item is not None and not item.txn and wanted in next_states(item):
            changes.append(Change(lsn, wanted))
    if changes:
        yield from append(state, *changes)


def confirm_ends(state: State, ids: Collection[TransferId]) -> Steps[None]:
    """Log in one batch that the node where these transfers began knows their ends."""
    ended = [Settled(id) for id in ids if id in state.owed and not state.numbers(id)]
    if ended:
        yield from append(state, *ended)
