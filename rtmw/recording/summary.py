"""The summary at the end of a recording: all that readers need to know before they read a chunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from rtmw.checksum import crc32
from rtmw.recording import records
from rtmw.recording.definitions import Definitions
from rtmw.recording.records import Opcode, Statistics

__all__ = ["Group", "Summary"]


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
    """Those that lie in it."""


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
        """Groups."""
        return len(self._added)

    def first(self, groups: int) -> Summary:
        """As it was when it had so many groups."""
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
