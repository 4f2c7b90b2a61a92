"""Messages as columns: one row a message, and never a Python object for one."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtmw.recording.contents import Chunk, Missed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.chunk_reader import Scanned
    from rtmw.recording.side import Side

    Column = NDArray[Any]

CARRIED: Final = 1
"""Flag of a message that was carried over from an earlier file."""
CARRIED_MOST: Final = 16
"""Publishers of a channel whose last messages are carried over."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one chunk, in the order of the file. All columns are numpy arrays of one length."""

    chunk: Chunk
    data: bytes | memoryview
    """The uncompressed records, in which the payloads lie."""
    channel: Column
    """u2, channel id"""
    sequence: Column
    """u8, dense within topic and priority; in recordings of others the 32 bits that they have"""
    log_time: Column
    """i8, nanoseconds"""
    publish_time: Column
    """i8, nanoseconds"""
    position: Column
    """i8, of the payload in `data`"""
    size: Column
    """i8, of the payload in bytes"""
    priority: Column
    """u1"""
    publisher: Column
    """u8, identity; 0: unknown"""
    expires: Column
    """i8, nanoseconds; 0: never"""
    flags: Column
    """u1; see CARRIED"""
    missed: tuple[Missed, ...] = ()
    """What the recorder did not get since the chunk before."""

    def __len__(self) -> int:
        return len(self.channel)

    def where(self, mask: Column) -> Batch:
        """The rows for which a boolean mask is true, or those of an array of row numbers."""
        mask = np.asarray(mask)
        if mask.dtype == np.bool_ and mask.all():
            return self
        return replace(self, **{name: getattr(self, name)[mask] for name in COLUMNS})

    def payload(self, row: int) -> memoryview:
        """The payload of a row, without a copy."""
        begin = int(self.position[row])
        return memoryview(self.data)[begin : begin + int(self.size[row])]


def batch_of(chunk: Chunk, scanned: Scanned, side: Side) -> Batch:
    """What a chunk says of its messages, and its side record."""
    channel, sequence, log_time, publish_time, position, size = scanned.columns
    return Batch(
        chunk,
        scanned.data,
        channel,
        sequence if side.high is None else sequence | side.high,
        log_time,
        publish_time,
        position,
        size,
        side.priority,
        side.publisher,
        side.expires,
        side.flags,
        side.missed,
    )


COLUMNS = tuple(field.name for field in fields(Batch) if field.name not in {"chunk", "data", "missed"})
"""Names of the columns."""
