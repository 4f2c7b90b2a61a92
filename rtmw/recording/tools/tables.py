"""Messages as Arrow tables, and as a folder of Parquet files, partitioned by topic and hour, in bounded memory.

A table has what a recording says of each message, and the members of its type; raw bytes as a payload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rtmw import columns
from rtmw.columns.rows import Rows
from rtmw.errors import UnsupportedType
from rtmw.recording.batch import CARRIED
from rtmw.recording.contents import UNSET_NS
from rtmw.recording.frames.layout import MESSAGE_FIELDS, message_column
from rtmw.recording.frames.scan import stream_of
from rtmw.recording.tools.copying import Section

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.batch import Batch
    from rtmw.recording.contents import Channel
    from rtmw.recording.frames.scan import Stream
    from rtmw.recording.recording import Recording
    from rtmw.recording.versions import Version


OF_THE_FOLDERS: Final = ("topic", "version", "hour")
"""The columns whose values follow from the place of a row."""


@dataclass(frozen=True, slots=True)
class TopicTable:
    """Messages of one topic and one version of a type, in the order of the file."""

    stream: Stream
    table: pa.RecordBatch
    log_time_ns: NDArray[np.int64]

    @property
    def topic(self) -> str:
        return self.stream.topic


def tables(recording: Recording, section: Section) -> Iterator[TopicTable]:
    """The messages of a section, chunk by chunk, so that memory stays small; last values that a recorder carried over
    from the file before are left out. A recording need not have its topics.

    Raises RecordingDamaged, and ValueMismatch for a payload that is not of its type.
    """
    names, (start_ns, end_ns) = section.meant(recording.topics()), section.span(recording)
    readers: dict[int, _Reader] = {}
    for batch in recording.batches(names, start_ns, end_ns):
        if batch.has_flags:
            batch = batch.where(batch.flags & CARRIED == 0)
        for number in sorted({int(number) for number in np.unique(batch.channel)}):
            reader = readers.get(number) or readers.setdefault(number, _reader(recording, recording.channels[number]))
            yield from reader.read(batch.where(batch.channel == number))


def _reader(recording: Recording, channel: Channel) -> _Reader:
    stream = stream_of(recording, channel, True)
    if stream.description is not None:
        try:
            return _Typed(stream, columns.described_decoder(stream.description))
        except UnsupportedType:
            pass  # no columns can hold it: then as payloads
    return _Reader(stream)


class _Reader:
    """Payloads as they are."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def read(self, batch: Batch) -> Iterator[TopicTable]:
        yield self._table(batch, [columns.payload_array(_rows(batch))], [pa.field("payload", pa.binary(), False)])

    def _table(self, batch: Batch, members: list[Any], fields: list[pa.Field]) -> TopicTable:
        arrays = [*[message_column(name, batch) for name in MESSAGE_FIELDS], *members]
        made = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*MESSAGE_FIELDS.values(), *fields]))
        return TopicTable(self._stream, made, batch.log_time)


class _Typed(_Reader):
    """A column a member."""

    def __init__(self, stream: Stream, decoder: columns.Decoder) -> None:
        super().__init__(stream)
        self._decoder = decoder
        taken = {*MESSAGE_FIELDS, *OF_THE_FOLDERS}
        self._fields = [field.with_name(_free(field.name, taken)) for field in decoder.schema(False)]

    def read(self, batch: Batch) -> Iterator[TopicTable]:
        done = 0
        for decoded, _ in self._decoder.decode(_rows(batch), False):
            end: int = done + decoded.num_rows
            rows = batch.where(np.arange(done, end))
            yield self._table(rows, decoded.columns, self._fields)
            done = end


def _free(name: str, taken: set[str]) -> str:
    """A member that is called like metadata, or like another in other letters, gets a line behind its name.

    Many readers of Parquet do not tell `Topic` from `topic`.
    """
    while name.lower() in taken:
        name += "_"
    taken.add(name.lower())
    return name


def _rows(batch: Batch) -> Rows:
    return Rows(batch.data, batch.position, batch.size)


_HOUR_NS: Final = 3600 * 10**9
_NO_HOUR: Final = -1
NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name that readers of such folders give to a partition whose value is null."""
_BUFFERED: Final = 64 << 20
"""Bytes of all partitions that wait to be written; then those with most are."""
ROW_GROUP: Final = 1 << 17
"""Rows of a row group at most."""
_OPEN: Final = 64
"""Files at a time; a partition that is met again later has another one."""

_Key = tuple[str, int, int]
"""Topic, place of the version among those of the topic, hour."""


class ParquetFolder:
    """A context manager; all is written at its end.

    `versions`: of each topic. Where there are several, each has a folder of its own: readers of a folder take the
    columns of its first file for those of all.
    """

    def __init__(self, folder: Path, versions: Mapping[str, Sequence[Version]]) -> None:
        self._folder, self._versions = folder, versions
        self.messages: dict[str, int] = {}
        """Messages written, by topic."""
        self._waiting: dict[_Key, list[pa.RecordBatch]] = {}
        self._bytes: Counter[_Key] = Counter()
        self._rows: Counter[_Key] = Counter()
        self._open: dict[_Key, Any] = {}
        """The file of each partition; the one that was written to last is last."""
        self._parts: Counter[_Key] = Counter()

    def add(self, found: TopicTable) -> None:
        """Takes rows; they are written when there are many."""
        self.messages[found.topic] = self.messages.get(found.topic, 0) + found.table.num_rows
        version = self._version(found.stream)
        hours = np.where(found.log_time_ns == UNSET_NS, _NO_HOUR, found.log_time_ns // _HOUR_NS)
        for hour in np.unique(hours).tolist():
            rows = found.table if (hours == hour).all() else found.table.filter(pa.array(hours == hour))
            key = (found.topic, version, hour)
            self._waiting.setdefault(key, []).append(rows)
            self._bytes[key] += rows.nbytes
            self._rows[key] += rows.num_rows
            if self._rows[key] >= ROW_GROUP:
                self._write(key)
        while self._bytes.total() > _BUFFERED:
            self._write(self._bytes.most_common(1)[0][0])

    def _version(self, stream: Stream) -> int:
        """Returns the place of a stream's version among those of its topic."""
        about = (stream.type_name, stream.description, stream.problem)
        return next(place for place, version in enumerate(self._versions[stream.topic]) if version.has(*about))

    def _write(self, key: _Key) -> None:
        batches = self._waiting.pop(key)
        del self._bytes[key], self._rows[key]
        writer = self._open.pop(key, None) or self._begin(key, batches[0].schema)
        self._open[key] = writer
        writer.write_table(pa.Table.from_batches(batches))
        if len(self._open) > _OPEN:
            self._open.pop(next(iter(self._open))).close()

    def _begin(self, key: _Key, schema: pa.Schema) -> Any:
        topic, version, hour = key
        named = NULL_PARTITION if hour == _NO_HOUR else datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%dT%H")
        apart = [f"version={version + 1}"] if len(self._versions[topic]) > 1 else []
        folder = self._folder.joinpath(f"topic={quote(topic, safe='')}", *apart, f"hour={named}")
        folder.mkdir(parents=True, exist_ok=True)
        number = self._parts[key]
        self._parts[key] += 1
        return pq.ParquetWriter(folder / f"part-{number}.parquet", schema, compression="zstd")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for key in [*self._waiting] if error is None else []:
                self._write(key)
        finally:
            for writer in self._open.values():
                writer.close()
