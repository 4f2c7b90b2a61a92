"""How much of recordings is read, and how much the index spares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rtmw.recording.contents import Chunk


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
