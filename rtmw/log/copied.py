"""A replica's folder is set aside, and made anew from the files of another replica of the log.

    orders          the log of this node, and of all who read it
    .orders.aside   what it was before: damaged, or left behind; it goes when a copy is in place, or the disk is full
    .orders.copy    sealed segments that come, the file `ids`, cursors; a log as soon as it has the file `log`

A process may be killed at each of these steps. `settle` is called at each start, before the folder is opened.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from rtmw.disk import DISK, Disk
from rtmw.errors import LogDamaged, LogError
from rtmw.log import _log as core
from rtmw.log.check import bases, look_into
from rtmw.log.folder import CURSOR, Folder, Holder

__all__ = ["Copied", "Copy", "CopyFile", "copy_files", "make_room", "set_aside", "settle"]

_SEALED: Final = 1
_NAME: Final = re.compile(r"\d{20}\.seg|ids|[\w%.~-]{1,192}\.cursor")
"""The names of files that may come from another node."""


class CopyFile(NamedTuple):
    name: str
    size: int
    """Bytes that are worth to be copied."""
    length: int
    """Bytes of the file; behind `size` all are zero."""


class Copied(NamedTuple):
    """What a copy consists of, and where the log begins and ends that is made of it."""

    start: int
    end: int
    files: tuple[CopyFile, ...]


def copy_files(folder: Folder, below: int) -> Copied:
    """Returns what to copy of a replica in which all below a position is final: the sealed segments that end there
    or before.

    These segments stay as they are until they are trimmed. Cursors and `ids` change: their readers check the CRC.
    """
    start, _ = folder.bounds()
    end, files = start, list[CopyFile]()
    for base in bases(folder):
        if base != end:
            continue
        with suppress(LogError):  # trimmed just now: then the copy is refused, and made anew
            size, durable, flags, *_ = core.segment(folder.path, folder.descriptor, folder.uuid, base)
            if flags & _SEALED and durable <= below:
                files.append(CopyFile(f"{base:020}.seg", core.SEGMENT_DATA + durable - base, size))
                end = durable
    for name in sorted(os.listdir(folder.descriptor)):
        if name == "ids" or name.endswith(CURSOR):
            with suppress(FileNotFoundError):
                size = os.stat(name, dir_fd=folder.descriptor).st_size
                files.append(CopyFile(name, size, size))
    return Copied(start, end, tuple(files))


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.aside")


def _gone(path: Path) -> Path:
    """Returns the name that a folder has while it is removed."""
    return path.with_name(f".{path.name}.gone")


def _copy(path: Path) -> Path:
    return path.with_name(f".{path.name}.copy")


def set_aside(path: Path, disk: Disk = DISK) -> None:
    """There is no log at the path from now on, durably. What was set aside before stays, for it had more."""
    shutil.rmtree(_gone(path), ignore_errors=True)
    if path.exists():
        disk.rename(str(path), None, str(_gone(path) if _aside(path).exists() else _aside(path)), None)
    disk.sync_folder(path.parent)
    shutil.rmtree(_gone(path), ignore_errors=True)


def settle(path: Path, disk: Disk = DISK) -> None:
    """Completes what a process that was killed has begun: a copy that is whole takes the place of the log. While a
    copy comes, an empty log is there, and what was set aside stays."""
    is_whole = (_copy(path) / "log").exists()
    if is_whole:
        set_aside(path, disk)
        disk.rename(str(_copy(path)), None, str(path), None)
        disk.sync_folder(path.parent)
    if is_whole or (_aside(path).exists() and _has_records(path)):
        shutil.rmtree(_aside(path), ignore_errors=True)


def _has_records(path: Path) -> bool:
    with suppress(OSError, LogError), look_into(path) as folder:
        return folder.bounds()[1] > 0
    return False


def make_room(path: Path) -> bool:
    """What was set aside goes, because the disk is full. False: there is nothing."""
    was_there = _aside(path).exists()
    shutil.rmtree(_aside(path), ignore_errors=True)
    return was_there


class Copy:
    """The copy that is being made for a log at `path`. One thread at a time."""

    def __init__(self, path: Path, copied: Copied, disk: Disk = DISK) -> None:
        """Whatever an earlier try has brought of these files stays. LogError: they cannot be those of a log."""
        self.path, self.copied = path, copied
        self._folder, self._disk = _copy(path), disk
        wrong = [one for one in copied.files if not _NAME.fullmatch(one.name) or not 0 < one.size <= one.length]
        names = [one.name for one in copied.files]
        if wrong or len({*names}) < len(names) or not 0 <= copied.start <= copied.end:
            raise LogError(f"{path}: another node's list of files is none: {wrong[:1] or names}")
        disk.make_folders(self._folder)
        for name in {*os.listdir(self._folder)} - {one.name for one in copied.files if one.name.endswith(".seg")}:
            os.unlink(self._folder / name)

    def has(self, file: CopyFile) -> int:
        """Returns how many bytes of the file are here, from its beginning on."""
        with suppress(FileNotFoundError):
            return min(os.stat(self._folder / file.name).st_size, file.size)
        return 0

    def write(self, file: CopyFile, position: int, data: bytes) -> None:
        """Writes data at `position`, which is what `has` returned. OSError: the disk is full, or has failed."""
        descriptor = self._disk.create(str(self._folder / file.name), None, os.O_WRONLY)
        try:
            self._disk.write_all(descriptor, (data,), position)
        finally:
            os.close(descriptor)

    def _end(self, file: CopyFile) -> None:
        """All bytes of the file are here: it gets its length, and is synced."""
        descriptor = self._disk.create(str(self._folder / file.name), None, os.O_WRONLY)
        try:
            self._disk.cut(descriptor, file.length)
            self._disk.sync(descriptor)
        finally:
            os.close(descriptor)

    def finish(self, uuid: bytes, description: bytes, segment: int) -> None:
        """The log at `path`, which nobody has open, is this copy, durably. LogDamaged: the files are no whole log; they
        are gone. LogFull, LogFailed."""
        place, copied = str(self._folder), self.copied
        for file in copied.files:
            self._end(file)
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with Holder(place, descriptor):
                size = min(core.SEGMENT_FIRST, segment)
                core.create(place, descriptor, uuid, size, description, True, copied.end, copied.end - copied.start)
        except LogDamaged:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        finally:
            os.close(descriptor)
        try:
            settle(self.path, self._disk)
        except OSError:  # an empty log begins in its place: this copy must not replace what that one will have
            (self._folder / "log").unlink(missing_ok=True)
            raise
