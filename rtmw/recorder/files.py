"""The files of a recording: FOLDER/NAME_0.mcap, NAME_1.mcap, …

The last message of each publisher that keeps some for late subscribers is carried into every file (`Latched`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from rtmw.clock import CLOCK, Clock
from rtmw.errors import RecordingFailed
from rtmw.recorder.settings import Settings
from rtmw.recorder.uploads import Uploads
from rtmw.recording._mcap import ChunkBuilder
from rtmw.recording.batch import CARRIED, CARRIED_MOST
from rtmw.recording.definitions import Definitions
from rtmw.recording.paths import SUFFIX, by_name
from rtmw.recording.places import RemotePath, place
from rtmw.recording.tools.ros2_folder import Ros2Folder
from rtmw.recording.writer import RecordingWriter

__all__ = ["Files"]


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
