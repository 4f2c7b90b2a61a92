"""What stands at the end of a recording: all that readers need to know before they read a chunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rtmw.recording import records
from rtmw.recording.checksum import crc32
from rtmw.recording.definitions import Definitions
from rtmw.recording.records import ChunkEntry, Opcode, Statistics

__all__ = ["Summary"]


class Summary:
    """Collected while the file is written."""

    def __init__(self, definitions: Definitions) -> None:
        self.messages = 0
        self._definitions = definitions
        self._written: dict[bytes, None] = {}
        self._counts: Counter[int] = Counter()
        self._chunks: list[bytes] = []
        self._metadata: list[bytes] = []
        self._start_ns = self._end_ns = 0

    def missing(self, channels: Iterable[int] | None) -> list[bytes]:
        """Records of these channels, or of all, and of their schemas, that are not in the file yet."""
        wanted = self._definitions.channels if channels is None else channels
        return self._definitions.of(wanted, self._written)

    def add_chunk(self, entry: ChunkEntry, counts: Iterable[tuple[int, int]], definitions: Iterable[bytes]) -> None:
        self._written.update(dict.fromkeys(definitions))
        self._chunks.append(records.chunk_index(entry))
        before = self.messages
        for channel, count in counts:
            self._counts[channel] += count
            self.messages += count
        if self.messages > before:
            self._start_ns = min(self._start_ns, entry.start_ns) if before else entry.start_ns
            self._end_ns = max(self._end_ns, entry.end_ns)

    def add_metadata(self, position: int, length: int, name: str) -> None:
        self._metadata.append(records.metadata_index(position, length, name))

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
            (Opcode.CHUNK_INDEX, self._chunks),
            (Opcode.METADATA_INDEX, self._metadata),
        ]
        return [(opcode, group) for opcode, group in groups if group]

    def _defined(self, opcode: Opcode) -> list[bytes]:
        return [definition for definition in self._written if definition[0] == opcode]

    def _statistics(self) -> Statistics:
        return Statistics(
            messages=self.messages,
            schemas=len(self._defined(Opcode.SCHEMA)),
            channels=len(self._defined(Opcode.CHANNEL)),
            metadata=len(self._metadata),
            chunks=len(self._chunks),
            start_ns=self._start_ns,
            end_ns=self._end_ns,
            counts=self._counts,
        )
