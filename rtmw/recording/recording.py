"""A recording, read: what is in it, its messages in bulk, and as tables of Arrow, pandas and Polars.

Neither Spark nor Java is needed for tables.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

import numpy as np

from rtmw.closing import Closing
from rtmw.errors import RecordingDamaged, UnsupportedType, needed
from rtmw.recording.batch import (
    Batch,
    batch_of,
    check_facts,
    compressed_rows,
    decompressed,
    read_side,
    scan_chunk,
    within,
)
from rtmw.recording.contents import (
    TYPE_KEY,
    UNSET_NS,
    Attachment,
    Channel,
    Chunk,
    Message,
    Missed,
    Schema,
    Time,
    time_ns,
)
from rtmw.recording.files import open_file, read_header
from rtmw.recording.index import Index, Walk, is_finished, read_attachment, read_metadata, read_summary
from rtmw.recording.places import place
from rtmw.recording.ranges import Members, Ranges, read_ranges
from rtmw.recording.schemas import CDR, ROS2, described_payloads, message_type_of, no_type, type_name
from rtmw.recording.versions import version_number
from rtmw.text.units import counted
from rtmw.types import MessageType

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    from numpy.typing import NDArray

    from rtmw.recording.frames.frame import Frame, Query
    from rtmw.recording.frames.scan import Planned


class TableKeywords(TypedDict, total=False):
    """Which rows and columns a table has."""

    start: Time | None
    """Logged then or later; a datetime or a text is of UTC, if it does not say."""
    end: Time | None
    """Logged before."""
    columns: Sequence[str] | None
    """The only columns, in this order; None: the usual ones. docs/spark.md lists them."""
    filter: pc.Expression | None
    """Rows for which an expression of pyarrow.compute is true; chunks in which there can be none are not read."""
    typed: bool
    """False: payloads instead of a column for each member."""
    mode: str
    """Treatment of a damaged payload: FAILFAST, an error; PERMISSIVE, a row without members; DROPMALFORMED, no row."""
    type_version: int | str
    """Only messages of this version of the topic's type, from 1, or `latest`; without it, all, with columns merged by
    name."""


class Tabular(Closing):
    """The methods of `Recording` and `Recordings` that read them as a table."""

    def _recordings(self) -> Sequence[Recording]:
        """Returns the recordings that the table is made of."""
        raise NotImplementedError

    def _rows(self, frame: Frame, query: Query) -> Iterator[pa.RecordBatch]:
        """The rows in their order."""
        return frame.read(query)

    def record_batches(self, topic: str | None = None, **wanted: Unpack[TableKeywords]) -> pa.RecordBatchReader:
        """The messages of a topic as a stream of record batches, a row a message, a column a member, a batch a chunk.

            for batch in recording.record_batches("pump/speed", columns=["log_time", "rpm"]): ...

        `topic` None: those of all topics, as payloads. Read from it before the recording is closed.

        Errors: ValueError for a topic, a column or a time that there is not, UnsupportedType for a type that columns
        cannot hold, NotInstalled; while it is read: RecordingDamaged, ValueMismatch for a damaged payload.
        """
        arrow = needed("pyarrow", "PyArrow", "arrow", "a recording as a table")
        frame, query = self._asked(topic, wanted)
        return arrow.RecordBatchReader.from_batches(frame.schema(query.columns), self._rows(frame, query))

    def to_arrow(self, topic: str | None = None, **wanted: Unpack[TableKeywords]) -> pa.Table:
        """Returns what `record_batches` yields as one table in memory.

        `to_arrow("pump/speed", start="2026-11-22T08", columns=["rpm"])` has one column, from 8 o'clock on.
        """
        return self.record_batches(topic, **wanted).read_all()

    def to_pandas(self, topic: str | None = None, **wanted: Unpack[TableKeywords]) -> pd.DataFrame:
        """Returns what `record_batches` yields as a DataFrame of pandas."""
        needed("pandas", "pandas", "pandas", "to_pandas()")
        return self.to_arrow(topic, **wanted).to_pandas()

    def to_polars(self, topic: str | None = None, **wanted: Unpack[TableKeywords]) -> pl.DataFrame:
        """Returns what `record_batches` yields as a DataFrame of Polars."""
        polars = needed("polars", "Polars", "polars", "to_polars()")
        return cast("pl.DataFrame", polars.from_arrow(self.to_arrow(topic, **wanted)))

    def planned(self, topic: str | None = None, **wanted: Unpack[TableKeywords]) -> Planned:
        """How many chunks, messages and bytes such a table is read from, and how many are skipped; by the index."""
        frame, query = self._asked(topic, wanted)
        return frame.planned(query)

    def _asked(self, topic: str | None, wanted: TableKeywords) -> tuple[Frame, Query]:
        unknown = sorted(wanted.keys() - TableKeywords.__annotations__)
        if unknown:
            known = ", ".join(TableKeywords.__annotations__)
            raise TypeError(f"a table of a recording has no keyword {unknown[0]!r}; there are {known}")
        needed("pyarrow", "PyArrow", "arrow", "a recording as a table")
        from rtmw.recording.frames.frame import Frame, Query
        from rtmw.recording.frames.scan import MODES, TimeRange

        columns = wanted.get("columns") or ()
        selection = TimeRange(_moment("start", wanted.get("start")), _moment("end", wanted.get("end")))
        query = Query((columns,) if isinstance(columns, str) else tuple(columns), selection, wanted.get("filter"))
        version = _version(wanted["type_version"]) if "type_version" in wanted else None
        mode = _one_of(MODES, wanted.get("mode", MODES[0]), "mode")
        return Frame(self._recordings(), topic, wanted.get("typed", True), version, mode), query


def _one_of(allowed: Sequence[str], given: str, name: str) -> str:
    """The one that is meant, in any case of letters. Raises ValueError."""
    found = [word for word in allowed if word.lower() == given.lower()]
    if not found:
        raise ValueError(f"{name}={given!r} is not possible: one of {', '.join(allowed)} was expected")
    return found[0]


def _version(written: int | str) -> int:
    try:
        return version_number(written)
    except ValueError as error:
        raise ValueError(f"type_version={written!r} is not possible: {error} was expected") from None


def _moment(name: str, time: Time | None) -> int | None:
    if time is None:
        return None
    try:
        return time_ns(time)
    except ValueError as error:
        raise ValueError(f"{name}={time!r} is not possible: {error} was expected") from None


Topics = str | Collection[str] | None


class Recording(Tabular):
    """An MCAP file, of rtmw or of others; complete, still growing, or cut off.

    with Recording("plant.mcap") as recording:
        for batch in recording.batches("pump/speed"):
            print(batch.log_time, batch.payload(0))

    Raises RecordingError for a file that is none, and RecordingDamaged wherever bytes contradict each other or their
    CRC: no wrong row is ever handed out. Any thread may read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = place(path)
        self._file = open_file(self.path)
        try:
            self.header = read_header(self._file)
        except BaseException:
            self._file.close()
            raise
        self._walk: Walk | None = None
        self._why_not = ""
        self._loaded: Index | None = None
        self._lock = threading.Lock()
        self._types: dict[int, tuple[MessageType | None, str | None]] = {}

    def __repr__(self) -> str:
        return f"Recording({str(self.path)!r})"

    def _repr_html_(self) -> str:
        from rtmw.recording.tools.info import as_html

        return as_html(f"Recording {self.path}", [self])

    def close(self) -> None:
        self._file.close()

    # ---- what is in it ----

    @property
    def _index(self) -> Index:
        """Read when it is first asked for: a process that has chunks already, of another one, needs none."""
        if self._loaded is None:
            with self._lock:
                self._loaded = self._loaded or self._load()
        return self._loaded

    def _load(self) -> Index:
        if is_finished(self._file):
            try:
                summary = read_summary(self._file)
            except RecordingDamaged as error:
                self._why_not = str(error)
            else:
                if summary and summary.explains_all():
                    summary.index.is_ours = self.header.is_ours
                    return summary.index
        return self._by_walk()

    def _by_walk(self) -> Index:
        index = Index(self.path, self.header.is_ours)
        self._walk = Walk(self._file, index, self.header.end)
        self._walk.advance()
        if is_finished(self._file) and not self._walk.is_at_end:
            raise self._walk.lost()
        return index

    @property
    def complete(self) -> bool:
        """False: it is still being written, or was cut, or its summary is damaged: see `incomplete_because`."""
        return not self.incomplete_because

    @property
    def incomplete_because(self) -> str:
        """Why the recording is not complete; "" if it is."""
        chunks = len(self._index.chunks)  # first: the index is read now, if it was not, and with it the walk
        if self._walk is None or self._why_not:
            return self._why_not
        if self._walk.why_not:
            return self._walk.why_not
        if self._walk.is_at_end and is_finished(self._file):
            return ""
        whole = f"{counted(chunks, 'chunk')} {'is' if chunks == 1 else 'are'} whole"
        return f"it has no end: {whole}, until byte {self._walk.position} of {self._file.size}"

    @property
    def lacks_end(self) -> bool:
        """Whether it is incomplete though what has been read of it is whole: it was cut, or is still being written."""
        return bool(self.incomplete_because) and not self._why_not and not (self._walk and self._walk.why_not)

    @property
    def schemas(self) -> Mapping[int, Schema]:
        """Schemas by id."""
        return self._index.schemas

    @property
    def channels(self) -> Mapping[int, Channel]:
        """Channels by id."""
        return self._index.channels

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """Chunks in the order of the file."""
        return tuple(self._index.chunks)

    @property
    def message_count(self) -> int:
        return sum(chunk.message_count for chunk in self._index.chunks)

    @property
    def start_ns(self) -> int:
        """Earliest log time; 0 without messages that have one."""
        return min(self._times(), default=0)

    @property
    def end_ns(self) -> int:
        """Latest log time."""
        return max(self._times(), default=0)

    def _times(self) -> Iterator[int]:
        times = ((chunk.start_ns, chunk.end_ns) for chunk in self._index.chunks if chunk.counts)
        return (time for both in times for time in both if time != UNSET_NS)

    @property
    def bytes_read(self) -> int:
        """How much of the file has been read so far."""
        return self._file.bytes_read

    @cached_property
    def metadata(self) -> tuple[tuple[str, dict[str, str]], ...]:
        """Metadata records, by name; a name may come several times."""
        places = self._extras.metadata or ()
        return tuple(read_metadata(self._file, *place, self.header.is_ours) for place in places)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        return tuple(self._extras.attachments or ())

    def attachment(self, attachment: Attachment) -> bytes:
        """The data of an attachment."""
        return read_attachment(self._file, attachment)

    @cached_property
    def _extras(self) -> Index:
        """An index that knows metadata and attachments, which not every summary does."""
        index = self._index
        if index.metadata is not None and index.attachments is not None:
            return index
        complete = Index(self.path, self.header.is_ours)
        Walk(self._file, complete, self.header.end).advance()
        return complete

    def topics(self) -> dict[str, list[Channel]]:
        """The channels of each topic: several if its type changed."""
        found: dict[str, list[Channel]] = {}
        for channel in self.channels.values():
            found.setdefault(channel.topic, []).append(channel)
        return found

    def type_name(self, channel: Channel) -> str:
        """The name of a channel's type as the file says it: `plant::Speed`, `std_msgs/msg/String`, `bytes`."""
        schema, type = self.schemas.get(channel.schema_id), self.message_type(channel)
        return type_name(schema) if schema is not None else type.name if type is not None else channel.message_encoding

    def message_type(self, channel: Channel | int) -> MessageType | None:
        """The type that decodes the payloads of a channel; None where none does, and `type_problem` says why."""
        return self._type(channel)[0]

    def type_problem(self, channel: Channel | int) -> str | None:
        """Why the payloads of a channel cannot be decoded; None where they can."""
        return self._type(channel)[1]

    def described(self, channel: Channel | int) -> tuple[bytes | None, str]:
        """Returns the description from which columns are made of the payloads of a channel; None: there are no
        columns, and why ("": the payloads are bytes, which have no members)."""
        found = self.channels[channel] if isinstance(channel, int) else channel
        type = self.message_type(found)
        if type is not None:
            return (None, "") if type.kind == "bytes" else (type.description, "")
        try:
            description = described_payloads(self.schemas.get(found.schema_id), found)
        except UnsupportedType as error:
            return None, str(error)
        return description, "" if description is not None else self.type_problem(found) or "it has no type"

    def _type(self, channel: Channel | int) -> tuple[MessageType | None, str | None]:
        found = self.channels[channel] if isinstance(channel, int) else channel
        if found.id not in self._types:
            schema = self.schemas.get(found.schema_id)
            try:
                type = message_type_of(schema, found, self._first_payload(found, schema))
                problem = None if type is not None else no_type(schema, found)
                self._types[found.id] = type, problem
            except UnsupportedType as error:
                self._types[found.id] = None, str(error)
        return self._types[found.id]

    def _first_payload(self, channel: Channel, schema: Schema | None) -> bytes:
        """Returns the first payload of a channel where only a payload says how the type is encoded; else b""."""
        if schema is None or schema.encoding != "omgidl" or TYPE_KEY in channel.metadata:
            return b""
        chunk = next((chunk for chunk in self.chunks if chunk.counts.get(channel.id)), None)
        if chunk is None:
            return b""
        batch = self.read(chunk)
        return bytes(batch.payload(int(np.argmax(batch.channel == channel.id))))

    # ---- its messages ----

    def _recordings(self) -> tuple[Recording]:
        return (self,)

    def select(self, topics: Topics = None, start_ns: int | None = None, end_ns: int | None = None) -> list[Chunk]:
        """Chunks that may have messages of these topics with start_ns <= log time < end_ns. Reads nothing."""
        wanted = self._numbers(topics)
        return [chunk for chunk in self._index.chunks if self._concerns(chunk, wanted, start_ns, end_ns)]

    def _numbers(self, topics: Topics) -> set[int] | None:
        """Ids of the channels of these topics; None: of all."""
        if topics is None:
            return None
        names = {topics} if isinstance(topics, str) else set(topics)
        return {channel.id for channel in self.channels.values() if channel.topic in names}

    def _concerns(self, chunk: Chunk, wanted: set[int] | None, start_ns: int | None, end_ns: int | None) -> bool:
        if start_ns is not None and chunk.end_ns < start_ns:
            return False
        if end_ns is not None and chunk.start_ns >= end_ns:
            return False
        return bool(chunk.counts) and (wanted is None or not wanted.isdisjoint(chunk.counts))

    def read(self, chunk: Chunk) -> Batch:
        """All messages of a chunk, after every check that is possible. Raises RecordingDamaged."""
        return self.as_published(self.read_stored(chunk))

    def as_published(self, batch: Batch) -> Batch:
        """The batch that `read_stored` gave, with payloads that were compressed one by one decompressed."""
        channels = self._perhaps_compressed
        return decompressed(self.path, batch, channels) if channels else batch

    @property
    def compresses_messages(self) -> bool:
        """Has a recorder compressed the messages one by one? Reads the first chunk that could tell, if there is one."""
        channels = self._perhaps_compressed
        chunk = next((chunk for chunk in self.chunks if not channels.isdisjoint(chunk.counts)), None)
        return chunk is not None and len(compressed_rows(self.read_stored(chunk), channels)) > 0

    @property
    def _perhaps_compressed(self) -> set[int]:
        """Channels that may have such messages: rtmw compresses none, but copies them when it recovers a bag."""
        if self.header.is_ours and self.header.profile != ROS2:
            return set()
        return {channel.id for channel in self.channels.values() if channel.message_encoding == CDR}

    def read_stored(self, chunk: Chunk) -> Batch:
        """Reads like `read`, but leaves payloads as they lie in the file, some of them compressed one by one."""
        # The messages last: they are looked at next, and lie in the processor's cache then.
        side = read_side(self._file, chunk, chunk.message_count, self.header.is_ours)
        scanned = scan_chunk(self._file, chunk)
        check_facts(self._file, chunk, scanned, self.header.is_ours)
        return batch_of(chunk, scanned, side)

    def missed(self, chunk: Chunk) -> tuple[Missed, ...]:
        """The messages that the recorder missed since the chunk before; no message is read. Raises RecordingDamaged."""
        return read_side(self._file, chunk, chunk.message_count, self.header.is_ours).missed

    def ranges(self, chunk: Chunk, members: Members | None = None) -> Ranges:
        """The least and the largest value of each number in a chunk, by channel, as far as the file says it; no message
        is read. `members`: only of the members at these places, by channel; None: of all. Raises RecordingDamaged.
        """
        return read_ranges(self._file, chunk, members)

    def batches(self, topics: Topics = None, start_ns: int | None = None, end_ns: int | None = None) -> Iterator[Batch]:
        """Messages of these topics with start_ns <= log time < end_ns, chunk by chunk, in the order of the file."""
        wanted = self._numbers(topics)
        for chunk in self.select(topics, start_ns, end_ns):
            batch = chosen(self.read(chunk), wanted, start_ns, end_ns)
            if len(batch):
                yield batch

    def messages(
        self, topics: Topics = None, start_ns: int | None = None, end_ns: int | None = None
    ) -> Iterator[Message]:
        """Yields what `batches` yields, one object a message: for small uses."""
        for batch in self.batches(topics, start_ns, end_ns):
            columns = (batch.channel, batch.sequence, batch.log_time, batch.publish_time)
            more = (batch.priority, batch.publisher, batch.expires, batch.flags)
            for row, numbers in enumerate(zip(*(column.tolist() for column in (*columns, *more)), strict=True)):
                channel, sequence, log_time, publish_time, priority, publisher, expires, flags = numbers
                stamps = (sequence, log_time, publish_time)
                payload = bytes(batch.payload(row))
                yield Message(self.channels[channel], *stamps, payload, priority, publisher, expires, flags)

    def refresh(self) -> bool:
        """Looks at a growing file again: are there more whole chunks now?"""
        chunks = len(self._index.chunks)
        with self._lock:
            self._file.measure()
            if self._walk is None or self._walk.is_at_end:
                return False
            self._walk.advance()
            self.__dict__.pop("metadata", None)  # it may have grown, too
        return len(self._index.chunks) > chunks


def chosen(batch: Batch, wanted: set[int] | None, start_ns: int | None, end_ns: int | None) -> Batch:
    """The rows of these channels with start_ns <= log time < end_ns."""
    masks: list[NDArray[np.bool_]] = []
    if wanted is not None and not wanted.issuperset(batch.chunk.counts):
        is_wanted = np.zeros(1 << 16, bool)
        is_wanted[list(wanted)] = True
        masks.append(is_wanted[batch.channel])
    masks += within(batch, start_ns, end_ns)
    return batch.where(np.logical_and.reduce(masks)) if masks else batch
