"""The files of a recording, FOLDER/NAME_0.mcap, NAME_1.mcap, …: how they are written, described for ROS 2, and sent
away.

`metadata.yaml` is what tools of ROS 2 open a folder of recordings by, as one bag.

The last message of each publisher that keeps some for late subscribers is carried into every file (`Latched`).

Finished files go to a remote place in the order in which they were finished.

A thread sends; the recorder never waits for it until it is closed. A file that could not be sent is tried again after a
pause, which doubles up to a minute. It stays on this host until it is there as a whole. Where the place has not failed,
but something is wrong with this file, those behind it go first.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rtmw.clock import CLOCK, Clock
from rtmw.disk import DISK
from rtmw.errors import RecordingError, RecordingFailed, RemoteFailed
from rtmw.notebook import ShownByFields
from rtmw.recording._mcap import ChunkBuilder
from rtmw.recording.batch import CARRIED, CARRIED_MOST
from rtmw.recording.files import SUFFIX, by_name
from rtmw.recording.places import RemotePath, is_remote, place, send
from rtmw.recording.recording import Recording
from rtmw.recording.schemas import CDR
from rtmw.recording.schemas.ros2 import QOS_KEY
from rtmw.recording.writer import CHUNK_BYTES, COMPRESSIONS, Definitions, RecordingWriter

_METADATA: Final = "metadata.yaml"
_VERSION: Final = 8
"""The last version of the format in which qualities are a text, as they are in the metadata of our channels."""

_Topic = tuple[str, str, str]
"""Name, type and offered qualities."""


@dataclass(frozen=True)
class _File:
    name: str
    start_ns: int
    end_ns: int
    messages: int
    topics: Counter[_Topic] = field(default_factory=Counter[_Topic])
    """Messages by topic. Tools of ROS 2 know messages of CDR with a schema, so only these are counted."""


class Ros2Folder:
    """Describes a folder again whenever a recording in it is complete; the index of each is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Path, _File] = {}

    def describe(self, paths: Sequence[Path]) -> None:
        """Writes metadata.yaml anew, for these recordings, without those that cannot be read. Raises OSError."""
        known = {path: self._files[path] for path in paths if path in self._files}
        for path in paths:
            if path not in known:
                with suppress(RecordingError, FileNotFoundError):
                    known[path] = _look_into(path)
        self._files = known
        text = "\n".join(_lines([known[path] for path in paths if path in known])) + "\n"
        DISK.replace(self._folder / _METADATA, text.encode())


def _look_into(path: Path) -> _File:
    with Recording(path) as recording:
        begin, end = (recording.start_ns, recording.end_ns) if recording.message_count else (0, 0)
        found = _File(path.name, begin, end, recording.message_count)
        for chunk in recording.chunks:
            for number, count in chunk.counts.items():
                channel = recording.channels[number]
                schema = recording.schemas.get(channel.schema_id)
                if schema is not None and channel.message_encoding == CDR:
                    found.topics[channel.topic, schema.name, channel.metadata.get(QOS_KEY, "")] += count
        return found


def _lines(files: Sequence[_File]) -> Iterator[str]:
    """YAML. A text of JSON is one of YAML too."""
    topics: Counter[tuple[str, str]] = Counter()
    offered: dict[tuple[str, str], str] = {}
    for file in files:
        for (name, type, qos), count in file.topics.items():
            topics[name, type] += count
            offered[name, type] = qos
    full = [file for file in files if file.messages]
    begin, end = min((f.start_ns for f in full), default=0), max((f.end_ns for f in full), default=0)
    yield "rosbag2_bagfile_information:"
    yield f"  version: {_VERSION}"
    yield "  storage_identifier: mcap"
    yield f"  duration: {{nanoseconds: {end - begin}}}"
    yield f"  starting_time: {{nanoseconds_since_epoch: {begin}}}"
    yield f"  message_count: {topics.total()}"
    yield "  compression_format: ''"
    yield "  compression_mode: ''"
    yield "  ros_distro: ''"
    yield "  custom_data: {}"
    yield "  topics_with_message_count:" + ("" if topics else " []")
    for (name, type), count in topics.items():
        about = f"name: {json.dumps(name)}, type: {json.dumps(type)}, serialization_format: cdr"
        quality = f"offered_qos_profiles: {json.dumps(offered[name, type])}, type_description_hash: ''"
        yield f"    - {{topic_metadata: {{{about}, {quality}}}, message_count: {count}}}"
    yield f"  relative_file_paths: {json.dumps([file.name for file in files])}"
    yield "  files:" + ("" if files else " []")
    for f in files:
        first, took = f"{{nanoseconds_since_epoch: {f.start_ns}}}", f"{{nanoseconds: {f.end_ns - f.start_ns}}}"
        about = f"path: {json.dumps(f.name)}, starting_time: {first}, duration: {took}"
        yield f"    - {{{about}, message_count: {f.messages}}}"


LEAST_CHUNKS, MOST_CHUNKS = 4, 1024


@dataclass(frozen=True)
class Settings:
    """How a recorder writes. Sizes in bytes, times in seconds."""

    compression: str = "lz4"
    chunk_bytes: int = CHUNK_BYTES
    buffer_bytes: int = 256 << 20
    split_bytes: int | None = None
    split_every: float | None = None
    keep: int | None = None
    sync_every: float | None = 5.0
    snapshot: float | None = None
    reliable: bool = False
    append: bool = False
    ros2: bool = False
    upload: str | None = None
    upload_remove: bool = False
    upload_patience: float = 60.0

    def __post_init__(self) -> None:
        if self.compression not in COMPRESSIONS:
            raise ValueError(f"compression is one of {', '.join(COMPRESSIONS)}, not {self.compression!r}")
        for name in ("chunk_bytes", "buffer_bytes", "split_bytes", "split_every", "keep", "sync_every", "snapshot"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not value > 0):
                raise ValueError(f"{name}={value!r} is not possible; it must be a number above 0")
        if self.buffer_bytes < LEAST_CHUNKS * self.chunk_bytes:
            raise ValueError(
                f"a buffer of {self.buffer_bytes} bytes holds fewer than {LEAST_CHUNKS} chunks of {self.chunk_bytes};"
                " make it larger, or chunks smaller"
            )
        if self.split_bytes is not None and self.split_bytes < self.chunk_bytes:
            raise ValueError(
                f"files of {self.split_bytes} bytes have no room for a chunk of {self.chunk_bytes};"
                " split them later, or make chunks smaller"
            )
        if self.upload is not None and not is_remote(self.upload):
            raise ValueError(f"upload={self.upload!r} is no remote place, such as s3://bucket/prefix")
        if self.upload_remove and self.upload is None:
            raise ValueError("upload_remove=True needs upload, the place where the files go")
        if not self.upload_patience >= 0:
            raise ValueError(f"upload_patience={self.upload_patience!r} is not possible; it must be a number from 0")
        if self.snapshot is not None and (self.split_bytes or self.split_every):
            raise ValueError("a snapshot is one file; it is not split")

    @property
    def chunks(self) -> int:
        """Number of chunks that the buffer has room for, at most MOST_CHUNKS."""
        return min(MOST_CHUNKS, self.buffer_bytes // self.chunk_bytes)


FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


@dataclass(frozen=True)
class UploadStats(ShownByFields):
    """Since the recorder began."""

    sent: int = 0
    """Files that are there."""
    waiting: int = 0
    """Finished files that are not there yet; of a recorder that is closed, those that stayed here."""
    lost: int = 0
    """Finished files that somebody else removed here before they were sent."""
    failures: int = 0
    """Attempts that failed."""
    problem: str = ""
    """Why the last attempt failed; "": it did not."""


class Uploads:
    """Sends files that are complete to a place. `put` is for one thread. `sent` is told each file when it is there,
    in the thread that sends."""

    def __init__(self, target: RemotePath, sent: Callable[[Path], None], first_pause: float = FIRST_PAUSE_S) -> None:
        self.target = target
        self._told, self._first_pause = sent, first_pause
        self._files: deque[Path] = deque()
        self._tried = set[Path]()
        """Files of `_files` that this thread has tried to send: what is there under their names may come from that
        attempt."""
        self._sent = self._lost = self._failures = 0
        self._problem = ""
        self._until: float | None = None
        """When to give up, on the monotonic clock; None: not before the recorder is closed."""
        self._changed = threading.Condition()
        """Protects all of this."""
        self._thread: threading.Thread | None = None
        """Begins with the first file, or earlier."""

    def begin(self) -> None:
        """Have the thread: no thread can begin when the program is about to end, and the last file is put then."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rtmw-recorder-uploads", daemon=True)
            self._thread.start()

    def put(self, path: Path) -> None:
        """Has a file sent that is complete. It does not wait."""
        with self._changed:
            self._files.append(path)
            self._changed.notify_all()
        self.begin()

    def waits(self, path: Path) -> bool:
        """Is the file not there yet?"""
        with self._changed:
            return path in self._files

    def stats(self) -> UploadStats:
        with self._changed:
            return UploadStats(self._sent, len(self._files), self._lost, self._failures, self._problem)

    def close(self, patience: float) -> tuple[Path, ...]:
        """Wait until all are there, for so many seconds and the attempt that is made then; those that are not there."""
        with self._changed:
            self._until = CLOCK.monotonic() + patience
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        return tuple(self._files)

    def _run(self) -> None:
        pause = self._first_pause
        while (path := self._next()) is not None:
            try:
                self._send(path)
            except Exception as error:  # whatever it is, the files behind this one are to be sent
                if not self._failed(path, error, pause):
                    return
                pause = min(2 * pause, LONGEST_PAUSE_S)
                continue
            pause = self._first_pause
            self._told(path)
            with self._changed:
                self._files.popleft()
                self._tried.discard(path)
                self._sent, self._problem = self._sent + 1, ""

    def _next(self) -> Path | None:
        """The next file, when there is one; None: no more will come."""
        with self._changed:
            while not self._files and self._until is None:
                self._changed.wait()
            return self._files[0] if self._files else None

    def _send(self, path: Path) -> None:
        """Raises OSError, RtmwError."""
        target = self.target / path.name
        assert isinstance(target, RemotePath)
        if target.exists():
            if path not in self._tried:
                raise FileExistsError(f"{target} exists, of another recording: name another place, or remove it")
            if target.info().size == path.stat().st_size:
                return  # the answer to the last attempt was lost
        self._tried.add(path)
        send(path, target)

    def _failed(self, path: Path, error: Exception, pause: float) -> bool:
        """Counts it and waits; False: the time is up."""
        with self._changed:
            self._failures, self._problem = self._failures + 1, str(error) or repr(error)
            if not path.exists():
                self._files.popleft()
                self._tried.discard(path)
                self._lost += 1
                return True
            if not isinstance(error, RemoteFailed):
                self._files.rotate(-1)
            end = CLOCK.monotonic() + pause
            while CLOCK.monotonic() < min(end, self._until or end):
                self._changed.wait(min(end, self._until or end) - CLOCK.monotonic())
            return self._until is None or CLOCK.monotonic() < self._until


Kept = tuple[bytes, int, int, int, int, int, int]
"""Payload, log time, publish time, sequence, priority, publisher, expiry."""


class Latched:
    """The messages that publishers keep for late subscribers: by channel and publisher, the latest last."""

    def __init__(self) -> None:
        self._kept: dict[int, dict[int, Kept]] = {}

    def see(self, chunk: ChunkBuilder, channels: set[int]) -> None:
        """Remember the last messages that a chunk has of these channels."""
        for channel in channels & {number for number, _, _ in chunk.channels()}:
            kept = self._kept.setdefault(channel, {})
            for message in chunk.latest(channel):
                kept.pop(message[5], None)
                kept[message[5]] = message
            while len(kept) > CARRIED_MOST:
                del kept[next(iter(kept))]

    def carry(self, writer: RecordingWriter, log_time: int) -> None:
        """Into a file that begins at this time. What has expired by then stays behind."""
        for channel, by_publisher in self._kept.items():
            for payload, _, publish_time, sequence, priority, publisher, expires in by_publisher.values():
                if expires and expires <= log_time:
                    continue
                writer.write(
                    channel,
                    payload,
                    log_time=log_time,
                    publish_time=publish_time,
                    sequence=sequence,
                    priority=priority,
                    publisher=publisher,
                    expires=expires,
                    flags=CARRIED,
                )


LEAST_ROOM = 4096
"""Bytes that a file that is split by size keeps free for its end."""
ROW_BYTES = 16 + 26
"""Bytes that a message takes in its index and in the side record."""

Tables = Callable[[str], Mapping[str, Mapping[str, str]]]
"""Metadata for the end of a file, by name, given why the file was begun."""


class Files:
    """One file after the other; used by one thread at a time."""

    def __init__(self, folder: Path, settings: Settings, tables: Tables, clock: Clock = CLOCK) -> None:
        self.definitions = Definitions("ros2" if settings.ros2 else "")
        self.latched = Latched()
        self._ros2 = Ros2Folder(folder) if settings.ros2 else None
        self.paths: list[Path] = []
        """All that were begun, as long as they are kept."""
        self.bytes = 0
        """Bytes of the files before this one."""
        self._folder, self._settings, self._tables, self._clock = folder, settings, tables, clock
        self.uploads = _uploads(settings.upload, self._uploaded)
        """Where finished files go; None: nowhere."""
        self._writer: RecordingWriter | None = None
        self._name = Path(os.path.abspath(folder)).name or "recording"
        self._earlier = _earlier(folder, self._name, settings.append)
        """Files of earlier recorders, the oldest first."""
        self._number = _number(self._earlier[-1]) + 1 if self._earlier else 0
        self._why = "start"
        self._began_s = self._synced_s = self._clock.monotonic()
        self._synced = 0
        """Bytes of all files that the disk has been told to keep."""

    @property
    def current(self) -> Path | None:
        return Path(self._writer.path) if self._writer else None

    @property
    def written(self) -> int:
        """Bytes of all files."""
        return self.bytes + (self._writer.position if self._writer else 0)

    def open(self, why: str = "start") -> RecordingWriter:
        """The next file. Raises OSError, and RecordingFailed when another recorder has taken its name."""
        path = self._folder / f"{self._name}_{self._number}{SUFFIX}"
        try:
            self._writer = RecordingWriter(
                path,
                compression=self._settings.compression,
                chunk_bytes=self._settings.chunk_bytes,
                definitions=self.definitions,
            )
        except FileExistsError:
            raise RecordingFailed(f"{path} exists: does another recorder write to this folder? Name another") from None
        self._number += 1
        self._why, self._began_s = why, self._clock.monotonic()
        self.paths.append(path)
        self._remove_old()
        return self._writer

    def write(self, chunk: ChunkBuilder, missed: Mapping[tuple[int, int], int], latched: set[int]) -> None:
        """A chunk, into a new file if it is time; it is cleared. `latched`: channels to be carried into new files."""
        writer = self._writer or self.open()
        if writer.message_count and self._is_due(writer, chunk):
            writer = self.split(chunk.start_ns)
        self.latched.see(chunk, latched)
        self.missed(missed)
        writer.write_chunk(chunk)

    def missed(self, missed: Mapping[tuple[int, int], int]) -> None:
        """Messages that are missing in this file, by channel and cause."""
        if self._writer is not None:
            for (channel, cause), count in missed.items():
                self._writer.missed(channel, cause, count)

    def sync_if_due(self) -> None:
        """Have the disk take what was written, if the settings want that now, and there is something."""
        every = self._settings.sync_every
        if every is None or self._writer is None or self.written == self._synced:
            return
        if self._clock.monotonic() - self._synced_s >= every:
            self._writer.sync()
            self._synced, self._synced_s = self.written, self._clock.monotonic()

    def split(self, log_time: int, why: str = "split") -> RecordingWriter:
        """The next file, which begins with what was latched at that time."""
        self.close()
        writer = self.open(why)
        self.latched.carry(writer, log_time)
        return writer

    def close(self) -> None:
        """The file is complete."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            for name, values in self._tables(self._why).items():
                writer.metadata(name, values)
        finally:
            writer.close()
            self.bytes += writer.position
        if self._ros2 is not None:
            self._ros2.describe([*self._earlier, *self.paths])
        if self.uploads is not None:
            self.uploads.put(Path(writer.path))

    def _uploaded(self, path: Path) -> None:
        if self._settings.upload_remove:
            with suppress(OSError, ValueError):
                path.unlink()
                self.paths.remove(path)

    def _is_due(self, writer: RecordingWriter, chunk: ChunkBuilder) -> bool:
        size, every = self._settings.split_bytes, self._settings.split_every
        if size is not None and writer.position + chunk.size + ROW_BYTES * len(chunk) + LEAST_ROOM > size:
            return True
        return every is not None and self._clock.monotonic() - self._began_s >= every

    def _remove_old(self) -> None:
        """Beyond `keep`. Files that wait to be sent stay until a later file begins; meanwhile others may go by
        themselves, when they are there."""
        kept = [*self._earlier, *self.paths]
        for path in kept[: -self._settings.keep] if self._settings.keep is not None else ():
            if self.uploads is None or not self.uploads.waits(path):
                with suppress(OSError):
                    path.unlink()
                for paths in (self._earlier, self.paths):
                    with suppress(ValueError):
                        paths.remove(path)


def _uploads(target: str | None, sent: Callable[[Path], None]) -> Uploads | None:
    if target is None:
        return None
    found = place(target)
    assert isinstance(found, RemotePath)
    _ = found.system  # that there is none is said now
    return Uploads(found, sent)


def _earlier(folder: Path, name: str, append: bool) -> list[Path]:
    """The series that goes on. Raises RecordingFailed where there are recordings and must not be."""
    found = by_name(folder.glob(f"*{SUFFIX}"))
    if found and not append:
        raise RecordingFailed(
            f"{folder} holds a recording already ({found[0].name}): name another folder, or append to it (--append)"
        )
    return [path for path in found if re.fullmatch(rf"{re.escape(name)}_\d+", path.stem)]


def _number(path: Path) -> int:
    return int(path.stem.rpartition("_")[2])
