"""Which chunks a condition needs: those that may have a row for which it is true.

Each channel of a chunk is a fragment of a dataset of Arrow, about which is known what all of its rows have in common:
topic, type, times, and the ranges of its numbers. Arrow says which fragments may hold such rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from rtmw import columns
from rtmw.recording.contents import UNSET_NS
from rtmw.recording.frames.layout import Layout
from rtmw.recording.frames.scan import Stream

if TYPE_CHECKING:
    from rtmw.columns.program import Unsigned
    from rtmw.recording.contents import Chunk
    from rtmw.recording.ranges import Range, Ranges
    from rtmw.recording.recording import Recording


def all_of(conditions: Iterable[Any]) -> Any:
    """True where all of them are; None: there are none."""
    joined: Any = None
    for one in conditions:
        joined = one if joined is None else joined & one
    return joined


def any_of(conditions: Iterable[Any]) -> Any:
    """True where one of them is; None: there are none."""
    joined: Any = None
    for one in conditions:
        joined = one if joined is None else joined | one
    return joined


_FORMAT: Final = ds.IpcFileFormat()  # of files that nobody opens: fragments need one
_NOWHERE: Final = LocalFileSystem()
_TOGETHER: Final = 32
"""Chunks about which Arrow is asked as if they were one: each question costs as much as decoding some hundred rows."""

_Fields = dict[int, pa.Field]
_Fact = tuple[str, tuple[float, float]]
Facts = dict[str, tuple[float, float]]
"""The least and the largest value that rows have, by column."""


class Pruning:
    """A condition on columns: an expression of pyarrow.compute."""

    def __init__(self, layout: Layout, descriptions: tuple[bytes, ...], unsigned: Unsigned, condition: Any) -> None:
        self.condition, self._descriptions, self._unsigned = condition, descriptions, unsigned
        words = str(condition)  # has the names of all columns that it looks at, and perhaps those of others
        self.columns = tuple(column for name, column in layout.columns.items() if name in words)
        """The columns that the condition looks at, and perhaps others."""
        self._has_sets = "is_in" in words
        self._fields = {column.name: column.field for column in self.columns}
        self._schema = pa.schema([column.field for column in layout.columns.values()])
        names: list[str] = []
        if descriptions:
            names = columns.merged_versions(descriptions, unsigned).schema(False).names
        self._members: dict[str, pa.Field] = {names[c.member]: c.field for c in self.columns if c.member is not None}
        """The fields of columns, by the names of members."""
        self._described: dict[bytes, _Fields] = {}
        """The fields of columns by their places in a type, by the type's description."""

    def kept(
        self, recording: Recording, chunks: Sequence[tuple[Chunk, int]], streams: Mapping[int, Stream]
    ) -> tuple[tuple[Chunk, int], ...]:
        """Those chunks that may have rows for which the condition is true. Raises RecordingDamaged.

        Arrow is asked about many chunks as if they were one, and then about each of those that are left.
        """
        fields = {number: self._fields_of(stream.description) for number, stream in streams.items()}
        facts = [self._facts(recording, chunk, fields) for chunk, _ in chunks]
        groups = [range(first, min(first + _TOGETHER, len(facts))) for first in range(0, len(facts), _TOGETHER)]
        places = self._places([_united(facts[group.start : group.stop]) for group in groups], streams)
        left = [at for place, group in enumerate(groups) if places is None or place in places for at in group]
        places = self._places([facts[at] for at in left], streams)
        return tuple(chunks[at] for place, at in enumerate(left) if places is None or place in places)

    def _places(self, parts: Sequence[dict[int, Facts]], streams: Mapping[int, Stream]) -> set[int] | None:
        """Places of the parts that may have such rows. None: Arrow cannot tell."""
        known = [
            (at, self._guarantee(streams[number], facts))
            for at, part in enumerate(parts)
            for number, facts in part.items()
        ]
        places = places_for([guarantee for _, guarantee in known], self._schema, self.condition)
        return None if places is None else {known[place][0] for place in places}

    def _guarantee(self, stream: Stream, facts: Facts) -> Any:
        """An expression that is true of all rows of a channel about which this is known."""
        known = [pc.field(name) == value for name, value in self._names(stream)]
        for name, (least, most) in facts.items():
            with suppress(pa.ArrowInvalid, OverflowError, ValueError):  # a range that its type cannot have says nothing
                kind = self._fields[name].type
                known.append(between(name, scalar(least, kind), scalar(most, kind)))
        return all_of(known) if known else pc.scalar(True)

    def _names(self, stream: Stream) -> Iterator[tuple[str, str]]:
        for name, value in (("topic", stream.topic), ("type", stream.type_name)):
            if name in self._fields:
                yield name, value

    def _facts(self, recording: Recording, chunk: Chunk, fields: Mapping[int, _Fields]) -> dict[int, Facts]:
        """What is known of each channel's rows in a chunk: the least and the largest value of columns."""
        ranges: Ranges = recording.ranges(chunk, fields) if self._members else {}
        times = [*self._times(chunk)]
        numbers = chunk.counts.keys() & fields.keys()
        return {number: dict((*times, *_numbers(fields[number], ranges.get(number, ())))) for number in numbers}

    def _times(self, chunk: Chunk) -> Iterator[_Fact]:
        for name, unit in (("log_time", 1000), ("log_time_ns", 1)):
            if name in self._fields and chunk.start_ns <= chunk.end_ns < UNSET_NS:
                yield name, (chunk.start_ns // unit, chunk.end_ns // unit)

    def _fields_of(self, description: bytes | None) -> _Fields:
        """The fields of its members, by place, as far as the condition looks at them and Arrow compares them well."""
        if description is None or description not in self._descriptions:
            return {}
        if description not in self._described:
            names = columns.described_decoder(description, self._unsigned).schema(False).names
            found = {at: self._members[name] for at, name in enumerate(names) if name in self._members}
            exact = {at: field for at, field in found.items() if not (self._has_sets and is_inexact(field.type))}
            self._described[description] = exact
        return self._described[description]


def _numbers(fields: _Fields, ranges: Sequence[Range]) -> Iterator[_Fact]:
    for found in ranges:
        if found.least <= found.most:  # neither is a NaN
            yield fields[found.member].name, (found.least, found.most)


def _united(parts: Iterable[dict[int, Facts]]) -> dict[int, Facts]:
    """Returns what is known of the rows of all parts together."""
    united: dict[int, Facts] = {}
    for part in parts:
        for number, facts in part.items():
            before = united.get(number, facts)
            united[number] = {
                name: (min(before[name][0], least), max(before[name][1], most))
                for name, (least, most) in facts.items()
                if name in before
            }
    return united


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
    """Returns the number in a column's type, which holds all numbers that the member can have."""
    if pa.types.is_decimal(kind):
        return pa.scalar(Decimal(value), kind)
    return pa.scalar(float(value) if pa.types.is_floating(kind) else int(value), kind)
