"""Undoing, as ARIES does: backwards by UndoNxtLSN, a compensation record (CLR) for each record, none for a CLR.

A rollback to a savepoint, an abort and the restart after a crash use the same steps, and each of them may be
interrupted anywhere: what has its CLR in the log is not undone again.
"""

from __future__ import annotations

from typing import Final

from rtmw.transfer.errors import TransactionAborted
from rtmw.transfer.events import Append, Steps
from rtmw.transfer.records import NONE, Abort, AbortCause, Clr, End, Record, Undone
from rtmw.transfer.state import State
from rtmw.transfer.table import Phase, Transaction

__all__ = ["abort", "append", "undo_losers", "undo_until", "undone"]

_CAUSES: Final = {
    AbortCause.ASKED: "its program asked for it",
    AbortCause.AGE: "it was open for too long",
    AbortCause.SIZE: "it became too large",
    AbortCause.ENDED: "its program has ended",
    AbortCause.RESTART: "the core was started anew",
}


def undone(txn: int, cause: AbortCause) -> TransactionAborted:
    """Return the error for a program whose transaction the core has undone."""
    return TransactionAborted(f"transaction {txn} was undone, because {_CAUSES[cause]}; begin a new one")


def append(state: State, *records: Record) -> Steps[list[int]]:
    """Log records in one batch, and apply them. Returns their LSNs."""
    lsns = yield Append(records)
    assert lsns is not None, "the driver of a step answers an Append with the LSNs of its records"
    for lsn, record in zip(lsns, records, strict=True):
        yield from state.apply(lsn, record)
    return list(lsns)


def undo_until(state: State, row: Transaction, lsn: int, deliveries: int) -> Steps[None]:
    """Undo what the transaction logged behind this LSN."""
    while row.undo_next > lsn:
        entry = row.undoable[row.undo_next]
        what = entry.what
        if what is Undone.TAKE and state.items[entry.item].deliveries >= deliveries:
            what = Undone.TAKE_DEAD
        yield from append(state, Clr(row.txn, row.last_lsn, row.undo_next, entry.next, what))


def abort(state: State, row: Transaction, cause: AbortCause, deliveries: int) -> Steps[None]:
    """Undo all of a transaction; goes on where an abort was interrupted."""
    if row.phase is Phase.RUNNING:
        yield from append(state, Abort(row.txn, row.last_lsn, cause))
    yield from undo_until(state, row, NONE, deliveries)
    yield from append(state, End(row.txn, row.last_lsn))


def undo_losers(state: State, deliveries: int) -> Steps[None]:
    """End the transactions that a crash has interrupted: what was committed is ended, and all else undone, the youngest
    one first.

    ARIES undoes in one sweep backwards over all transactions, because they may have changed the same pages. A transfer
    is held by one transaction at a time, so here they may go one by one.
    """
    for row in sorted(state.table.values(), key=lambda row: -row.txn):
        if row.phase is Phase.COMMITTED:
            yield from append(state, End(row.txn, row.last_lsn))
        else:
            yield from abort(state, row, AbortCause.RESTART, deliveries)
