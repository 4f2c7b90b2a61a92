"""From the records of a log to the state of before the crash: ARIES' analysis and redo in one pass; `undo_losers`
does the rest.

A log begins with a checkpoint, and recovery uses the last whole one: records before it count for nothing. A
checkpoint that was interrupted counts for nothing either. One that is not the first to be read has to say what the
records before it say.
"""

from __future__ import annotations

from collections.abc import Iterable

from rtmw.transfer.checkpoint import pack_state, unpack_state
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.record_bytes import unpack
from rtmw.transfer.records import Checkpoint
from rtmw.transfer.state import State

__all__ = ["Redo", "redo"]


class Redo:
    """Takes the records of a log one after the other."""

    def __init__(self) -> None:
        self.state: State | None = None
        """None: no whole checkpoint has come yet."""
        self.checkpoint = 0
        """LSN of the last whole checkpoint."""
        self._parts: list[bytes] = []
        self._first = 0

    def take(self, lsn: int, data: bytes | memoryview) -> None:
        """Raises TransfersDamaged, with the position of the record."""
        record = unpack(data, lsn)
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


def redo(records: Iterable[tuple[int, bytes]]) -> Redo:
    """All of them, in the order of the log."""
    done = Redo()
    for lsn, data in records:
        done.take(lsn, data)
    return done
