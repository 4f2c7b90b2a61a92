"""Writes recordings: MCAP files, in chunks, with what MCAP has no place for in side records (docs/formats/format.md).

A chunk lies in the file as its record, the message indexes behind it, and its side record (`pack`). `Output` appends
whole groups of records, or nothing. The summary at the end has all that readers need to know before they read a chunk.
"""

from __future__ import annotations

import base64
import itertools
import os
import struct
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from rtmw.checksum import crc32
from rtmw.disk import DISK, Disk
from rtmw.recording import records
from rtmw.recording._mcap import ChunkBuilder
from rtmw.recording.contents import TYPE_KEY, Attachment
from rtmw.recording.ranges import ranges_record
from rtmw.recording.records import ChunkEntry, Opcode, Packed, Statistics

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

__all__ = ["CHUNK_BYTES", "COMPRESSIONS", "Definitions", "Output", "RecordingWriter", "compressor"]


MOST = (1 << 16) - 1


class Definitions:
    """Schemas and channels by number, as records. The same one again has the same number.

    `profile`: "ros2" for recordings that are meant for ROS 2's tools, too (schemas.py), else "".
    """

    def __init__(self, profile: str = "") -> None:
        self.profile = profile
        self.schemas: dict[int, bytes] = {}
        self.channels: dict[int, bytes] = {}
        self.types: dict[int, bytes] = {}
        """Descriptions of the types of CDR payloads, by channel."""
        self._schema_of: dict[int, int] = {}
        self._schema_numbers: dict[tuple[str, str, bytes], int] = {}
        self._channel_numbers: dict[bytes, int] = {}

    def schema(self, name: str, encoding: str, data: bytes) -> int:
        key = (name, encoding, bytes(data))
        if key not in self._schema_numbers:
            number = _next(self.schemas, "schemas")
            self.schemas[number] = records.schema(number, *key)
            self._schema_numbers[key] = number
        return self._schema_numbers[key]

    def channel(
        self, topic: str, schema_id: int, message_encoding: str, metadata: Mapping[str, str], number: int | None = None
    ) -> int:
        """`number`: the one that it is to have, if it is for the caller to say."""
        if schema_id and schema_id not in self.schemas:
            raise ValueError(f"channel {topic}: there is no schema {schema_id}; make it first")
        key = records.channel(0, schema_id, topic, message_encoding, metadata)
        if number is None:
            number = self._channel_numbers.get(key) or _next(self.channels, "channels")
        self.channels[number] = records.channel(number, schema_id, topic, message_encoding, metadata)
        self._channel_numbers.setdefault(key, number)
        self._schema_of[number] = schema_id
        if message_encoding == "cdr" and TYPE_KEY in metadata:
            with suppress(ValueError):  # others may write anything under this key
                self.types[number] = base64.b64decode(metadata[TYPE_KEY], validate=True)
        return number

    def of(self, channels: Iterable[int], but: Container[bytes]) -> list[bytes]:
        """Records of these channels and of their schemas, each once, without those that are in `but`."""
        found: dict[bytes, None] = {}
        for number in channels:
            schema_id = self._schema_of[number]
            if schema_id:
                found[self.schemas[schema_id]] = None
            found[self.channels[number]] = None
        return [definition for definition in found if definition not in but]


def _next(used: Mapping[int, bytes], what: str) -> int:
    number = next(number for number in itertools.count(len(used) + 1) if number not in used)
    if number > MOST:
        raise ValueError(f"a recording has at most {MOST} {what}")
    return number


Compress = Callable[[bytes | memoryview], bytes]

COMPRESSIONS = ("lz4", "zstd", "none")

_FASTEST = 1


def compressor(name: str) -> Compress | None:
    """A function of one thread; None: nothing is compressed."""
    if name not in COMPRESSIONS:
        raise ValueError(f"compression is one of {', '.join(COMPRESSIONS)}, not {name!r}")
    if name == "none":
        return None
    return _lz4() if name == "lz4" else _zstd()


def _lz4() -> Compress:
    frame: Any = import_module("lz4.frame")

    # Of larger blocks no less is left, and whoever decompresses them needs more memory than fits into a cache.
    def compress(data: bytes | memoryview) -> bytes:
        return frame.compress(data, block_size=frame.BLOCKSIZE_MAX64KB)  # type: ignore[no-any-return]

    return compress


def _zstd() -> Compress:
    library: Any = import_module("zstandard")
    return library.ZstdCompressor(level=_FASTEST).compress  # type: ignore[no-any-return]


Part = bytes | memoryview


class End(NamedTuple):
    """The end of the file, behind whole groups of records."""

    position: int
    """Bytes in it."""
    crc: int
    """CRC-32 of all of them."""


class Output:
    """A new file: `FileExistsError` when there is one of that name."""

    def __init__(self, path: str | os.PathLike[str], disk: Disk = DISK) -> None:
        self.path, self._disk = Path(path), disk
        self.end = End(0, 0)
        """Set back, it makes undone what was appended since."""
        self._is_named = False
        self._file = disk.create(str(self.path), None, os.O_WRONLY | os.O_EXCL)

    def append(self, *parts: Part) -> None:
        """All of it, or, with any exception, nothing: the end has not moved then, and is where the next group goes."""
        try:
            self._disk.write_all(self._file, parts, self.end.position)
        except BaseException:  # Ctrl-C, too
            self._cut()
            raise
        position, crc = self.end
        for part in parts:
            position, crc = position + len(part), crc32(part, crc)
        self.end = End(position, crc)

    def _cut(self) -> None:
        """Takes away what lies behind the end."""
        with suppress(OSError):  # a disk that is gone: what came before is in the file, and readers find its end
            if os.fstat(self._file).st_size > self.end.position:
                self._disk.cut(self._file, self.end.position)

    def sync(self) -> None:
        """All appended data is on the disk when this returns, and so is the name of the file."""
        try:
            self._sync()
        except OSError as error:
            what = f"{error.strerror} at a sync, so what was written since the one before may not be on the disk"
            raise OSError(error.errno, what, str(self.path)) from None

    def _sync(self) -> None:
        self._disk.sync_data(self._file)
        if not self._is_named:
            self._disk.sync_folder(self.path.parent)
            self._is_named = True

    def close(self) -> None:
        if self._file >= 0:
            self._cut()
            file, self._file = self._file, -1  # first: a close that fails has closed it, and its number is free
            os.close(file)


class Group(NamedTuple):
    """Records that were appended together: a chunk, metadata, or an attachment."""

    opcode: Opcode
    entry: bytes
    """The record of the summary that leads to it."""
    start_ns: int = 0
    end_ns: int = 0
    counts: tuple[tuple[int, int], ...] = ()
    """Channel, messages."""
    definitions: tuple[bytes, ...] = ()
    """Definitions that lie in it."""


class Summary:
    """Collected while the file is written."""

    def __init__(self, definitions: Definitions, groups: Iterable[Group] = ()) -> None:
        self.messages = 0
        self._definitions = definitions
        self._written: dict[bytes, None] = {}
        self._counts: Counter[int] = Counter()
        self._start_ns = self._end_ns = 0
        self._added: list[Group] = []
        for group in groups:
            self.add(group)

    def __len__(self) -> int:
        """Number of groups."""
        return len(self._added)

    def first(self, groups: int) -> Summary:
        """Returns the summary that there was when it had this many groups."""
        return Summary(self._definitions, self._added[:groups])

    def missing(self, channels: Iterable[int] | None) -> list[bytes]:
        """Records of these channels, or of all, and of their schemas, that are not in the file yet."""
        wanted = self._definitions.channels if channels is None else channels
        return self._definitions.of(wanted, self._written)

    def add(self, group: Group) -> None:
        self._added.append(group)
        self._written.update(dict.fromkeys(group.definitions))
        before = self.messages
        for channel, count in group.counts:
            self._counts[channel] += count
            self.messages += count
        if self.messages > before:
            self._start_ns = min(self._start_ns, group.start_ns) if before else group.start_ns
            self._end_ns = max(self._end_ns, group.end_ns)

    def _indexes(self, opcode: Opcode) -> list[bytes]:
        return [group.entry for group in self._added if group.opcode == opcode]

    def end_of_file(self, position: int) -> bytes:
        """All from behind the data section on; `position`: where that is."""
        groups = self._groups()
        summary = b"".join(b"".join(group) for _, group in groups)
        offsets: list[bytes] = []
        at = position
        for opcode, group in groups:
            length = sum(map(len, group))
            offsets.append(records.summary_offset(opcode, at, length))
            at += length
        covered = summary + b"".join(offsets) + records.footer_head(position, at)
        return covered + crc32(covered).to_bytes(4, "little") + records.MAGIC

    def _groups(self) -> list[tuple[Opcode, list[bytes]]]:
        groups = [
            (Opcode.SCHEMA, self._defined(Opcode.SCHEMA)),
            (Opcode.CHANNEL, self._defined(Opcode.CHANNEL)),
            (Opcode.STATISTICS, [records.statistics(self._statistics())]),
            (Opcode.CHUNK_INDEX, self._indexes(Opcode.CHUNK)),
            (Opcode.ATTACHMENT_INDEX, self._indexes(Opcode.ATTACHMENT)),
            (Opcode.METADATA_INDEX, self._indexes(Opcode.METADATA)),
        ]
        return [(opcode, group) for opcode, group in groups if group]

    def _defined(self, opcode: Opcode) -> list[bytes]:
        return [definition for definition in self._written if definition[0] == opcode]

    def _statistics(self) -> Statistics:
        return Statistics(
            messages=self.messages,
            schemas=len(self._defined(Opcode.SCHEMA)),
            channels=len(self._defined(Opcode.CHANNEL)),
            attachments=len(self._indexes(Opcode.ATTACHMENT)),
            metadata=len(self._indexes(Opcode.METADATA)),
            chunks=len(self._indexes(Opcode.CHUNK)),
            start_ns=self._start_ns,
            end_ns=self._end_ns,
            counts=self._counts,
        )


Missed = Mapping[tuple[int, int], int]
"""Messages that are not in the recording, by channel and cause."""

LEAST_GAIN = 0.95
"""A chunk that compression leaves larger than this part of it is written uncompressed."""

SAMPLE = 64 << 10
"""A chunk of several times so many bytes is tried by a piece first: what is noise costs no time then."""


class Packing(NamedTuple):
    """How chunks are written."""

    name: str
    compress: Compress | None
    indexed: bool


def pack(
    chunk: ChunkBuilder, data: memoryview, packing: Packing, position: int, missed: Missed
) -> tuple[list[bytes | memoryview], ChunkEntry]:
    """The bytes to write at this position, and their entry of the index. `data`: a view of the chunk."""
    packed = _packed(data, packing)
    head = records.chunk_head(chunk.start_ns, chunk.end_ns, packed)
    indexes = chunk.indexes() if packing.indexed else b""
    behind = position + len(head) + len(packed.data)
    entry = ChunkEntry(
        start_ns=chunk.start_ns,
        end_ns=chunk.end_ns,
        position=position,
        length=len(head) + len(packed.data),
        index_positions={channel: behind + at for channel, _, at in chunk.channels()} if indexes else {},
        index_length=len(indexes),
        compression=packed.compression,
        compressed_size=len(packed.data),
        size=packed.size,
    )
    return [head, packed.data, indexes, _side(chunk, packing, position, missed)], entry


def _packed(data: memoryview, packing: Packing) -> Packed:
    crc = crc32(data)
    if packing.compress is not None and (len(data) <= 4 * SAMPLE or _gains(data, packing.compress)):
        compressed = packing.compress(data)
        if len(compressed) <= LEAST_GAIN * len(data):
            return Packed(packing.name, len(data), crc, compressed)
    return Packed("", len(data), crc, data)


def _gains(data: memoryview, compress: Compress) -> bool:
    middle = len(data) // 2
    return len(compress(data[middle : middle + SAMPLE])) <= LEAST_GAIN * SAMPLE


def _side(chunk: ChunkBuilder, packing: Packing, position: int, missed: Missed) -> bytes:
    rows = [struct.pack("<HBQ", channel, cause, count) for (channel, cause), count in missed.items()]
    content = b"".join((chunk.side(), struct.pack("<I", len(rows)), *rows))
    return records.side(position, len(chunk), _packed(memoryview(content), packing))


CHUNK_BYTES = 1 << 20
LARGEST_CHUNK = 1 << 30


class MessageColumns(Protocol):
    """Messages in columns, as a `Batch` has them."""

    data: Buffer
    channel: np.ndarray
    sequence: np.ndarray
    log_time: np.ndarray
    publish_time: np.ndarray
    position: np.ndarray
    size: np.ndarray
    priority: np.ndarray
    publisher: np.ndarray
    expires: np.ndarray
    flags: np.ndarray


class RecordingWriter:
    """A new MCAP file, `FileExistsError` if there is one; a context manager. For one thread at a time.

    `compression`: lz4, zstd or none. `chunk_bytes`: so many bytes of messages are compressed together, are lost
    together when the program dies, and are read together. `index`: how to find the messages of each chunk by channel,
    16 bytes a message. `definitions`: schemas and channels that are known already, from the file before this one.

    An OSError, as of a full disk, leaves the file as it was before the chunk in question; so does Ctrl-C.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        compression: str = "lz4",
        chunk_bytes: int = CHUNK_BYTES,
        index: bool = True,
        definitions: Definitions | None = None,
    ) -> None:
        if not 1 <= chunk_bytes <= LARGEST_CHUNK:
            raise ValueError(f"chunks have between 1 byte and {LARGEST_CHUNK}, not {chunk_bytes}")
        self._packing = Packing(compression, compressor(compression), index)
        self._chunk = ChunkBuilder(chunk_bytes)
        self._missed: dict[tuple[int, int], int] = {}
        self.definitions = definitions or Definitions()
        self._output = Output(path)
        self._summary = Summary(self.definitions)
        self._undo: tuple[End, int] | None = None
        """End of the file and groups of the summary before a group that has been begun."""
        self._done: ChunkBuilder | None = None
        """A chunk that has been written, and is to be cleared."""
        self._closed = False
        try:
            self._output.append(records.MAGIC, records.header(f"rtmw {_version()}", self.definitions.profile))
        except BaseException:  # a file without a header would be in the way of all who read the folder
            self._output.close()
            os.unlink(path)
            raise

    @property
    def path(self) -> str:
        return os.fspath(self._output.path)

    @property
    def position(self) -> int:
        """Bytes in the file; of the open chunk there are none yet."""
        return self._output.end.position

    @property
    def message_count(self) -> int:
        """Messages in the file, without those of the open chunk."""
        return self._summary.messages

    def schema(self, name: str, encoding: str, data: bytes) -> int:
        """The number of a schema, for `channel`."""
        return self.definitions.schema(name, encoding, data)

    def channel(
        self, topic: str, schema_id: int, message_encoding: str, metadata: Mapping[str, str] | None = None
    ) -> int:
        """The number of a channel, for `write`. `schema_id` 0: it has no schema."""
        return self.definitions.channel(topic, schema_id, message_encoding, metadata or {})

    def write(
        self,
        channel: int,
        payload: Buffer,
        *,
        log_time: int,
        publish_time: int,
        sequence: int = 0,
        priority: int = 0,
        publisher: int = 0,
        expires: int = 0,
        flags: int = 0,
    ) -> None:
        """One message; times in nanoseconds since 1970. It is in the file when its chunk is full, or with `flush`."""
        self._require(channel)
        if self._undo:
            self._finish_group()
        if self._chunk.is_full_for(memoryview(payload).nbytes):
            self.flush()
        self._chunk.append(channel, payload, log_time, publish_time, sequence, priority, publisher, expires, flags)

    def write_batch(self, batch: MessageColumns, channels: Mapping[int, int]) -> None:
        """All messages of a batch; `channels`: from its channel numbers to those of this file."""
        used = {int(number) for number in np.unique(batch.channel)}
        if not used <= channels.keys():
            raise ValueError(f"channels {sorted(used - channels.keys())} of the batch have none in this file")
        numbers = np.zeros(1 << 16, np.uint16)
        for number in used:
            self._require(channels[number])
            numbers[number] = channels[number]
        self._finish_group()
        columns = _columns(batch)
        rows, done = len(columns[0]), 0
        while done < rows:
            done = self._chunk.extend(batch.data, columns, numbers.data, done)
            if done < rows:
                self.flush()

    def write_chunk(self, chunk: ChunkBuilder) -> None:
        """Messages that were collected in a chunk elsewhere; the open chunk goes before it, and this one is cleared."""
        self._require_open()
        if len(self._chunk):
            self.flush()
        self._append(chunk)

    def missed(self, channel: int, cause: int, count: int) -> None:
        """Takes down that this many messages of a channel are missing here (docs/formats/format.md has the causes)."""
        self._require(channel)
        self._finish_group()
        self._missed[channel, cause] = self._missed.get((channel, cause), 0) + count

    def metadata(self, name: str, values: Mapping[str, str]) -> None:
        """A table of texts, at this place in the file."""
        self.flush()
        entry = records.metadata(name, values)
        index = records.metadata_index(self._output.end.position, len(entry), name)
        self._append_single(Group(Opcode.METADATA, index), entry)

    def attachment(
        self,
        name: str,
        data: Buffer,
        *,
        media_type: str = "application/octet-stream",
        log_time: int = 0,
        create_time: int = 0,
    ) -> None:
        """A file, at this place in the recording; times in nanoseconds since 1970. Several may have one name."""
        self.flush()
        with memoryview(data).cast("B") as content:
            about = Attachment(name, media_type, log_time, create_time, len(content), self.position)
            head = records.attachment_head(about)
            crc = crc32(content, crc32(head[records.HEAD :])).to_bytes(4, "little")
            index = records.attachment_index(about, len(head) + len(content) + len(crc))
            self._append_single(Group(Opcode.ATTACHMENT, index), head, content, crc)

    def flush(self) -> None:
        """The open chunk is closed, and given to the system."""
        self._require_open()
        self._finish_group()
        if len(self._chunk) or self._missed:
            self._append(self._chunk)

    def sync(self) -> None:
        """The content of the file survives a loss of power from now on. Takes as long as the disk does."""
        self._require_open()
        self._output.sync()

    def close(self) -> None:
        """The file is complete. With an OSError it is not, but what was in it stays, and can be recovered."""
        if self._closed:
            return
        try:
            try:
                self._close_last_chunk()
            finally:
                self._finish()
        finally:
            self._closed = True
            self._output.close()

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self.path} is closed")

    def _require(self, channel: int) -> None:
        if self._closed or channel not in self.definitions.channels:
            self._require_open()
            raise ValueError(f"there is no channel {channel}; make it first")

    def _append(self, chunk: ChunkBuilder, *, with_all_definitions: bool = False) -> None:
        """On an error the messages stay in the chunk, and what was missed is kept, for another attempt."""
        self._finish_group()
        used = [number for number, _, _ in chunk.channels()] + [number for number, _ in self._missed]
        definitions = self._summary.missing(None if with_all_definitions else used)
        if definitions:
            chunk.prepend(b"".join(definitions))
        with memoryview(chunk) as data:
            position = self._output.end.position
            parts, entry = pack(chunk, data, self._packing, position, self._missed)
            parts.append(ranges_record(chunk, data, position, self.definitions.types))
            self._undo = self._output.end, len(self._summary)
            self._output.append(*parts)
        counts = tuple((number, count) for number, count, _ in chunk.channels())
        index = records.chunk_index(entry)
        self._summary.add(Group(Opcode.CHUNK, index, entry.start_ns, entry.end_ns, counts, tuple(definitions)))
        self._done = chunk
        self._finish_group()

    def _append_single(self, group: Group, *parts: bytes | memoryview) -> None:
        """Append a group that is no chunk; the writer was flushed."""
        self._undo = self._output.end, len(self._summary)
        self._output.append(*parts)
        self._summary.add(group)
        self._undo = None

    def _finish_group(self) -> None:
        """A group is in the file and in the summary, or in neither, wherever an exception like Ctrl-C struck."""
        if self._done is not None:
            self._missed.clear()
            self._done.clear()
            self._undo = self._done = None
        elif self._undo is not None:
            self._output.end, groups = self._undo
            self._summary = self._summary.first(groups)
            self._undo = None

    def _close_last_chunk(self) -> None:
        self._finish_group()
        if len(self._chunk) or self._missed or self._summary.missing(None):
            self._append(self._chunk, with_all_definitions=True)

    def _finish(self) -> None:
        self._finish_group()
        self._output.append(records.data_end(self._output.end.crc))
        self._output.append(self._summary.end_of_file(self._output.end.position))
        self._output.sync()


def _columns(rows: MessageColumns) -> tuple[memoryview, ...]:
    """Returns the columns in the order and with the types that `ChunkBuilder.extend` wants."""
    columns = (
        (rows.channel, "u2"),
        (rows.sequence, "u8"),
        (rows.log_time, "i8"),
        (rows.publish_time, "i8"),
        (rows.position, "i8"),
        (rows.size, "i8"),
        (rows.priority, "u1"),
        (rows.publisher, "u8"),
        (rows.expires, "i8"),
        (rows.flags, "u1"),
    )
    return tuple(np.ascontiguousarray(column, dtype).data for column, dtype in columns)


def _version() -> str:
    from importlib.metadata import version

    return version("rtmw")
