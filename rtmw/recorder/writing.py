"""The thread that writes: takes full chunks from the collector, and gives them back empty.

With a ring, it keeps the last seconds in memory until somebody wants them (`Ring`).
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rtmw.clock import CLOCK
from rtmw.recorder.files import Files, Settings
from rtmw.recorder.library import Collector
from rtmw.recorder.sources import Sources
from rtmw.recording._mcap import ChunkBuilder

__all__ = ["State", "Writing"]


class Kept(NamedTuple):
    chunk: ChunkBuilder
    missed: dict[tuple[int, int], int]
    at_s: float
    """When it was full, on the monotonic clock."""


class Ring:
    """Whole chunks, the oldest first: of so many seconds, and at most so many of so many bytes."""

    def __init__(self, seconds: float, most: int, most_bytes: int) -> None:
        self._seconds, self._most, self._most_bytes = seconds, most, most_bytes
        self._kept: deque[Kept] = deque()
        self._bytes = 0

    def add(self, kept: Kept) -> list[Kept]:
        """Keep this one too. What is kept no longer is given back."""
        self._kept.append(kept)
        self._bytes += kept.chunk.size
        gone: list[Kept] = []
        while self._is_over(kept.at_s):
            gone.append(self._kept.popleft())
            self._bytes -= gone[-1].chunk.size
        return gone

    def take(self) -> list[Kept]:
        """All of them; nothing is kept any more."""
        taken = list(self._kept)
        self._kept.clear()
        self._bytes = 0
        return taken

    def _is_over(self, now_s: float) -> bool:
        if len(self._kept) < 2:
            return False
        is_old = self._kept[0].at_s < now_s - self._seconds
        return is_old or len(self._kept) > self._most or self._bytes > self._most_bytes


WAIT_NS = 50_000_000


class State(NamedTuple):
    """The state of the collector."""

    full: int
    """Chunks that wait to be written."""
    free: int
    cuts: int
    """Demands to close the open chunk that it has seen to."""
    clock_jumps: int
    has_ended: bool
    """Whether the collector has ended, and no chunk is left."""


class Demand:
    """Something that the thread is to do when it has all that was taken before."""

    def __init__(self, what: Callable[[], Path | None], cut: int) -> None:
        self._what, self._cut, self._done = what, cut, threading.Event()
        self._before: int | None = None
        self._result: Path | None = None

    def is_due(self, state: State) -> bool:
        """Asked between two chunks."""
        if self._before is None:
            self._before = state.full if state.cuts >= self._cut else None
        else:
            self._before -= 1
        return self._before is not None and self._before <= 0

    def serve(self) -> None:
        """An exception ends the thread, which drops the demand when it has said why."""
        self._result = self._what()
        self._done.set()

    def drop(self) -> None:
        self._done.set()

    def wait(self, timeout: float | None) -> Path | None:
        self._done.wait(timeout)
        return self._result


class Writing:
    """The thread that writes chunks to files, from `start` until the collector has ended, or the disk fails: then
    `error` says how."""

    def __init__(self, collector: Collector, sources: Sources, files: Files, settings: Settings) -> None:
        self.error: Exception | None = None
        self.ended = threading.Event()
        self.messages = 0
        """Messages written. The thread alone counts them."""
        self._collector, self._sources, self._files = collector, sources, files
        self._chunks = {chunk.address: chunk for chunk in self._new_chunks(settings)}
        most = settings.chunks // 2
        self._ring = Ring(settings.snapshot, most, settings.buffer_bytes // 2) if settings.snapshot else None
        self._untold: Counter[tuple[int, int]] = Counter()
        """The missing messages, by source and cause."""
        self._done_with: Counter[int] = Counter()
        """Messages by source that are written, or that a snapshot has let go."""
        self._channel_of: dict[int, int] = {}
        self._demands: list[Demand] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="rtmw-recorder-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def demand(self, what: Callable[[], Path | None], timeout: float | None = None) -> Path | None:
        """Have the thread do this when what was taken until now has come to it; what it answers, None at its end."""
        with self._lock:
            if self.ended.is_set():
                return None
            demand = Demand(what, self._collector.cut())
            self._demands.append(demand)
        return demand.wait(timeout)

    def unwritten(self, source: int, taken: int) -> int:
        """Returns how many of the `taken` messages of a source will not be written, because the recording has
        failed."""
        return 0 if self.error is None else max(0, taken - self._done_with[source])

    def snapshot(self) -> Path | None:
        """In the thread: write what the ring holds into a file of its own. None when it is empty."""
        kept = self._ring.take() if self._ring else []
        if not kept:
            return None
        writer = self._files.open("snapshot")
        path = self._files.current
        self._files.latched.carry(writer, kept[0].chunk.start_ns)
        for chunk, missed, _ in kept:
            self._write(chunk, missed)
            self._collector.give(chunk.address)
        self._files.close()
        return path

    def split(self) -> Path | None:
        """In the thread: go on in a new file, whose path this is."""
        self._files.split(CLOCK.wall_ns())
        return self._files.current

    def _new_chunks(self, settings: Settings) -> list[ChunkBuilder]:
        chunks = [ChunkBuilder(settings.chunk_bytes) for _ in range(settings.chunks)]
        for chunk in chunks:
            self._collector.lend(chunk.address)
        return chunks

    def _run(self) -> None:
        try:
            self._work()
            self._files.missed(self._missed())
            self._files.close()
        except Exception as error:
            self.error = error
            self._collector.stop()
            self._let_go()
            with suppress(OSError):
                self._files.close()
        finally:
            with self._lock:
                self.ended.set()
                for demand in self._demands:
                    demand.drop()

    def _work(self) -> None:
        state = State(*self._collector.state())
        while not state.has_ended:
            address = self._collector.next(WAIT_NS)
            if address is not None:
                self._take(self._chunks[address])
            self._files.sync_if_due()
            state = State(*self._collector.state())
            if self._demands:
                self._serve(state)

    def _let_go(self) -> None:
        """Gives back what the collector still takes, until it has ended: then all numbers are the last ones."""
        while not State(*self._collector.state()).has_ended:
            address = self._collector.next(WAIT_NS)
            if address is not None:
                self._chunks[address].clear()
                self._collector.give(address)

    def _serve(self, state: State) -> None:
        for demand in list(self._demands):
            if demand.is_due(state):
                demand.serve()
                self._demands.remove(demand)

    def _take(self, chunk: ChunkBuilder) -> None:
        missed = self._missed()
        self._define({number for number, _, _ in chunk.channels()})
        if self._ring is None:
            self._write(chunk, missed)
            self._collector.give(chunk.address)
            return
        for kept in self._ring.add(Kept(chunk, missed, CLOCK.monotonic())):
            self._files.latched.see(kept.chunk, self._sources.latched)
            self._done_with.update(self._counts(kept.chunk))
            kept.chunk.clear()
            self._collector.give(kept.chunk.address)

    def _write(self, chunk: ChunkBuilder, missed: Mapping[tuple[int, int], int]) -> None:
        counts = self._counts(chunk)
        self._files.write(chunk, missed, self._sources.latched)
        self._done_with.update(counts)
        self.messages += counts.total()

    def _counts(self, chunk: ChunkBuilder) -> Counter[int]:
        """Counts the messages of a chunk by source."""
        counts: Counter[int] = Counter()
        for channel, count, _ in chunk.channels():
            counts[self._collector.channel(channel)[0]] += count
        return counts

    def _define(self, channels: set[int]) -> None:
        self._sources.define(channels, self._files.definitions)

    def _missed(self) -> Counter[tuple[int, int]]:
        """Returns the messages missed since the last call, by channel and cause. Those of a topic without a channel
        come when it has one."""
        told: Counter[tuple[int, int]] = Counter()
        for source, channel, cause, count in self._collector.missing():
            self._untold[source, cause] += count
            if channel:
                self._channel_of[source] = channel
        for source, cause in list(self._untold):
            if source in self._channel_of:
                told[self._channel_of[source], cause] += self._untold.pop((source, cause))
        self._define({channel for channel, _ in told})
        return told
