"""The transaction table of the paper (T10): TxnID, State, LastLSN, UndoNxtLSN, SaveList; savepoints: Spname, LogLsn,
Prev.

For each record that can be undone the row also keeps what undoing it needs, so that a rollback reads no log. The
limits of a transaction bound that. The order of undoing follows from UndoNxtLSN alone: to the record that it names,
then to that one's predecessor. A CLR sets it behind what the CLR has undone, so nothing is undone twice, whenever a
crash comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from rtmw.transfer.records import NONE, Undone

__all__ = ["Phase", "SavepointEntry", "Transaction", "Undoable"]


class Phase(IntEnum):
    """The paper's State: "running, committed or aborting"."""

    RUNNING = 0
    COMMITTED = 1
    ABORTING = 2


@dataclass(frozen=True, slots=True)
class SavepointEntry:
    """The paper's savepoint structure."""

    spname: str
    log_lsn: int
    """LSN of its SAVEPOINT record: what the transaction logged after it has a larger one."""
    prev: SavepointEntry | None


class Undoable(NamedTuple):
    """A record that can be undone."""

    what: Undone
    item: int
    """LSN of the ENQUEUE of the transfer; for a savepoint, its own LSN."""
    next: int
    """LSN of the record that is undone next after it; 0: there is none."""


@dataclass(slots=True)
class Transaction:
    """A row of the table."""

    txn: int
    phase: Phase = Phase.RUNNING
    last_lsn: int = NONE
    undo_next: int = NONE
    save_list: SavepointEntry | None = None
    """The newest savepoint."""
    undoable: dict[int, Undoable] = field(default_factory=dict[int, Undoable])
    """The records that can be undone, by LSN."""
    bytes: int = 0
    """Bytes of the bodies that it has sent."""
    items: int = 0
    """Number of sends and takes that were not undone."""

    def savepoints(self) -> Iterator[SavepointEntry]:
        """Yield the savepoints, the newest one first."""
        entry = self.save_list
        while entry is not None:
            yield entry
            entry = entry.prev

    def find(self, wanted: str | int) -> SavepointEntry:
        """Return the newest savepoint of this name, or the one with this LogLsn. ValueError: there is none.

        The paper's loop for this compares no names, and so it finds none ever (docs/design/transfer.md).
        """
        for entry in self.savepoints():
            if wanted == (entry.log_lsn if isinstance(wanted, int) else entry.spname):
                return entry
        names = ", ".join(repr(entry.spname) for entry in self.savepoints()) or "none"
        raise ValueError(f"transaction {self.txn} has no savepoint {wanted!r}; it has {names}")

    def add_undoable(self, lsn: int, what: Undone, item: int) -> None:
        """Note that a record was logged that can be undone."""
        self.undoable[lsn] = Undoable(what, item, self.undo_next)
        self.undo_next = lsn

    def destroy(self, log_lsn: int) -> None:
        """Destroy the savepoint with this LogLsn, and those after it."""
        while self.save_list is not None and self.save_list.log_lsn >= log_lsn:
            self.save_list = self.save_list.prev
