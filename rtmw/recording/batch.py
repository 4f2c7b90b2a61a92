"""Messages as columns: one row a message, and never a Python object for one. A chunk is read from the file, checked
against everything that is known of it, then scanned; batches of several recordings can be had as one, in the order of
their times.

A chunk is decompressed into a size that is known and bounded, whatever the compressed bytes would like to become; so
are messages that were compressed one by one. Its side record has what rtmw knows of the messages, and MCAP has no place
for (docs/formats/format.md). No file says that messages were compressed one by one; `metadata.yaml` beside it does, and
it may be gone. But each such payload begins with the magic number of zstd, and no CDR payload does: the first byte of
its header is 0.

For batches in the order of time, chunks are read in the order in which they begin. A message is given once no chunk is
left that could hold an earlier one; so only chunks that overlap are in memory together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from rtmw.checksum import crc32
from rtmw.errors import RecordingDamaged
from rtmw.recording import _mcap, records
from rtmw.recording.contents import UNSET_NS, Chunk, Missed, clamped
from rtmw.recording.files import File
from rtmw.recording.records import HEAD, SIDE_HEAD, ChunkHead, Fields, Opcode, Packed, damaged

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from rtmw.recording.recording import Recording

    Column = NDArray[Any]


LARGEST: Final = 1 << 32
"""No chunk is larger, uncompressed."""

_RATIO: Final = {"": 1, "lz4": 255, "zstd": 1 << 15}
"""The most bytes that one byte can become: nothing is allocated for a size that cannot be true."""
_SLACK: Final = 1 << 17
_SUSPICIOUS: Final = 1 << 28
"""Bytes beyond which one byte may become 255 at most: a small file must not take all memory."""

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_SAYS_SIZE: Final = 0x08


def check_claim(compression: str, size: int, uncompressed_size: int) -> str | None:
    """Why `size` bytes cannot become `uncompressed_size`; None if they can."""
    if compression not in _RATIO:
        return f"the compression {compression!r} is not known; known are lz4, zstd and none"
    if uncompressed_size > LARGEST:
        return f"it claims to have {uncompressed_size} bytes uncompressed; at most {LARGEST} are read"
    if uncompressed_size > size * _RATIO[compression] + _SLACK or (not compression and size != uncompressed_size):
        return f"it claims to have {uncompressed_size} bytes uncompressed, which its {size} bytes cannot become"
    if uncompressed_size > max(_SUSPICIOUS, size * _RATIO["lz4"] + _SLACK):
        return f"its {size} bytes would become {uncompressed_size}: beyond {_SUSPICIOUS}, at most 255 of one are read"
    return None


def decompress(compression: str, data: bytes | memoryview, size: int) -> bytes | memoryview:
    """The uncompressed bytes. Raises ValueError, with a reason, unless there are exactly `size` of them."""
    match compression:
        case "":
            made: bytes | memoryview = data
        case "lz4":
            arrow = sys.modules.get("pyarrow")
            made = _lz4_by_arrow(arrow, data, size) if arrow and says_size(data, size) else _lz4(data, size)
        case _:
            made = _zstd(data, size)
    if len(made) != size:
        raise ValueError(f"it has {len(made)} bytes uncompressed, and should have {size}")
    return made


def says_size(data: bytes | memoryview, size: int) -> bool:
    """The head of an LZ4 frame has this size; whoever decompresses it then makes sure that it is true."""
    head = bytes(data[:14])
    if len(head) < 14 or head[:4] != _LZ4_MAGIC or not head[4] & _LZ4_SAYS_SIZE:
        return False
    return head[6:] == size.to_bytes(8, "little")


def _lz4_by_arrow(arrow: Any, data: bytes | memoryview, size: int) -> memoryview:
    """Straight to where it stays: two thirds of the time of the other."""
    try:
        return memoryview(arrow.Codec("lz4").decompress(data, size))
    except OSError as error:
        raise ValueError(f"it cannot be decompressed: {error}") from error


def _lz4(data: bytes | memoryview, size: int) -> bytes:
    frame: Any = import_module("lz4.frame")
    decompressor = frame.LZ4FrameDecompressor()
    try:
        made: bytes = decompressor.decompress(data, max_length=size + 1)
    except RuntimeError as error:
        raise ValueError(f"it cannot be decompressed: {error}") from error
    if not decompressor.eof:
        raise ValueError(f"its compressed data is cut short, or becomes more than {size} bytes")
    if decompressor.unused_data:
        raise ValueError("something follows its compressed data")
    return made


def _zstd(data: bytes | memoryview, size: int) -> bytes | memoryview:
    library: Any = import_module("zstandard")
    try:
        if library.frame_content_size(data) != size:
            return _zstd_stream(library, data, size)
        made: bytes = library.ZstdDecompressor().decompress(data, allow_extra_data=False)
        return made
    except library.ZstdError as error:
        raise ValueError(f"it cannot be decompressed: {error}") from error


def _zstd_stream(library: Any, data: bytes | memoryview, size: int) -> memoryview:
    """Decompresses data that has several frames, or one that does not say its size. Raises ValueError unless `size`
    is right."""
    into = bytearray(size + 1)
    filled = 0
    with library.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        while filled <= size and (count := reader.readinto(memoryview(into)[filled:])):
            filled += count
    if filled > size:
        raise ValueError(f"it becomes more than {size} bytes")
    return memoryview(into)[:filled].toreadonly()


_KINDS: Final = {
    "high": ("u8", 0),
    "publisher": ("u8", 8),
    "expires": ("i8", 16),
    "priority": ("u1", 24),
    "flags": ("u1", 25),
}
"""The columns of a side record: the type of each, and how many bytes a row the columns before it take."""
_ROW: Final = 26
_USUAL: Final = 2048
"""Bytes of a side record that are read before its length is known."""
_CHUNK_POSITION: Final = SIDE_HEAD - HEAD
"""Bytes of its content that are the position of the chunk."""
_KEPT: Final = 1 << 20
"""Bytes of the rows of a side record that is kept for the next chunk."""


@dataclass(frozen=True, slots=True)
class Side:
    """What side records say of each message: one row a message, in the order of the chunk."""

    rows: int
    data: bytes | memoryview | None
    """None: nothing is known of them, as in recordings of others, which have no side records."""
    missed: tuple[Missed, ...] = ()
    has_flags: bool = False
    """A message has one."""

    def column(self, name: str) -> NDArray[Any]:
        """`high` (the sequence without its low 32 bits), `publisher`, `expires`, `priority` or `flags`."""
        kind, before = _KINDS[name]
        if self.data is None:
            return np.zeros(self.rows, kind)
        return np.frombuffer(self.data, kind, self.rows, before * self.rows)


_latest: list[tuple[bytes, Side]] = []
"""The side record that was parsed last, without the position of its chunk, if it is small: the chunks of one publisher
with messages of one size have side records of the same bytes."""


def read_side(file: File, chunk: Chunk, rows: int, is_ours: bool) -> Side:
    """The side record of a chunk with so many messages. Raises RecordingDamaged; `is_ours`: also if there is none."""
    position = chunk.side_position
    begin = b"" if chunk.is_run else file.window(position, _USUAL)
    length = records.side_length(begin, chunk.position)
    if length is not None:
        content = begin[HEAD : HEAD + length]
        if len(content) < length:
            content = file.read(position + HEAD, length)
        return _parse_or_known(file, position, content, rows)
    if is_ours:
        raise damaged(file.path, position, f"the side record of the chunk at {chunk.position} is not there")
    return Side(rows, None)


def _parse_or_known(file: File, position: int, content: bytes, rows: int) -> Side:
    """`content`: behind opcode and length, which begin at `position`."""
    behind = content[_CHUNK_POSITION:]
    for known, side in _latest:
        if side.rows == rows and known == behind:
            return side
    side = _parse(file, position, content, rows)
    if _ROW * rows <= _KEPT:
        _latest[:] = [(behind, side)]
    return side


def _parse(file: File, position: int, content: bytes, rows: int) -> Side:
    fields = Fields(file.path, content, position + HEAD, "side record")
    count, packed = records.read_side(fields)
    if count != rows:
        fields.wrong(f"it is of {count} messages, and the chunk has {rows}")
    try:
        data = _unpack(packed)
    except ValueError as error:
        fields.wrong(str(error))
    missed = _missed(Fields(file.path, data, position, "side record, uncompressed"), rows)
    return Side(rows, data, missed, bool(Side(rows, data).column("flags").any()))


def _unpack(packed: Packed) -> bytes | memoryview:
    """Raises ValueError, with a reason."""
    reason = check_claim(packed.compression, len(packed.data), packed.size)
    if reason:
        raise ValueError(reason)
    data = decompress(packed.compression, packed.data, packed.size)
    if crc32(data) != packed.crc:
        raise ValueError("it does not match its CRC")
    return data


def _missed(fields: Fields, rows: int) -> tuple[Missed, ...]:
    fields.bytes(_ROW * rows)
    return tuple(Missed(fields.number(2), fields.number(1), fields.number(8)) for _ in range(fields.number(4)))


_FIELDS: Final = {"channel": (22, "u2"), "sequence": (20, "u4"), "log_time": (16, "i8"), "publish_time": (8, "i8")}
"""The fields of the header of a message: how many bytes before its payload each lies, and its type."""
_COMPARED: Final = ("start_ns", "end_ns", "compression", "size", "uncompressed_size")
"""What both the index and the head of a chunk say."""


@dataclass(slots=True)
class ChunkMessages:
    """The messages of a chunk, and its schemas and channels."""

    data: bytes | memoryview
    position: NDArray[np.int64]
    """Position of each payload in `data`."""
    size: NDArray[np.int64]
    """Bytes of each payload."""
    start_ns: int
    """Earliest log time, 0 if there is no message."""
    end_ns: int
    """Latest log time; UNSET_NS if a message has none."""
    channel: int | None
    """The channel of all messages; None: there are several."""
    definitions: list[tuple[int, int, int]]
    """Opcode, position and length in `data`."""
    has_unset: bool = False
    """A message has a time that nobody set."""

    def __len__(self) -> int:
        return len(self.position)

    @property
    def counts(self) -> dict[int, int]:
        """Messages by channel id."""
        if self.channel is not None:
            return {self.channel: len(self)}
        found = np.bincount(self.field("channel"))
        return {number: int(found[number]) for number in np.flatnonzero(found).tolist()}

    def field(self, name: str) -> NDArray[Any]:
        """The column `channel`, `sequence`, `log_time` or `publish_time`; a time that nobody set is UNSET_NS."""
        before, kind = _FIELDS[name]
        position: Any = self.position
        column = np.frombuffer(_mcap.field(self.data, position, before, int(kind[1])), kind)
        return np.where(column < 0, UNSET_NS, column) if self.has_unset and kind == "i8" else column


def parse_head(position: int, length: int, content: Fields) -> Chunk:
    """A chunk by its header, without counts. `content` begins behind opcode and length."""
    head = records.read_chunk_head(content)
    return Chunk(0, position, length, head.start_ns, head.end_ns, {}, head.compression, head.compressed_size, head.size)


def scan_chunk(file: File, chunk: Chunk) -> ChunkMessages:
    """Reads a chunk and believes nothing. Raises RecordingDamaged."""
    record = file.read(chunk.position, chunk.length)
    if chunk.is_run:
        return _scan(file, chunk, record)
    fields = Fields(file.path, record, chunk.position, "chunk")
    if records.read_head(fields.bytes(HEAD)) != (Opcode.CHUNK, chunk.length - HEAD):
        raise damaged(file.path, chunk.position, f"here should begin a chunk of {chunk.length} bytes")
    head = records.read_chunk_head(fields)
    _compare(file, chunk, head)
    return _scan(file, chunk, _uncompressed(file, chunk, head.crc, fields.bytes(chunk.size)))


def _compare(file: File, chunk: Chunk, head: ChunkHead) -> None:
    known = chunk.start_ns, chunk.end_ns, chunk.compression, chunk.size, chunk.uncompressed_size
    found = head.start_ns, head.end_ns, head.compression, head.compressed_size, head.size
    if known == found:
        return
    for name, mine, other in zip(_COMPARED, known, found, strict=True):
        if mine != other:
            raise damaged(file.path, chunk.position, f"{name} of the chunk is {other!r}, and {mine!r} in the index")


def _uncompressed(file: File, chunk: Chunk, crc: int, packed: memoryview) -> bytes | memoryview:
    reason = check_claim(chunk.compression, chunk.size, chunk.uncompressed_size)
    if reason:
        raise damaged(file.path, chunk.position, f"a chunk cannot be read: {reason}")
    try:
        data = decompress(chunk.compression, packed, chunk.uncompressed_size)
    except ValueError as error:
        raise damaged(file.path, chunk.position, f"a chunk cannot be read: {error}") from error
    if crc and crc32(data) != crc:
        raise damaged(file.path, chunk.position, "a chunk does not match its CRC")
    return data


def _scan(file: File, chunk: Chunk, data: bytes | memoryview) -> ChunkMessages:
    try:
        found = _mcap.scan(data, min(chunk.message_count, len(data)))
    except ValueError as error:
        offset, reason = cast("tuple[int, str]", error.args)
        where = chunk.position + offset if chunk.is_run else chunk.position
        inside = "" if chunk.is_run else f" (at byte {offset} of the uncompressed chunk)"
        raise damaged(file.path, where, f"{reason}{inside}") from None
    position, size, start_ns, end_ns, channel, definitions, has_unset = found
    places = np.frombuffer(position, np.int64), np.frombuffer(size, np.int64)
    return ChunkMessages(data, *places, clamped(start_ns), clamped(end_ns), channel, definitions, has_unset)


def check_facts(file: File, chunk: Chunk, scanned: ChunkMessages, is_ours: bool) -> None:
    """Check that the index was right to skip, or not to skip, a chunk: its times and counts are those of the messages.

    Other writers may give a chunk more time than its messages take. Raises RecordingDamaged.
    """
    claimed, real = (chunk.start_ns, chunk.end_ns), (scanned.start_ns, scanned.end_ns)
    covers = not len(scanned) or (claimed[0] <= real[0] and real[1] <= claimed[1])
    if not covers or (is_ours and claimed != real):
        what = f"log times {real[0]} to {real[1]} in a chunk of {claimed[0]} to {claimed[1]}"
        raise damaged(file.path, chunk.position, what)
    if is_ours and scanned.has_unset:
        raise damaged(file.path, chunk.position, "a message has a time after the year 2262")
    if scanned.counts != chunk.counts:
        raise damaged(file.path, chunk.position, "the messages of a chunk are not those that the index counts")


_MAGIC: Final = 0xFD2FB528
"""The first four bytes of a zstd frame, as a number."""


def compressed_rows(batch: Batch, channels: Collection[int]) -> NDArray[np.intp]:
    """The numbers of the rows whose payloads are zstd frames. `channels`: those of CDR messages."""
    rows = np.flatnonzero((batch.size >= 4) & np.isin(batch.channel, [*channels]))
    data = np.frombuffer(batch.data, np.uint8)
    for byte, expected in enumerate(_MAGIC.to_bytes(4, "little")):
        rows = rows[data[batch.position[rows] + byte] == expected]
    return rows


def decompressed(path: Path, batch: Batch, channels: Collection[int]) -> Batch:
    """The batch with all payloads as they were published. Raises RecordingDamaged for one that is cut or damaged."""
    rows = compressed_rows(batch, channels)
    if not len(rows):
        return batch
    payloads: list[bytes | memoryview] = [batch.payload(row) for row in range(len(batch))]
    left = LARGEST
    numbers: list[int] = rows.tolist()
    for row in numbers:
        try:
            payloads[row] = _payload(payloads[row], left)
        except ValueError as error:
            what = f"message {row} of a chunk is compressed by itself, and cannot be read: {error}"
            raise damaged(path, batch.chunk.position, what) from error
        left -= len(payloads[row])
    size = np.array([len(payload) for payload in payloads], np.int64)
    return batch.having(b"".join(payloads), position=np.cumsum(size) - size, size=size)


def _payload(packed: bytes | memoryview, most: int) -> bytes | memoryview:
    library: Any = import_module("zstandard")
    try:
        size: int = library.frame_content_size(packed)
    except library.ZstdError as error:
        raise ValueError(str(error)) from error
    if size < 0:
        raise ValueError("it does not say how large it is uncompressed")
    reason = check_claim("zstd", len(packed), size)
    if reason is None and size > most:
        reason = f"the messages of its chunk have more than {LARGEST} bytes uncompressed"
    if reason is not None:
        raise ValueError(reason)
    return decompress("zstd", packed, size)


CARRIED: Final = 1
"""Flag of a message that was carried over from an earlier file."""
CARRIED_MOST: Final = 16
"""Publishers of a channel whose last messages are carried over."""


_ALL: Final = slice(None)


class _Made:
    """A column of a batch, made when it is first asked for: few are."""

    def __set_name__(self, owner: type[Batch], name: str) -> None:
        self._name = name

    def __get__(self, batch: Batch, owner: type[Batch]) -> Column:
        made = batch.__dict__[self._name] = batch.make(self._name)[batch.rows]
        return made


class Batch:
    """Messages of one chunk, in the order of the file. All columns are numpy arrays of one length."""

    channel = _Made()
    """u2, channel id"""
    sequence = _Made()
    """u8, dense within topic and priority; in recordings of others the 32 bits that they have"""
    log_time = _Made()
    """i8, nanoseconds; UNSET_NS: nobody set it"""
    publish_time = _Made()
    """i8, nanoseconds; UNSET_NS: nobody set it"""
    position = _Made()
    """i8, of the payload in `data`"""
    size = _Made()
    """i8, of the payload in bytes"""
    priority = _Made()
    """u1"""
    publisher = _Made()
    """u8, identity; 0: unknown"""
    expires = _Made()
    """i8, nanoseconds; 0: never"""
    flags = _Made()
    """u1; see CARRIED"""
    has_flags = True
    """False: no message of the chunk has one, so that the column need not be made."""

    def __init__(
        self,
        chunk: Chunk,
        data: bytes | memoryview,
        make: Callable[[str], Column],
        missed: tuple[Missed, ...] = (),
        rows: Column | slice = _ALL,
    ) -> None:
        self.chunk = chunk
        self.data = data
        """The uncompressed records, in which the payloads lie."""
        self.make = make
        """A column by its name; `rows` of it are those of the batch."""
        self.missed = missed
        """The messages that the recorder did not get since the chunk before."""
        self.rows = rows

    def __len__(self) -> int:
        return len(self.position)

    def where(self, mask: Column) -> Batch:
        """The rows for which a boolean mask is true, or those of an array of row numbers."""
        mask = np.asarray(mask)
        if mask.dtype == np.bool_ and mask.all():
            return self
        if isinstance(self.rows, slice):
            return Batch(self.chunk, self.data, partial(getattr, self), self.missed, np.arange(len(self))[mask])
        return Batch(self.chunk, self.data, self.make, self.missed, self.rows[mask])

    def having(self, data: bytes | memoryview | None = None, **columns: Column) -> Batch:
        """Returns the batch with these columns in place of its own. `data`: where the payloads lie then; None: where
        they lie now."""
        made: dict[str, Column] = {name: getattr(self, name) for name in COLUMNS} | columns
        return Batch(self.chunk, self.data if data is None else data, made.__getitem__, self.missed)

    def payload(self, row: int) -> memoryview:
        """The payload of a row, without a copy."""
        begin = int(self.position[row])
        return memoryview(self.data)[begin : begin + int(self.size[row])]


def within(batch: Batch, start_ns: int | None, end_ns: int | None) -> list[NDArray[np.bool_]]:
    """Masks that together leave the rows with start_ns <= log time < end_ns; none where the index says that all are so.

    A row without a log time lies in no time at all.
    """
    masks: list[NDArray[np.bool_]] = []
    if start_ns is not None and batch.chunk.start_ns < start_ns:
        masks.append(batch.log_time >= start_ns)
    if end_ns is not None and batch.chunk.end_ns >= end_ns:
        masks.append(batch.log_time < end_ns)
    if start_ns is not None and batch.chunk.end_ns == UNSET_NS:
        masks.append(batch.log_time != UNSET_NS)
    return masks


def placed(batch: Batch, before_ns: int) -> Batch:
    """The batch with times in each row, for callers that write or publish them.

    A row without a log time gets that of the row before it; `before_ns`: what the first rows get, if no row has one. A
    row without a publish time gets its log time.
    """
    log_time, publish_time = batch.log_time, batch.publish_time
    no_log, no_publish = log_time == UNSET_NS, publish_time == UNSET_NS
    if not no_log.any() and not no_publish.any():
        return batch
    row = np.where(no_log, -1, np.arange(len(batch)))
    before = np.maximum.accumulate(row)
    first = before_ns if no_log.all() else int(log_time.min())
    log_time = np.where(before < 0, first, log_time[before])
    return batch.having(log_time=log_time, publish_time=np.where(no_publish, log_time, publish_time))


def batch_of(chunk: Chunk, scanned: ChunkMessages, side: Side) -> Batch:
    """The messages of a chunk, by its records and its side record."""

    def make(name: str) -> Column:
        match name:
            case "position" | "size":
                return scanned.position if name == "position" else scanned.size
            case "sequence":
                sequence: Column = scanned.field(name) | side.column("high")
                return sequence
            case "channel" | "log_time" | "publish_time":
                return scanned.field(name)
            case _:
                return side.column(name)

    batch = Batch(chunk, scanned.data, make, side.missed)
    batch.has_flags = side.has_flags
    return batch


COLUMNS = tuple(name for name, value in vars(Batch).items() if isinstance(value, _Made))
"""Names of the columns."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one chunk, in the order of their times."""

    recording: int
    """Number of the recording, from 0."""
    batch: Batch
    is_first: bool = True
    """Whether this is the first of the parts in which a chunk is given."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The next rows, of one or more chunks."""

    parts: tuple[Part, ...]
    order: NDArray[np.intp]
    """Sorts by time the rows of all parts, which are numbered one part after the other."""

    def __len__(self) -> int:
        return len(self.order)

    def column(self, name: str) -> NDArray[Any]:
        """A column of Batch, in order."""
        return self._sorted([getattr(part.batch, name) for part in self.parts])

    def part(self) -> NDArray[Any]:
        """u4: in which of the parts each row lies, in order."""
        return self._sorted([np.full(len(part.batch), at, np.uint32) for at, part in enumerate(self.parts)])

    def each(self, column: Callable[[Part], NDArray[Any]]) -> NDArray[Any]:
        """A column that is made of each part, in order."""
        return self._sorted([column(part) for part in self.parts])

    def _sorted(self, columns: list[NDArray[Any]]) -> NDArray[Any]:
        joined = columns[0] if len(columns) == 1 else np.concatenate(columns)
        taken: NDArray[Any] = joined[self.order]
        return taken


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Says which messages are wanted."""

    channels: Sequence[frozenset[int]]
    """For each recording, the ids of its channels that are wanted."""
    start_ns: int | None = None
    """The first moment, by log time."""
    end_ns: int | None = None
    """The first moment that does not belong to it any more."""

    def takes(self, recording: int, chunk: Chunk) -> bool:
        """Whether a chunk may have messages that are wanted, by the index alone."""
        if self.start_ns is not None and chunk.end_ns < self.start_ns:
            return False
        if self.end_ns is not None and chunk.start_ns >= self.end_ns:
            return False
        return not self.channels[recording].isdisjoint(chunk.counts)

    def rows(self, recording: int, batch: Batch) -> Batch:
        """Returns the messages of a batch that are wanted."""
        mask = np.isin(batch.channel, list(self.channels[recording]))
        for inside in within(batch, self.start_ns, self.end_ns):
            mask &= inside
        return batch.where(mask)


class CarriedOver:
    """Knows what has been given already, when a recorder has carried it over into the next file of a recording."""

    def __init__(self, keys: int, since_ns: int | None = None) -> None:
        """`keys`: how many topics. `since_ns`: what was published until then is not to be given."""
        self._newest = np.full(keys, -1 if since_ns is None else since_ns, np.int64)

    def again(self, key: NDArray[Any], publish_time: NDArray[Any], flags: NDArray[Any]) -> NDArray[np.bool_]:
        """Returns which rows repeat earlier ones, and remembers all. `key`: the topic of each."""
        found: NDArray[np.bool_] = (flags & CARRIED).astype(bool) & (publish_time <= self._newest[key])
        np.maximum.at(self._newest, key, publish_time)
        return found


Damaged = Callable[[RecordingDamaged], None]
"""A function that is told of a chunk that is left out because it is damaged."""


def in_order(
    recordings: Sequence[Recording], wanted: MessageFilter, damaged: Damaged | None = None
) -> Iterator[Stretch]:
    """All messages that are selected, in the order of log_time; of equal times those of the first recording first.

    Without `damaged` a damaged chunk raises RecordingDamaged.
    """
    chunks = [
        (number, chunk)
        for number, recording in enumerate(recordings)
        for chunk in recording.chunks
        if wanted.takes(number, chunk)
    ]
    chunks.sort(key=lambda item: item[1].start_ns)
    waiting: list[Part] = []
    latest_ns = min((recording.start_ns for recording in recordings), default=0)
    for at, (number, chunk) in enumerate(chunks):
        batch = _read(recordings[number], chunk, damaged)
        if batch is not None:
            batch = placed(batch, latest_ns)
            latest_ns = max(latest_ns, int(batch.log_time.max()) if len(batch) else 0)
            batch = wanted.rows(number, batch)
            if len(batch):
                waiting.append(Part(number, _sorted_by_time(batch)))
        until = chunks[at + 1][1].start_ns if at + 1 < len(chunks) else None
        ready, waiting = _split(waiting, until)
        if ready:
            yield _stretch(ready)


def _read(recording: Recording, chunk: Chunk, damaged: Damaged | None) -> Batch | None:
    """None: it is damaged, and left out."""
    try:
        return recording.read(chunk)
    except RecordingDamaged as error:
        if damaged is None:
            raise
        damaged(error)
        return None


def _sorted_by_time(batch: Batch) -> Batch:
    times = batch.log_time
    return batch if (times[1:] >= times[:-1]).all() else batch.where(np.argsort(times, kind="stable"))


def _split(parts: list[Part], until_ns: int | None) -> tuple[list[Part], list[Part]]:
    """The rows before a moment, and the rest."""
    if until_ns is None:
        return parts, []
    before: list[Part] = []
    rest: list[Part] = []
    for part in parts:
        at = int(np.searchsorted(part.batch.log_time, until_ns, "left"))
        rows = np.arange(len(part.batch))
        if at == len(rows):
            before.append(part)
            continue
        if at:
            before.append(Part(part.recording, part.batch.where(rows[:at]), part.is_first))
        rest.append(Part(part.recording, part.batch.where(rows[at:]), part.is_first and not at))
    return before, rest


def _stretch(parts: list[Part]) -> Stretch:
    parts.sort(key=lambda part: part.recording)
    if len(parts) == 1:
        return Stretch(tuple(parts), np.arange(len(parts[0].batch)))
    times = np.concatenate([part.batch.log_time for part in parts])
    return Stretch(tuple(parts), np.argsort(times, kind="stable"))
