"""Answers of a log: the outcome of an append, and the state of the log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from rtmw.log import Label
from rtmw.notebook import ShownByFields
from rtmw.qos import check_seconds

__all__ = ["Appended", "Durability", "LogStats", "PersistQueue"]


class Asked(Protocol):
    """The log, as far as an answer asks it."""

    def _durable(self) -> int: ...
    def _resolve(self, end: int, timeout: float | None) -> None: ...
    async def _resolve_async(self, end: int) -> None: ...


class Durability(Enum):
    """The outcome of an append. The log of one host gives BUFFERED and WRITTEN only.

    The other three are those of a log that several nodes keep, `Log.connect`: docs/replication.md.
    """

    BUFFERED = "buffered"
    """Taken, and on its way to the disk: a log with `sync=False`. The end of the program's process may lose it."""
    WRITTEN = "written"
    """On the disk. A power cut does not lose it."""
    CACHED = "cached"
    """Replicated: kept by the cache of the control node, and not by all replicas yet. It will not be lost."""
    PENDING = "pending"
    """Replicated: not known yet. `Appended.resolve` finds out whether it is WRITTEN or ABSENT."""
    ABSENT = "absent"
    """Replicated: not in the log, and it never will be: it may be appended again."""


@dataclass(frozen=True)
class PersistQueue(ShownByFields):
    """Records that were appended and are not on the disk yet."""

    records: int
    bytes: int
    """Bytes of the records with their heads."""
    oldest: float
    """Seconds that the first of them has been waiting."""


@dataclass(frozen=True)
class LogStats(ShownByFields):
    """State of a log, and counters of this object."""

    earliest: int
    """Position of the first record."""
    end: int
    """Position behind the last durable record."""
    segments: int
    """Files with records, and the one made ahead."""
    disk: int
    """Bytes of these."""
    records: int
    """Records appended."""
    bytes: int
    """Their data."""
    batches: int
    """Groups that went to the disk with one sync each."""
    largest_batch: int
    """Records of the largest of them."""
    syncs: int
    refused: int
    """Records refused with LogFull."""
    repeated: int
    """Appends with an id that a record had already: they were answered with it, and nothing was appended."""
    ids: int
    """Ids that are remembered for that, at most `dedupe`."""
    held: int
    """Bytes of segments that the retention would remove, but for a cursor that has not passed them."""
    compacted: int
    """Bytes of records that this writer's compaction (`Retention(per_key=…)`) has removed."""
    failed_compactions: int
    """Compactions that were given up: the disk had no room, or a segment is damaged."""
    cut: int
    """Bytes without an answer, of a writer that had ended in the middle, that were cut off when this one began."""
    persist_queue: PersistQueue


class Appended:
    """The answer to an append."""

    __slots__ = ("_end", "_log", "id", "position")

    position: int
    """Position of the record in the log."""
    id: Label | None
    """The id that was given to `append`."""

    def __init__(self, log: Asked, position: int, end: int, id: Label | None = None) -> None:
        self._log = log
        self._end = end
        self.position = position
        self.id = id

    @property
    def state(self) -> Durability:
        """Whether the record is durable at this moment: WRITTEN, else BUFFERED."""
        return Durability.WRITTEN if self._log._durable() >= self._end else Durability.BUFFERED

    def resolve(self, timeout: float | None = None) -> Durability:
        """Waits until it is on the disk; at most so many seconds (None: no limit), then the state is as it was.

        LogFailed: the outcome is unknown.
        """
        check_seconds("timeout", timeout)
        self._log._resolve(self._end, timeout)
        return self.state

    async def resolve_async(self) -> None:
        """Waits until it is on the disk; the event loop goes on meanwhile, and no thread waits.

        LogFailed: the outcome is unknown.
        """
        await self._log._resolve_async(self._end)

    def __repr__(self) -> str:
        return f"<rtmw.Appended {self.position} {self.state.name}>"
