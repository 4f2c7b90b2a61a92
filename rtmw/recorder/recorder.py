"""Recorder: writes what flows on topics into recordings, and counts it by topic (`RecorderStats`).

The thread that writes takes full chunks from the collector, and gives them back empty. With a ring, it keeps the last
seconds in memory until somebody wants them (`Ring`).
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, TypedDict, Unpack

from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.domain import Domain, await_domain, domain_until_closed
from rtmw.errors import ClosedError, RecordingFailed
from rtmw.notebook import ShownByFields
from rtmw.qos import check_seconds
from rtmw.recorder.files import Files, Settings, UploadStats
from rtmw.recorder.sources import Collector, Sources
from rtmw.recording._mcap import ChunkBuilder
from rtmw.recording.contents import Cause
from rtmw.recording.places import Claim, is_remote
from rtmw.text.patterns import topics_of

__all__ = ["RecordedTopic", "Recorder", "RecorderOptions", "RecorderStats", "State", "Writing"]


# ---- the thread that writes ----


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


# ---- the recorder ----


@dataclass(frozen=True)
class RecordedTopic:
    """A topic that is recorded."""

    name: str
    messages: int
    """Messages taken from it, also those that are not in the file yet; without those that the disk will not take any
    more."""
    bytes: int
    """Payload bytes of all messages taken, without what the file adds."""
    missing: Mapping[Cause, int]
    """Messages that are not recorded, by cause; only causes that there were."""


@dataclass(frozen=True)
class RecorderStats(ShownByFields):
    """A recorder, since it began."""

    topics: int
    messages: int
    """Messages taken from the topics; when the disk has failed, those that are written."""
    bytes: int
    """Payload bytes of all that were taken."""
    written: int
    """Bytes in its files."""
    files: int
    missing: Mapping[Cause, int]
    """Messages that are not recorded, by cause; only causes that there were."""
    backlog: float
    """How much of its memory waits for the disk: 0 to 1, where messages are dropped."""
    clock_jumps: int
    """Times that the wall clock was set back."""
    is_paused: bool
    written_messages: int = 0
    """Messages in its files. They are fewer than `messages` while some are on their way."""
    uploads: UploadStats | None = None
    """The files on their way to the place of `upload`; None: no place was named."""


def recorded_topic(name: str, row: tuple[int, ...], unwritten: int) -> RecordedTopic:
    """Returns the topic of a row of the collector's counters. `unwritten`: how many of its messages the disk did not
    take."""
    messages, volume, *missing = row
    causes = zip(Cause, (*missing, unwritten), strict=True)
    return RecordedTopic(name, messages - unwritten, volume, {cause: count for cause, count in causes if count})


CHUNK_AGE_NS = 1_000_000_000


class RecorderOptions(TypedDict, total=False):
    """How a Recorder writes."""

    compression: str
    chunk_bytes: int
    buffer_bytes: int
    split_bytes: int | None
    split_every: float | None
    keep: int | None
    sync_every: float | None
    snapshot: float | None
    reliable: bool
    append: bool
    ros2: bool
    upload: str | None
    upload_remove: bool
    upload_patience: float


class Recorder(Closing):
    """Records topics into MCAP files, FOLDER/NAME_0.mcap and so on, from now until it is closed.

    `topics`: names, and patterns (`*`, `?`, `[a-z]`), of topics that exist or will; `exclude`: patterns of those that
    are not wanted. `wait`: seconds to wait for a domain that is not there yet; math.inf: for ever; None: it is made.
    `compression`: lz4, zstd or none. `chunk_bytes`: what is compressed, lost and read together; a chunk is closed
    after a second in any case. `buffer_bytes`: memory for what the disk has not taken yet. `split_bytes`,
    `split_every` (seconds): when the next file begins; `keep`: so many files, the oldest are removed. `sync_every`:
    seconds between demands that the disk has it all, None: only at the end. `snapshot`: write nothing, but keep so
    many seconds for `snapshot()`. `reliable`: RELIABLE publishers wait for the recorder, and so for the disk.
    `append`: the folder may hold recordings already; numbers go on. `ros2`: schemas and QoS as the tools of ROS 2
    read them. `upload`: a remote place, such as s3://bucket/prefix, to which finished files are sent;
    `upload_remove`: they are removed here when they are there; `upload_patience`: seconds that `close` waits for
    those that are not there yet.

    Nobody waits for a recorder, unless `reliable`; what it misses is counted, by cause, here and in the file.
    Errors: RecordingFailed, ValueError, and those of Domain. A disk that fails ends the recording: `wait` and `close`
    raise RecordingFailed.
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        folder: str | os.PathLike[str],
        *,
        exclude: str | Iterable[str] = (),
        domain: int | Domain | None = None,
        wait: float | None = None,
        **options: Unpack[RecorderOptions],
    ) -> None:
        check_seconds("wait", wait)
        wanted, self.settings = topics_of(topics, exclude), Settings(**options)
        if is_remote(folder):
            place = os.fspath(folder)
            raise ValueError(f"{place} is no folder of this host: name one, and upload={place!r}")
        self.folder = Path(folder)
        self._started_ns = CLOCK.wall_ns()
        self._stopping = threading.Event()
        self._is_paused = self._is_closed = False
        with ExitStack() as opened:
            there = domain_until_closed(domain) if wait is None else await_domain(domain, wait)
            self._domain = opened.enter_context(there)
            with _beginning_in(self.folder):
                self._claim = opened.enter_context(Claim(self.folder, _held(self.folder)))
                self._files = Files(self.folder, self.settings, self._tables)
            self._collector = Collector(self._domain.id, CHUNK_AGE_NS, self.settings.buffer_bytes)
            opened.callback(self._collector.close)
            self._sources = Sources(self._domain, self._collector, wanted, self.settings.reliable)
            self._writing = Writing(self._collector, self._sources, self._files, self.settings)
            self._sources.begin()
            if not self.settings.snapshot:
                with _beginning_in(self.folder):
                    self._files.open()  # last: a recorder that cannot begin leaves no file
            self._opened = opened.pop_all()
        self._writing.start()
        self._watch = threading.Thread(
            target=self._sources.watch, args=(self._stopping,), name="rtmw-recorder-watch", daemon=True
        )
        self._watch.start()
        if self._files.uploads is not None:
            self._files.uploads.begin()
            atexit.unregister(_close_all)  # the last to be registered is called first: pyarrow ends S3 there, too
            atexit.register(_close_all)
        _open.add(self)

    @property
    def skipped(self) -> Mapping[str, str]:
        """Topics that cannot be recorded, and why: not a name, or no place for one more subscriber."""
        return dict(self._sources.skipped)

    def pause(self) -> None:
        """Record nothing until `resume`; what comes meanwhile is counted."""
        self._require_open()
        self._is_paused = True
        self._collector.pause(True)

    def resume(self) -> None:
        self._require_open()
        self._is_paused = False
        self._collector.pause(False)

    def split(self) -> Path | None:
        """Go on in a new file; its path."""
        self._require_open()
        if self.settings.snapshot:
            raise ValueError("this recorder keeps a snapshot; it writes no file to split")
        return self._demand(self._writing.split)

    def snapshot(self) -> Path | None:
        """Write what came in the last seconds, and since the last snapshot, into a file: its path; None: nothing."""
        self._require_open()
        if not self.settings.snapshot:
            raise ValueError("this recorder keeps no snapshot; make it with snapshot=SECONDS")
        return self._demand(self._writing.snapshot)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, the oldest first; the last one is being written until the recorder is closed."""
        return tuple(self._files.paths)

    def stats(self) -> RecorderStats:
        """Counters since it began, the last ones when it is closed."""
        if self._is_closed:
            return self._last_stats
        topics, state = self.topics(), State(*self._collector.state())
        missing: Counter[Cause] = Counter()
        for topic in topics:
            missing.update(topic.missing)
        return RecorderStats(
            topics=len(topics),
            messages=sum(topic.messages for topic in topics),
            bytes=sum(topic.bytes for topic in topics),
            written=self._files.written,
            files=len(self._files.paths),
            missing=missing,
            backlog=state.full / (state.full + state.free or 1),
            clock_jumps=state.clock_jumps,
            is_paused=self._is_paused,
            written_messages=self._writing.messages,
            uploads=self._files.uploads.stats() if self._files.uploads else None,
        )

    def topics(self) -> list[RecordedTopic]:
        """Returns what was recorded of each topic, in the order in which topics were found."""
        if self._is_closed:
            return self._last_topics
        rows = self._collector.counters()
        return [
            recorded_topic(name, row, self._writing.unwritten(source, row[0]))
            for source, (name, row) in enumerate(zip(self._sources.names, rows, strict=False))
        ]

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the recording has ended by itself, as when the disk fails, which is raised. False: the time is
        up."""
        if not self._writing.ended.wait(timeout):
            return False
        self._raise_error()
        return True

    def close(self) -> None:
        """Take what is on the bus, complete the file, and end. Raises RecordingFailed when the recording has failed."""
        if self._is_closed:
            return
        _open.discard(self)
        self._stopping.set()
        self._watch.join()
        self._collector.stop()
        self._writing.join()
        if self._files.uploads is not None:
            self._files.uploads.close(self.settings.upload_patience)
        self._last_topics, self._last_stats = self.topics(), self.stats()
        self._is_closed = True
        self._opened.close()
        self._raise_error()

    def _demand(self, what: Callable[[], Path | None]) -> Path | None:
        path = self._writing.demand(what)
        self._raise_error()
        return path

    def _require_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the recorder was closed")

    def _raise_error(self) -> None:
        error = self._writing.error
        if error is None:
            return
        if not isinstance(error, OSError):
            raise error
        unwritten = self.stats().missing.get(Cause.UNWRITTEN, 0)
        raise RecordingFailed(
            f"the recording ended: {error.strerror}; what was written before is in {self.folder},"
            f" messages that were taken and could not be written: {unwritten}"
            " (`rtmw recording check` looks at it, `rtmw recording recover` completes it)"
        ) from error

    def _tables(self, why: str) -> Mapping[str, Mapping[str, str]]:
        """Returns the metadata for the end of a file, about all that was recorded until then."""
        topics = [topic for topic in self.topics() if topic.messages or topic.missing]
        from importlib.metadata import version

        about = {
            "host": socket.gethostname(),
            "domain": str(self._domain.id),
            "version": version("rtmw"),
            "began": why,
            "started_ns": str(self._started_ns),
            "ended_ns": str(CLOCK.wall_ns()),
            "topics": json.dumps({t.name: {"messages": t.messages, **_named(t.missing)} for t in topics}),
            "known": json.dumps(self._sources.known),
            "missing": json.dumps(_named(self.stats().missing)),
            "settings": json.dumps(asdict(self.settings)),
        }
        if self._writing.error is not None:
            about["failed"] = getattr(self._writing.error, "strerror", None) or repr(self._writing.error)
        publishers = {str(identity): program for identity, program in self._sources.publishers.items()}
        return {"rtmw.recorder": about, "rtmw.publishers": publishers}


@contextmanager
def _beginning_in(folder: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise RecordingFailed(f"{folder}: no recording can begin there: {error.strerror}") from error


_open: set[Recorder] = set()


def _leave_to_the_parent() -> None:
    """Forgets the recorders in a child of fork(): their threads stay with the parent, and so do their folders."""
    for recorder in _open:
        recorder._claim.close()
    _open.clear()


os.register_at_fork(after_in_child=_leave_to_the_parent)


@atexit.register
def _close_all() -> None:
    """A program that ends without closing its recorders has complete files all the same."""
    for recorder in list(_open):
        with suppress(RecordingFailed):
            recorder.close()


def _named(missing: Mapping[Cause, int]) -> dict[str, int]:
    return {cause.name.lower(): count for cause, count in missing.items()}


def _held(folder: Path) -> RecordingFailed:
    return RecordingFailed(f"{folder}: another recorder writes to this folder; name another one")
