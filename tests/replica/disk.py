"""The log of a simulated node: what was synced survives a crash, of the rest any beginning does."""

from __future__ import annotations

import random
import struct
from bisect import bisect_right
from typing import Final, NamedTuple

from rtmw.replica.words import Found, Kind, Marks, Table

HEAD: Final = struct.Struct(">IBHH")


class Batch(NamedTuple):
    start: int
    end: int
    epoch: int
    kind: Kind
    id: bytes
    data: bytes


def encode(epoch: int, kind: Kind, id: bytes, data: bytes) -> bytes:
    return HEAD.pack(epoch, kind.value, len(id), len(data)) + id + data


def decode(start: int, raw: bytes) -> list[Batch]:
    found, at = list[Batch](), 0
    while at < len(raw):
        epoch, kind, of_id, of_data = HEAD.unpack_from(raw, at)
        body = at + HEAD.size
        end = body + of_id + of_data
        assert end <= len(raw), "bytes travel as whole batches"
        found.append(
            Batch(start + at, start + end, epoch, Kind(kind), raw[body : body + of_id], raw[body + of_id : end])
        )
        at = end
    return found


class Disk:
    """A `Wal`, and the marks beside it."""

    def __init__(self, window: int) -> None:
        self.marks = Marks()
        self.batches = list[Batch]()
        self.raw = bytearray()
        self.base = self.durable = 0
        self.window = window
        self.is_full = False
        self.is_lost = False
        """It has less than it had synced, and knows it."""

    @property
    def earliest(self) -> int:
        return self.base

    @property
    def end(self) -> int:
        return self.base + len(self.raw)

    @property
    def floor(self) -> int:
        known = self.batches[-self.window :]
        if not self.batches:
            return self.end
        return known[0].start if len(self.batches) > self.window or self.base else 0

    def append(self, epoch: int, id: bytes, kind: Kind, data: bytes) -> tuple[int, int] | None:
        start = self.end
        return (start, self.end) if self.append_raw(encode(epoch, kind, id, data)) else None

    def append_raw(self, data: bytes | memoryview) -> bool:
        if self.is_full:
            return False
        came = decode(self.end, bytes(data))
        last = self.batches[-1].epoch if self.batches else 0
        assert all(one.epoch >= last for one in came), "epochs never go down in a log"
        self.batches += came
        self.raw += data
        return True

    def find(self, id: bytes, kind: Kind, data: bytes) -> Found | None:
        for one in reversed(self.batches[-self.window :]):
            if one.id == id:
                return Found(one.kind, one.start, one.end, (one.kind, one.data) == (kind, data))
        return None

    def epochs(self) -> Table:
        return tuple({one.epoch: one.end for one in self.batches}.items())

    def whole(self, start: int, size: int) -> int:
        behind = bisect_right(self.batches, start + size, key=lambda one: one.end)
        return max(start, self.batches[behind - 1].end) if behind else start

    def same(self, start: int, data: bytes) -> int:
        for one in decode(start, data):
            at = slice(one.start - self.base, one.end - self.base)
            if bytes(self.raw[at]) != data[one.start - start : one.end - start]:
                return one.start
        return start + len(data)

    def part(self, start: int, end: int) -> bytes:
        assert self.base <= start <= end <= self.end
        return bytes(self.raw[start - self.base : end - self.base])

    # ---- what the disk does ----

    def truncate(self, end: int) -> None:
        assert end in {self.base, *(one.end for one in self.batches)}, "a log is cut between two batches"
        self.batches = [one for one in self.batches if one.end <= end]
        del self.raw[end - self.base :]
        self.durable = min(self.durable, end)

    def trim(self, position: int) -> None:
        starts = [one.start for one in self.batches if one.start <= position]
        if starts and starts[-1] > self.base:
            self.batches = [one for one in self.batches if one.start >= starts[-1]]
            del self.raw[: starts[-1] - self.base]
            self.base = starts[-1]

    def crash(self, chance: random.Random) -> int:
        """Any beginning of what was not synced is there; recovery cuts a torn batch off. Returns how many are lost."""
        ends = [self.durable, *(one.end for one in self.batches if one.end > self.durable)]
        kept = chance.randrange(len(ends))
        self.truncate(ends[kept])
        self.durable = self.end
        return len(ends) - 1 - kept

    def lose_tail(self, chance: random.Random) -> None:
        if self.batches:
            self.truncate(chance.choice(self.batches[-4:]).start)
        self.is_lost = True

    def copy(self, other: Disk, end: int) -> None:
        self.base, self.raw = other.base, bytearray(other.part(other.base, end))
        self.batches = [one for one in other.batches if one.end <= end]
        self.durable = self.end
