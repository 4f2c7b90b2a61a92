"""From the records of a log to the state of before the crash: ARIES' analysis and redo in one pass; `undo_losers`
does the rest.

A log begins with a checkpoint, and recovery uses the last whole one: records before it count for nothing. A
checkpoint that was interrupted counts for nothing either. One that is not the first to be read has to say what the
records before it say.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from rtmw.clock import CLOCK
from rtmw.transfer.checkpoint import pack_state, unpack_state
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.record_bytes import is_checkpoint, unpack
from rtmw.transfer.records import Checkpoint, Record
from rtmw.transfer.redo_runs import RUN_MOST, most_next, redo_run
from rtmw.transfer.state import State
from rtmw.units import size

__all__ = ["Redo", "redo", "saying"]

log = logging.getLogger("rtmw.transfer")

EVERY_S: Final = 2.0
"""A start that takes longer says so, and says again after as long how far it is."""
LOOK: Final = 1024
"""Records, after which the clock is looked at."""


class Redo:
    """Takes the records of a log one after the other."""

    def __init__(self) -> None:
        self.state: State | None = None
        """None: no whole checkpoint has come yet."""
        self.checkpoint = 0
        """LSN of the last whole checkpoint."""
        self._parts: list[bytes] = []
        self._first = 0

    def take_all(self, records: Iterable[tuple[int, bytes]]) -> None:
        """All of them, in the order of the log; those of a run together. Raises TransfersDamaged, with the position of
        a record."""
        left, most = iter(records), RUN_MOST
        self._skip(left)
        some: list[tuple[int, bytes]] = []
        while some := [*some, *islice(left, max(0, most - len(some)))]:
            found = self._take_some(some[:most])
            some, most = some[found:], most_next(most, found)

    def _skip(self, records: Iterator[tuple[int, bytes]]) -> None:
        """Up to the end of the first whole checkpoint. Records before it count for nothing, and are not unpacked."""
        while self.state is None and (one := next(records, None)) is not None:
            if is_checkpoint(one[1]):
                self.take(*one)
            else:
                self._parts.clear()

    def _take_some(self, records: Sequence[tuple[int, bytes]]) -> int:
        """The first of them, and what is a run with it: how many."""
        lsn, data = records[0]
        record, found = unpack(data, lsn), 0
        if self.state is not None and len(records) > 1:
            found = redo_run(self.state, record, *zip(*records, strict=True))
        if found:
            self._parts.clear()
        else:
            self._take(lsn, record)
        return max(1, found)

    def take(self, lsn: int, data: bytes) -> None:
        """Raises TransfersDamaged, with the position of the record."""
        self._take(lsn, unpack(data, lsn))

    def _take(self, lsn: int, record: Record) -> None:
        if isinstance(record, Checkpoint):
            self._take_part(lsn, record)
            return
        self._parts.clear()
        if self.state is not None:
            self.state.apply(lsn, record)

    def _take_part(self, lsn: int, record: Checkpoint) -> None:
        if record.index == 0:
            self._parts.clear()
            self._first = lsn
        if record.index != len(self._parts):
            if self.state is None:  # the log was trimmed in the middle of it
                return
            raise TransfersDamaged(
                f"the record at {lsn} is part {record.index} of a checkpoint, and not the next one", lsn
            )
        self._parts.append(record.data)
        if record.last:
            self._finish()

    def _finish(self) -> None:
        data = b"".join(self._parts)
        self._parts.clear()
        if self.state is None:
            self.state = unpack_state(data, self._first)
        elif pack_state(self.state) != data:
            raise TransfersDamaged(
                f"the checkpoint at {self._first} is not what the records before it say", self._first
            )
        self.checkpoint = self._first


def saying(records: Iterable[tuple[int, bytes]], end: int, every: float = EVERY_S) -> Iterator[tuple[int, bytes]]:
    """The records of a log that ends here. If they take long, it is said every few seconds how far they have come."""
    due, first = CLOCK.monotonic() + every, None
    for count, (lsn, data) in enumerate(records):
        first = lsn if first is None else first
        if count % LOOK == 0 and CLOCK.monotonic() >= due:
            due = CLOCK.monotonic() + every
            log.info("reads the log of its transfers: %s of %s", size(lsn - first), size(end - first))
        yield lsn, data


def redo(records: Iterable[tuple[int, bytes]]) -> Redo:
    """All of them, in the order of the log."""
    done = Redo()
    done.take_all(records)
    return done
