"""The records of an MCAP file, each written and read side by side: https://mcap.dev/spec. Numbers are little endian.

What cannot be read raises one error, which names the file and the position.

What reads a record takes its content as `Fields`, and raises RecordingDamaged where a length leads out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple, NoReturn

from rtmw.errors import RecordingDamaged
from rtmw.recording.contents import Attachment, Channel, Schema, clamped
from rtmw.types.fields import TakenFields

_ADVICE: Final = ". To save what is whole: rtmw recording recover "


def damaged(path: Path, position: int, what: str) -> RecordingDamaged:
    return RecordingDamaged(
        f"{path} is damaged at byte {position}: {what}{_ADVICE}{path}",
        path=str(path),
        position=position,
    )


def reason_of(error: RecordingDamaged) -> str:
    """The reason of an error, without the file, the position and the advice."""
    return str(error).removeprefix(f"{error.path} is damaged at byte {error.position}: ").partition(_ADVICE)[0]


PAIR: Final = Struct("<HQ")


class Fields(TakenFields):
    """Raises RecordingDamaged, which names the file."""

    def __init__(self, path: Path, data: bytes | memoryview, position: int, what: str) -> None:
        super().__init__(data, position, what)
        self._path = path

    def wrong(self, reason: str) -> NoReturn:
        raise damaged(self._path, self._position + self._at, f"{self._what}: {reason}")

    def text(self) -> str:
        try:
            return str(self.bytes(self.number(4)), "utf-8")
        except UnicodeDecodeError:
            self.wrong("text that is not UTF-8")

    def part(self, what: str, length_bytes: int = 4) -> Fields:
        """A field with a length of so many bytes before it, as fields of its own."""
        size = self.number(length_bytes)
        begin = self._position + self._at
        return Fields(self._path, self.bytes(size), begin, what)

    def text_map(self) -> dict[str, str]:
        part = self.part(self._what)
        found: dict[str, str] = {}
        while part.left():
            key = part.text()
            found[key] = part.text()
        return found

    def number_map(self) -> dict[int, int]:
        """Map<u16, u64>."""
        size = self.number(4)
        if size % PAIR.size:
            self.wrong(f"a map of {size} bytes")
        return dict(PAIR.iter_unpack(self.bytes(size)))


_U16: Final = Struct("<H")
_U32: Final = Struct("<I")
_U64: Final = Struct("<Q")
_HEAD: Final = Struct("<BQ")
_SIDE_HEAD: Final = Struct("<BQQ")
_CHANNEL: Final = Struct("<HH")
_CHUNK: Final = Struct("<QQQI")
_SIDE: Final = Struct("<QI")
_PACKED: Final = Struct("<QIQ")
_PLACES: Final = Struct("<QQQQ")
_SIZES: Final = Struct("<QQ")
_TIMES: Final = Struct("<QQ")
_PLACE: Final = Struct("<QQ")
_ATTACHMENT_INDEX: Final = Struct("<QQQQQ")
_STATISTICS: Final = Struct("<QHIIIIQQ")
_SUMMARY_OFFSET: Final = Struct("<BQQ")
_FOOTER: Final = Struct("<QQI")

HEAD: Final = _HEAD.size
"""Bytes of a record before its content: opcode and length."""
SIDE_HEAD: Final = _SIDE_HEAD.size
"""Bytes of a side record that say of which chunk it is."""
CRC: Final = _U32.size
"""Bytes of the CRC at the end of an attachment and of the footer."""
CHUNK_HEAD: Final = HEAD + _CHUNK.size + _U32.size + 64 + _U64.size
"""The most bytes at the beginning of a chunk that say what it is: names of compressions are short."""
DATA_END: Final = HEAD + CRC
FOOTER: Final = HEAD + _FOOTER.size

MAGIC = b"\x89MCAP0\r\n"


class Opcode(IntEnum):
    """The kind of a record."""

    HEADER = 0x01
    FOOTER = 0x02
    SCHEMA = 0x03
    CHANNEL = 0x04
    MESSAGE = 0x05
    CHUNK = 0x06
    MESSAGE_INDEX = 0x07
    CHUNK_INDEX = 0x08
    ATTACHMENT = 0x09
    ATTACHMENT_INDEX = 0x0A
    STATISTICS = 0x0B
    METADATA = 0x0C
    METADATA_INDEX = 0x0D
    SUMMARY_OFFSET = 0x0E
    DATA_END = 0x0F
    SIDE = 0x90
    """Ours: what MCAP has no place for, of the chunk before it (docs/formats/format.md)."""


class Packed(NamedTuple):
    """Bytes, compressed or not."""

    compression: str
    """Empty: not compressed."""
    size: int
    """Bytes before compression; `crc` is of them, too."""
    crc: int
    data: bytes | memoryview


class ChunkEntry(NamedTuple):
    """A chunk in the file, for its index."""

    start_ns: int
    end_ns: int
    position: int
    length: int
    index_positions: Mapping[int, int]
    """Where in the file the message index of each channel lies."""
    index_length: int
    compression: str
    compressed_size: int
    size: int


class ChunkHead(NamedTuple):
    """The head of a chunk; its records follow."""

    start_ns: int
    end_ns: int
    size: int
    """Bytes before compression; `crc` is of them, too; 0: none."""
    crc: int
    compression: str
    compressed_size: int


class Statistics(NamedTuple):
    """The statistics record of a file."""

    messages: int
    schemas: int
    channels: int
    attachments: int
    metadata: int
    chunks: int
    start_ns: int
    end_ns: int
    counts: Mapping[int, int]
    """Messages of each channel."""


class Counts(NamedTuple):
    """The counts of the statistics with which the index has to agree."""

    messages: int
    attachments: int
    metadata: int


def head(opcode: int, length: int) -> bytes:
    """The beginning of a record whose content has this length."""
    return _HEAD.pack(opcode, length)


def read_head(begin: bytes | memoryview) -> tuple[int, int]:
    """Opcode, and length of the content, of the first `HEAD` bytes of a record."""
    return _HEAD.unpack_from(begin)


def record(opcode: Opcode, *content: bytes | memoryview) -> bytes:
    return b"".join((head(opcode, sum(map(len, content))), *content))


def text(value: str) -> bytes:
    return octets(value.encode())


def octets(value: bytes) -> bytes:
    return _U32.pack(len(value)) + value


def text_map(values: Mapping[str, str]) -> bytes:
    return octets(b"".join(text(key) + text(value) for key, value in values.items()))


def number_map(values: Iterable[tuple[int, int]]) -> bytes:
    """A map of 16-bit numbers to 64-bit ones."""
    return octets(b"".join(PAIR.pack(key, value) for key, value in values))


def header(library: str, profile: str = "") -> bytes:
    return record(Opcode.HEADER, text(profile), text(library))


def read_header(fields: Fields) -> tuple[str, str]:
    """Profile, library."""
    return fields.text(), fields.text()


def schema(number: int, name: str, encoding: str, data: bytes) -> bytes:
    return record(Opcode.SCHEMA, _U16.pack(number), text(name), text(encoding), octets(data))


def read_schema(fields: Fields) -> Schema:
    return Schema(fields.number(2), fields.text(), fields.text(), bytes(fields.bytes(fields.number(4))))


def channel(number: int, schema_id: int, topic: str, encoding: str, metadata: Mapping[str, str]) -> bytes:
    return record(Opcode.CHANNEL, _CHANNEL.pack(number, schema_id), text(topic), text(encoding), text_map(metadata))


def read_channel(fields: Fields) -> Channel:
    number, schema_id = fields.numbers(_CHANNEL)
    return Channel(number, fields.text(), schema_id, fields.text(), fields.text_map())


def chunk_head(start_ns: int, end_ns: int, packed: Packed) -> bytes:
    """All of a chunk's record but its records, which follow."""
    content = _CHUNK.pack(start_ns, end_ns, packed.size, packed.crc) + text(packed.compression)
    content += _U64.pack(len(packed.data))
    return head(Opcode.CHUNK, len(content) + len(packed.data)) + content


def read_chunk_head(fields: Fields) -> ChunkHead:
    start_ns, end_ns, size, crc = fields.numbers(_CHUNK)
    return ChunkHead(clamped(start_ns), clamped(end_ns), size, crc, fields.text(), fields.number(8))


def side(chunk_position: int, count: int, packed: Packed) -> bytes:
    return record(
        Opcode.SIDE,
        _SIDE.pack(chunk_position, count),
        text(packed.compression),
        _PACKED.pack(packed.size, packed.crc, len(packed.data)),
        packed.data,
    )


def side_length(begin: bytes | memoryview, chunk_position: int) -> int | None:
    """Returns the length of the content of a side record, from the record's first bytes. None: it is no side record
    of the chunk at this position."""
    if len(begin) < SIDE_HEAD:
        return None
    opcode, length, of = _SIDE_HEAD.unpack_from(begin)
    return length if (opcode, of) == (Opcode.SIDE, chunk_position) else None


def read_side(fields: Fields) -> tuple[int, Packed]:
    """How many rows it has, and the rows."""
    _, count = fields.numbers(_SIDE)
    compression, (size, crc, packed_size) = fields.text(), fields.numbers(_PACKED)
    return count, Packed(compression, size, crc, fields.bytes(packed_size))


def chunk_index(entry: ChunkEntry) -> bytes:
    return record(
        Opcode.CHUNK_INDEX,
        _PLACES.pack(entry.start_ns, entry.end_ns, entry.position, entry.length),
        number_map(entry.index_positions.items()),
        _U64.pack(entry.index_length),
        text(entry.compression),
        _SIZES.pack(entry.compressed_size, entry.size),
    )


def read_chunk_index(fields: Fields) -> ChunkEntry:
    start_ns, end_ns, position, length = fields.numbers(_PLACES)
    places, index_length, compression = fields.number_map(), fields.number(8), fields.text()
    compressed_size, size = fields.numbers(_SIZES)
    times = clamped(start_ns), clamped(end_ns)
    return ChunkEntry(*times, position, length, places, index_length, compression, compressed_size, size)


def attachment_head(about: Attachment) -> bytes:
    """All of an attachment's record but its data and, behind that, the CRC of its content."""
    content = _TIMES.pack(about.log_time, about.create_time) + text(about.name) + text(about.media_type)
    content += _U64.pack(about.size)
    return head(Opcode.ATTACHMENT, len(content) + about.size + CRC) + content


def read_attachment_head(fields: Fields, position: int) -> Attachment:
    """`position`: of its record. The data follows, and its CRC."""
    log_time, create_time = fields.numbers(_TIMES)
    name, media_type = fields.text(), fields.text()
    return Attachment(name, media_type, log_time, create_time, fields.number(8), position)


def attachment_index(about: Attachment, length: int) -> bytes:
    """`length`: of its record."""
    return record(
        Opcode.ATTACHMENT_INDEX,
        _ATTACHMENT_INDEX.pack(about.position, length, about.log_time, about.create_time, about.size),
        text(about.name),
        text(about.media_type),
    )


def read_attachment_index(fields: Fields) -> Attachment:
    position, _, log_time, create_time, size = fields.numbers(_ATTACHMENT_INDEX)
    return Attachment(fields.text(), fields.text(), log_time, create_time, size, position)


def metadata(name: str, values: Mapping[str, str]) -> bytes:
    return record(Opcode.METADATA, text(name), text_map(values))


def read_metadata(fields: Fields) -> tuple[str, dict[str, str]]:
    return fields.text(), fields.text_map()


def metadata_index(position: int, length: int, name: str) -> bytes:
    return record(Opcode.METADATA_INDEX, _PLACE.pack(position, length), text(name))


def read_metadata_index(fields: Fields) -> tuple[int, int]:
    """Position and length of the record of metadata."""
    position, length = fields.numbers(_PLACE)
    return position, length


def statistics(facts: Statistics) -> bytes:
    return record(Opcode.STATISTICS, _STATISTICS.pack(*facts[:8]), number_map(sorted(facts.counts.items())))


def read_statistics(fields: Fields) -> Counts:
    messages, _, _, attachments, metadata, _, _, _ = fields.numbers(_STATISTICS)
    return Counts(messages, attachments, metadata)


def summary_offset(group: Opcode, position: int, length: int) -> bytes:
    return record(Opcode.SUMMARY_OFFSET, _SUMMARY_OFFSET.pack(group, position, length))


def data_end(crc: int) -> bytes:
    return record(Opcode.DATA_END, _U32.pack(crc))


def read_data_end(content: bytes) -> int:
    """The CRC of the data section; 0: none."""
    return int(_U32.unpack_from(content)[0])


def footer_head(summary_position: int, offsets_position: int) -> bytes:
    """All of the footer but its CRC of the summary, which follows, and covers this, too."""
    return head(Opcode.FOOTER, _FOOTER.size) + _PLACE.pack(summary_position, offsets_position)


def read_footer(content: bytes | memoryview) -> tuple[int, int]:
    """Where the summary begins, 0: there is none; and its CRC, 0: none."""
    summary_position, _, crc = _FOOTER.unpack_from(content)
    return summary_position, crc
