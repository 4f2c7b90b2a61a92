"""The messages of a topic as rows of a table that lasts: each number has a sign, each column may be null, and a day is
known by its date.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from rtmw.recording.frames.layout import layout_of
from rtmw.recording.frames.scan import Run, Scan, Stream
from rtmw.recording.frames.streams import common_type, sightings, stream_of
from rtmw.recording.versions import versions_of

if TYPE_CHECKING:
    from rtmw.recording.recording import Recording

DAY: Final = "day"
"""The column by which tables are partitioned: the date of `log_time` in UTC."""


@dataclass(frozen=True)
class Topic:
    """A topic of a recording, and how its messages become rows."""

    name: str
    scan: Scan
    streams: dict[int, Stream]

    @classmethod
    def of(cls, recording: Recording, name: str) -> Topic:
        """Raises ValueError for a topic of several types, UnsupportedType for a type that columns cannot hold."""
        streams = {channel.id: stream_of(recording, channel, True) for channel in recording.topics()[name]}
        descriptions = common_type(versions_of(sightings(recording.chunks, streams)))
        wanted = layout_of(descriptions, "widen").chosen(())
        scan = Scan(wanted, pa.schema([column.field for column in wanted]), descriptions, unsigned="widen")
        return cls(name, scan, streams)

    def rows(self, recording: Recording, first: int) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
        """Yields for each chunk from `first` on how many chunks there are up to it, and its rows.

        Raises RecordingDamaged, ValueMismatch.
        """
        number = sum(chunk.message_count for chunk in recording.chunks[:first])
        for count, chunk in enumerate(recording.chunks[first:], first + 1):
            batches: list[pa.RecordBatch] = []
            if not self.streams.keys().isdisjoint(chunk.counts):
                run = Run(recording.path, ((chunk, number),), self.streams)
                batches = [lasting(batch) for batch in self.scan.read_run(recording, run)]
            yield count, batches
            number += chunk.message_count


def lasting(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows with their day as the first column, and all columns in types that every format of tables has."""
    fields = [field.with_type(_plain(field.type)).with_nullable(True) for field in batch.schema]
    arrays = [array.cast(field.type) for array, field in zip(batch.columns, fields, strict=True)]
    day = pc.cast(batch.column("log_time"), pa.date32(), safe=False)
    return pa.RecordBatch.from_arrays([day, *arrays], schema=pa.schema([pa.field(DAY, pa.date32()), *fields]))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Without dictionaries and fixed lengths. All parts may be null: a later version of a type may leave them out."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)).with_nullable(True) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type), True))
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_duration(kind):
        return pa.int64()  # Delta has no durations: microseconds
    return kind
