"""Messages as Arrow tables: what a recording says of each, and the members of its type; raw bytes as a payload."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from rtmw import columns
from rtmw.columns.rows import Rows
from rtmw.errors import UnsupportedType
from rtmw.recording.arrow import MESSAGE_FIELDS, message_column
from rtmw.recording.batch import CARRIED
from rtmw.recording.frames.streams import stream_of
from rtmw.recording.tools.cut import Section

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.batch import Batch
    from rtmw.recording.contents import Channel
    from rtmw.recording.frames.scan import Stream
    from rtmw.recording.recording import Recording


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
