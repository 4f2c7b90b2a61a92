"""Records of a log as a program gets them, one after the other."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from rtmw.log import Label, Record, unpack_labels
from rtmw.log_reading import DATA, Reading

T = TypeVar("T")

_AHEAD: Final = 1 << 16
"""Bytes of records that are made at once, ahead of the program: those are in memory twice."""


class LogRecord(Record, Generic[T]):
    """A record of a log. It is durable. Two are equal if data, position, time, epoch, key and id are."""

    __slots__ = ()

    @property
    def key(self) -> Label | None:
        """The key that was given to `append`."""
        return unpack_labels(self._labels)[0]

    @property
    def id(self) -> Label | None:
        """Likewise."""
        return unpack_labels(self._labels)[1]

    @property
    def value(self) -> T:
        """The data as a value of the log's type; decoded when it is asked for. Raises ValueMismatch."""
        value: T = self._origin.decode(self.data)
        return value

    def commit(self) -> None:
        """This record, and all before it, are done with: a reader with the cursor goes on behind it, also after a kill.

        Commits are batched: on the disk after a tenth of a second with another commit, when the reader waits, and when
        it is closed. With `async for` a thread writes them, so that the loop does not wait for the disk. What was not
        there yet is delivered again. ClosedError, LogFailed; LogError: no cursor was named.
        """
        self._origin.commit(self.end)

    def _all(self) -> tuple[int, int, int, bytes, bytes]:
        return self.position, self.time_ns, self.epoch, self._labels, self.data

    def __eq__(self, other: object) -> bool:
        return self._all() == other._all() if isinstance(other, LogRecord) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        key = "" if self.key is None else f" key={self.key!r}"
        return f"<rtmw.LogRecord {self.position}{key} {len(self.data)} bytes>"


class LogRecords(Reading[LogRecord[T], T]):
    """Iterates over the records of a log, as `Log.read` gives it.

    Without `follow` it ends where the log ended when `read` was called; with it, it waits for more until it is closed.
    `async for` does the same, and a thread is used for commits only. One thread or task iterates; `close` may be called
    from any.
    Errors while iterating: LogDamaged, LogError; ValueError when no record begins at the given position.
    """

    def _make(self, end: int) -> list[LogRecord[T]]:
        made: list[LogRecord[T]] = self._reader.take(end, LogRecord, self._origin, _AHEAD)
        if made and made[0]._kind != DATA:
            raise self._unknown(made[0].position, made[0]._kind)
        return made

    def _place(self, made: LogRecord[T]) -> int:
        return made.position
