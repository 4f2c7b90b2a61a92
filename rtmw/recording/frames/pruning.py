"""Which chunks a condition needs: those that may have a row for which it is true.

Each channel of a chunk is a fragment of a dataset of Arrow, about which is known what all of its rows have in common:
topic, type, times, and the ranges of its numbers. Arrow says which fragments may hold such rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from rtmw import columns
from rtmw.recording.frames.expressions import all_of
from rtmw.recording.frames.layout import Layout
from rtmw.recording.frames.scan import Stream
from rtmw.recording.times import UNSET_NS

if TYPE_CHECKING:
    from rtmw.columns.program import Unsigned
    from rtmw.columns.ranges import Range
    from rtmw.recording.contents import Chunk
    from rtmw.recording.ranges import Ranges
    from rtmw.recording.recording import Recording

_FORMAT: Final = ds.IpcFileFormat()  # of files that nobody opens: fragments need one
_NOWHERE: Final = LocalFileSystem()


class Pruning:
    """A condition on columns: an expression of pyarrow.compute."""

    def __init__(self, layout: Layout, descriptions: tuple[bytes, ...], unsigned: Unsigned, condition: Any) -> None:
        self.condition, self._unsigned = condition, unsigned
        words = str(condition)  # has the names of all columns that it looks at, and perhaps those of others
        self.columns = tuple(column for name, column in layout.columns.items() if name in words)
        """That the condition looks at, and perhaps others."""
        self._has_sets = "is_in" in words
        self._fields = {column.name: column.field for column in self.columns}
        self._schema = pa.schema([column.field for column in layout.columns.values()])
        names: list[str] = []
        if descriptions:
            names = columns.merged_versions(descriptions, unsigned).schema(False).names
        self._members: dict[str, pa.Field] = {names[c.member]: c.field for c in self.columns if c.member is not None}
        """The fields of columns, by the names of members."""

    def kept(
        self, recording: Recording, chunks: Sequence[tuple[Chunk, int]], streams: Mapping[int, Stream]
    ) -> tuple[tuple[Chunk, int], ...]:
        """Those chunks that may have rows for which the condition is true. Raises RecordingDamaged."""
        known = [
            (at, guarantee)
            for at, (chunk, _) in enumerate(chunks)
            for guarantee in self._guarantees(recording, chunk, streams)
        ]
        places = places_for([guarantee for _, guarantee in known], self._schema, self.condition)
        if places is None:
            return tuple(chunks)
        return tuple(chunks[at] for at in sorted({known[place][0] for place in places}))

    def _guarantees(self, recording: Recording, chunk: Chunk, streams: Mapping[int, Stream]) -> Iterator[Any]:
        """For each channel in a chunk, an expression that is true of all of its rows."""
        ranges: Ranges = recording.ranges(chunk) if self._members else {}
        times = [*self._times(chunk)]
        for number in chunk.counts.keys() & streams.keys():
            stream = streams[number]
            known = [*times, *self._names(stream), *self._numbers(stream, ranges.get(number, ()))]
            yield all_of(known) if known else pc.scalar(True)

    def _names(self, stream: Stream) -> Iterator[Any]:
        for name, value in (("topic", stream.topic), ("type", stream.type_name)):
            if name in self._fields:
                yield pc.field(name) == value

    def _times(self, chunk: Chunk) -> Iterator[Any]:
        for name, unit in (("log_time", 1000), ("log_time_ns", 1)):
            if name in self._fields and chunk.start_ns <= chunk.end_ns < UNSET_NS:
                kind = self._fields[name].type
                yield between(name, pa.scalar(chunk.start_ns // unit, kind), pa.scalar(chunk.end_ns // unit, kind))

    def _numbers(self, stream: Stream, ranges: Sequence[Range]) -> Iterator[Any]:
        if not ranges or stream.description is None:
            return
        names = columns.described_decoder(stream.description, self._unsigned).schema(False).names
        for found in ranges:
            field = self._members.get(names[found.member]) if found.member < len(names) else None
            if field is None or not found.least <= found.most or (self._has_sets and is_inexact(field.type)):
                continue
            try:
                bounds = scalar(found.least, field.type), scalar(found.most, field.type)
            except (pa.ArrowInvalid, OverflowError, ValueError):
                continue  # a range that its type cannot have says nothing
            yield between(field.name, *bounds)


def places_for(guarantees: Sequence[Any], schema: pa.Schema, condition: Any) -> set[int] | None:
    """Places of the guarantees that leave rows for which the condition is true; each is true of all rows of its part.

    None: Arrow cannot tell; whoever asks for rows gets its error, if they are rows that do it.
    """
    fragments = [
        _FORMAT.make_fragment(str(at), filesystem=_NOWHERE, partition_expression=guarantee)
        for at, guarantee in enumerate(guarantees)
    ]
    dataset = ds.FileSystemDataset(fragments, schema, _FORMAT, filesystem=_NOWHERE)
    try:
        return {int(one.path) for one in dataset.get_fragments(filter=condition)}
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None


def is_inexact(kind: pa.DataType) -> bool:
    """Arrow compares a set of numbers with rows after it has made them of this type, and with a range before."""
    return bool(pa.types.is_float32(kind) or pa.types.is_decimal(kind))


def between(name: str, least: Any, most: Any) -> Any:
    return (pc.field(name) >= least) & (pc.field(name) <= most)


def scalar(value: float, kind: pa.DataType) -> Any:
    """The same number in a column's type, which holds all numbers of the member's."""
    if pa.types.is_decimal(kind):
        return pa.scalar(Decimal(value), kind)
    return pa.scalar(float(value) if pa.types.is_floating(kind) else int(value), kind)
