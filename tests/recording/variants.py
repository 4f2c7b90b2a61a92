"""The variants of MCAP's conformance suite, made here: six contents, each with every combination of features.

ch   messages in a chunk        mx   message indexes        chx  chunk indexes      st   statistics
rsh  schemas in the summary     rch  channels in it         ax   attachment index   mdx  metadata index
sum  summary offsets            pad  three bytes more at the end of every record that may have them
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import NamedTuple

from isal import isal_zlib

from rtmw.recording import records
from rtmw.recording.records import MAGIC, Opcode

ORDER = ("ax", "mdx", "ch", "chx", "mx", "pad", "rch", "rsh", "st", "sum")
PAYLOAD = b"\1\2\3"


class Content(NamedTuple):
    """What is in a file: of messages the log time, publish time and sequence."""

    features: str
    messages: tuple[tuple[int, int, int], ...] = ()
    schema: bytes = b""
    channel: bytes = b""
    attachment: bytes = b""
    metadata: bytes = b""


EXAMPLE = records.schema(1, "Example", "c", b"\4\5\6")
ATTACHMENT = struct.pack("<QQI6sI24sQ3s", 2, 1, 6, b"myFile", 24, b"application/octet-stream", 3, PAYLOAD)
CONTENTS = {
    "NoData": Content("pad st sum"),
    "OneAttachment": Content("ax pad st sum", attachment=ATTACHMENT),
    "OneMetadata": Content("mdx pad st sum", metadata=records.metadata("myMetadata", {"foo": "bar"})),
    "OneMessage": Content(
        "ch chx mx pad rch rsh st sum", ((2, 1, 10),), EXAMPLE, records.channel(1, 1, "example", "a", {"foo": "bar"})
    ),
    "OneSchemalessMessage": Content(
        "ch chx mx pad rch st sum", ((2, 1, 10),), channel=records.channel(1, 0, "example", "text", {})
    ),
    "TenMessages": Content(
        "ch chx mx pad rch rsh st sum",
        tuple((time, time, row) for row, time in enumerate((0, 2, 1, 3, 3, 5, 4, 7, 8, 9))),
        EXAMPLE,
        records.channel(1, 1, "example", "a", {"foo": "bar"}),
    ),
}


def variants(content: Content) -> Iterator[frozenset[str]]:
    """All combinations of its features that make sense."""
    names = content.features.split()
    for chosen in chain.from_iterable(combinations(names, count) for count in range(len(names) + 1)):
        features = frozenset(chosen)
        needs_chunks = features & {"chx", "mx"} and "ch" not in features
        if not needs_chunks and ("sum" not in features or features & {"st", "rch", "rsh", "chx", "ax", "mdx"}):
            yield features


def name_of(content: str, features: frozenset[str]) -> str:
    return "-".join((content, *sorted(features, key=ORDER.index)))


@dataclass
class Variant:
    """One file while it is made."""

    content: Content
    features: frozenset[str]
    data: bytearray = field(default_factory=lambda: bytearray(MAGIC))
    indexes: list[tuple[Opcode, bytes]] = field(default_factory=list)

    def padded(self, record: bytes) -> bytes:
        extra = b"\x01\xff\xff" if "pad" in self.features else b""
        return record[:1] + struct.pack("<Q", len(record) - 9 + len(extra)) + record[9:] + extra

    def add(self, record: bytes) -> int:
        position = len(self.data)
        self.data += self.padded(record)
        return position

    def make(self) -> bytes:
        self.add(records.header(""))
        self._definitions_and_messages()
        self._attachment_and_metadata()
        self.data += records.data_end(isal_zlib.crc32(self.data))
        self._summary()
        return bytes(self.data)

    def _messages(self) -> list[bytes]:
        stamps = self.content.messages
        return [
            records.record(Opcode.MESSAGE, struct.pack("<HIQQ", 1, sequence, log, published), PAYLOAD)
            for log, published, sequence in stamps
        ]

    def _definitions_and_messages(self) -> None:
        definitions = [record for record in (self.content.schema, self.content.channel) if record]
        if "ch" in self.features:
            self._chunk(b"".join(definitions), self._messages())
            return
        for definition in definitions:
            self.add(definition)
        self.data += b"".join(self._messages())

    def _chunk(self, definitions: bytes, messages: list[bytes]) -> None:
        times = [log for log, _, _ in self.content.messages]
        inside = definitions + b"".join(messages)
        head = struct.pack("<QQQI", min(times), max(times), len(inside), isal_zlib.crc32(inside))
        position = len(self.data)
        self.data += records.record(Opcode.CHUNK, head, records.text(""), struct.pack("<Q", len(inside)), inside)
        end = len(self.data)
        if "mx" in self.features:
            offsets = [len(definitions) + row * len(messages[0]) for row in range(len(messages))]
            entries = b"".join(struct.pack("<QQ", *entry) for entry in zip(times, offsets, strict=True))
            self.add(records.record(Opcode.MESSAGE_INDEX, struct.pack("<HI", 1, len(entries)), entries))
        places = [(1, end)] if "mx" in self.features else []
        index = struct.pack("<QQQQ", min(times), max(times), position, end - position)
        index += records.number_map(places) + struct.pack("<Q", len(self.data) - end)
        index += records.text("") + struct.pack("<QQ", len(inside), len(inside))
        if "chx" in self.features:
            self.indexes.append((Opcode.CHUNK_INDEX, index))

    def _attachment_and_metadata(self) -> None:
        if self.content.attachment:
            fields = self.content.attachment
            crc = struct.pack("<I", isal_zlib.crc32(fields))
            position = self.add(records.record(Opcode.ATTACHMENT, fields, crc))
            place = struct.pack("<QQ", position, len(self.data) - position)
            index = place + fields[:16] + struct.pack("<Q", 3) + fields[16:-11]
            if "ax" in self.features:
                self.indexes.append((Opcode.ATTACHMENT_INDEX, index))
        if self.content.metadata:
            position = self.add(self.content.metadata)
            index = struct.pack("<QQ", position, len(self.data) - position) + records.text("myMetadata")
            if "mdx" in self.features:
                self.indexes.append((Opcode.METADATA_INDEX, index))

    def _statistics(self) -> bytes:
        content = self.content
        times = [log for log, _, _ in content.messages] or [0]
        counted = (bool(content.schema), bool(content.channel), bool(content.attachment), bool(content.metadata))
        counts = records.number_map([(1, len(content.messages))] if content.messages else [])
        numbers = struct.pack(
            "<QHIIIIQQ", len(content.messages), *counted, "ch" in self.features, min(times), max(times)
        )
        return records.record(Opcode.STATISTICS, numbers, counts)

    def _summary(self) -> None:
        start, content = len(self.data), self.content
        groups = [content.schema] if content.schema and "rsh" in self.features else []
        groups += [content.channel] if content.channel and "rch" in self.features else []
        groups += [self._statistics()] if "st" in self.features else []
        groups += [records.record(opcode, index) for opcode, index in self.indexes]
        places = [(record[0], self.add(record), len(self.padded(record))) for record in groups]
        offsets = len(self.data)
        for place in places if "sum" in self.features else ():
            self.add(records.record(Opcode.SUMMARY_OFFSET, struct.pack("<BQQ", *place)))
        start, offsets = start if places else 0, offsets if "sum" in self.features and places else 0
        self.data += records.footer_head(start, offsets)
        crc = isal_zlib.crc32(self.data[start or -25 :])
        self.data += struct.pack("<I", crc) + MAGIC
