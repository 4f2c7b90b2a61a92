"""Chunks to record batches: never a Python object for a message. `Extent` says how much was read or spared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from rtmw import columns
from rtmw.columns import payload_array
from rtmw.columns.rows import Rows
from rtmw.errors import ValueMismatch
from rtmw.recording.batch import CARRIED, Batch, within
from rtmw.recording.contents import Chunk
from rtmw.recording.frames.layout import Column, member_places, message_column
from rtmw.recording.versions import Sighting, Version, dds_name, seen_in, some

if TYPE_CHECKING:
    from rtmw.columns.program import Unsigned
    from rtmw.recording.contents import Channel
    from rtmw.recording.recording import Recording

    Mask = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Extent:
    """How much of recordings: chunks, messages in them, and bytes as they lie in the file."""

    chunks: int = 0
    messages: int = 0
    bytes: int = 0

    def __add__(self, other: Extent) -> Extent:
        return Extent(self.chunks + other.chunks, self.messages + other.messages, self.bytes + other.bytes)


def extent_of(chunks: Iterable[Chunk]) -> Extent:
    listed = [*chunks]
    return Extent(len(listed), sum(c.message_count for c in listed), sum(c.size for c in listed))


def share_of(read: Extent, skipped: Extent) -> str:
    """Returns the share in words: 40 of 960 chunks, 41267840 of 989921280 bytes (4.2%)."""
    size = read.bytes + skipped.bytes
    share = read.bytes / size if size else 0.0
    return f"{read.chunks} of {read.chunks + skipped.chunks} chunks, {read.bytes} of {size} bytes ({share:.1%})"


@dataclass(frozen=True)
class Planned:
    """The extent that a query reads, by the indexes, and the extent that it need not read."""

    read: Extent
    skipped: Extent
    """Chunks in which, by the index, no row can be."""

    @classmethod
    def of(cls, read: Extent, every: Extent) -> Planned:
        skipped = (every.chunks - read.chunks, every.messages - read.messages, every.bytes - read.bytes)
        return cls(read, Extent(*skipped))

    def __str__(self) -> str:
        return share_of(self.read, self.skipped)


MODES: Final = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
"""The treatment of a damaged payload: an error; a row without members; no row."""


@dataclass(frozen=True)
class Stream:
    """A channel as a table sees it."""

    topic: str
    type_name: str
    description: bytes | None
    """Description of its type; None: it was not looked up, or has no members."""
    problem: str = ""
    """Why its type cannot be read."""


@dataclass(frozen=True)
class Run:
    """Chunks of a recording, each with the number of its first message in the file, and what its channels are."""

    path: Path
    chunks: tuple[tuple[Chunk, int], ...]
    streams: dict[int, Stream]


@dataclass(frozen=True)
class TimeRange:
    """Rows that are wanted: start_ns <= log time < end_ns."""

    start_ns: int | None = None
    end_ns: int | None = None

    def overlaps(self, chunk: Chunk) -> bool:
        """May the chunk have such rows?"""
        late = self.end_ns is not None and chunk.start_ns >= self.end_ns
        early = self.start_ns is not None and chunk.end_ns < self.start_ns
        return not late and not early


ALL: Final = TimeRange()


@dataclass(frozen=True)
class Scan:
    """How chunks become rows. Spark sends it to every task, so it is small."""

    columns: tuple[Column, ...]
    schema: pa.Schema
    """Schema of `columns`."""
    descriptions: tuple[bytes, ...]
    """Descriptions of all versions of the messages' type, if its members are columns."""
    unsigned: Unsigned = "keep"
    mode: str = "FAILFAST"
    """One of MODES."""
    carried: bool = False
    """Whether rows include the messages that a recorder carried over from the file before."""
    selection: TimeRange = ALL

    def read_run(self, recording: Recording, run: Run) -> Iterator[pa.RecordBatch]:
        """The rows of its chunks. Raises RecordingDamaged, ValueMismatch."""
        for chunk, first in run.chunks:
            yield from self.rows(recording.read(chunk), first, run)

    def rows(self, batch: Batch, first: int, run: Run) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a chunk, whose first message has the number `first` in the file. The caller reads the
        next chunk when it has taken all rows: the memory of this one is free then."""
        mask = self._mask(batch, run)
        wanted = batch if mask is None else batch.where(mask)
        if len(wanted):
            yield from self._batches(wanted, first, run)

    def _mask(self, batch: Batch, run: Run) -> Mask | None:
        """Rows that are wanted; None: all."""
        masks: list[Mask] = []
        if not run.streams.keys() >= batch.chunk.counts.keys():
            masks.append(np.isin(batch.channel, [*run.streams]))
        masks += within(batch, self.selection.start_ns, self.selection.end_ns)
        if not self.carried and batch.has_flags:
            masks.append(batch.flags & CARRIED == 0)
        return np.logical_and.reduce(masks) if masks else None

    def _batches(self, batch: Batch, first: int, run: Run) -> Iterator[pa.RecordBatch]:
        start = 0
        for members, damaged in self._members(batch, run):
            rows = batch
            if members is not None and members.num_rows < len(batch):
                rows = batch.where(np.arange(start, start + members.num_rows, dtype=np.int64))
                start += len(rows)
            made = self._assembled(rows, first, run, members)
            if damaged is not None and self.mode == "DROPMALFORMED":
                made = made.filter(pa.array(~damaged))
            yield made

    def _members(self, batch: Batch, run: Run) -> Iterator[tuple[pa.RecordBatch | None, Any]]:
        if not self.descriptions or not self._places:
            yield None, None
            return
        versions = columns.merged_versions(self.descriptions, self.unsigned, self._places)
        rows, permissive = Rows(batch.data, batch.position, batch.size), self.mode != "FAILFAST"
        try:
            yield from versions.decode(rows, self._version(batch, run), permissive)
        except ValueMismatch as error:
            raise ValueMismatch(f"{run.path}, chunk at byte {batch.chunk.position}: {error}") from None

    def _version(self, batch: Batch, run: Run) -> Mask | int:
        """Returns which of the descriptions describes all rows, or each of them."""
        if len(self.descriptions) == 1:
            return 0
        table = np.zeros(1 << 16, np.int64)
        for number, stream in run.streams.items():
            if stream.description in self.descriptions:  # else it has no messages
                table[number] = self.descriptions.index(stream.description)
        return table[batch.channel]

    def _assembled(self, batch: Batch, first: int, run: Run, members: pa.RecordBatch | None) -> pa.RecordBatch:
        if members is not None and self._are_all(members):
            return members
        arrays = [
            metadata(column.name, batch, first, run)
            if column.member is None or members is None
            else members.column(self._places.index(column.member))
            for column in self.columns
        ]
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(batch), pa.struct([])))
        fitted = [fit(array, kind) for array, kind in zip(arrays, self.schema.types, strict=True)]
        return pa.RecordBatch.from_arrays(fitted, schema=self.schema)

    @cached_property
    def _places(self) -> tuple[int, ...]:
        """Places of the members that are wanted; only these are decoded."""
        return member_places(self.columns)

    def _are_all(self, members: pa.RecordBatch) -> bool:
        """Whether the members, without a change, are the table that is wanted."""
        return self._is_members and members.schema.equals(self.schema)

    @cached_property
    def _is_members(self) -> bool:
        """The members alone are wanted, in their order."""
        return tuple(column.member for column in self.columns) == self._places


def fit(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns the values as type `kind`: a user's schema may differ in what it says to be never null."""
    return array if array.type == kind else array.cast(kind)


def metadata(name: str, batch: Batch, first: int, run: Run) -> pa.Array:
    """A column of what the recording says of each message."""
    match name:
        case "topic":
            return named(batch, {number: stream.topic for number, stream in run.streams.items()})
        case "type":
            return named(batch, {number: stream.type_name for number, stream in run.streams.items()})
        case "file":
            return pa.repeat(str(run.path), len(batch))
        case "offset":
            return pa.array(first + np.arange(batch.chunk.message_count, dtype=np.int64)[batch.rows])
        case "payload":
            return payload_array(Rows(batch.data, batch.position, batch.size))
        case _:
            return message_column(name, batch)


def named(batch: Batch, names: dict[int, str]) -> pa.Array:
    """A name a row, by its channel."""
    if len(set(names.values())) == 1:
        return pa.repeat(next(iter(names.values())), len(batch))
    known = np.array(sorted(names), np.uint16)
    places = np.searchsorted(known, batch.channel)
    return pa.array([names[int(number)] for number in known]).take(pa.array(places))


ADVICE: Final = "typed=False gives payloads, and type_version=… the messages of one version"


def stream_of(recording: Recording, channel: Channel, typed: bool) -> Stream:
    """A channel. `typed`: its members may become columns, so what its type consists of is looked up."""
    description, problem = recording.described(channel) if typed else (None, "")
    return Stream(channel.topic, recording.type_name(channel), description, problem)


def sightings(chunks: Sequence[Chunk], streams: Mapping[int, Stream]) -> Iterator[Sighting]:
    """The messages of these channels, for `versions_of`."""
    seen = seen_in(chunks)
    for number, stream in streams.items():
        about = (stream.type_name, stream.description, stream.problem, stream.topic)
        yield Sighting(*about, *seen.get(number, (0, 0)))


def common_type(versions: Sequence[Version]) -> tuple[bytes, ...]:
    """Descriptions of the versions of the one type that messages have; none: it has no members. Raises ValueError."""
    if len({dds_name(version.type_name) for version in versions}) > 1:
        raise ValueError(f"columns can be those of one type; there are {some(versions)}. {ADVICE}")
    problems = [version.problem for version in versions if version.problem]
    if problems:
        raise ValueError(f"{problems[0]}; there are {some(versions)}. {ADVICE}")
    return tuple(version.description for version in versions if version.description is not None)
