"""A log as a folder: find it, make it, recover it, and open what reads and writes it."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.disk import DISK, Disk
from rtmw.errors import LogError, LogFull, LogLocked
from rtmw.log import _log as core
from rtmw.log.holder import LOCK, Holder
from rtmw.log.watch import Watch

__all__ = ["Folder", "open_folder"]

LONGEST_NAME = 64
OWN = frozenset(
    {LOCK, "spare", "log.new", "end", "log", "ids", "ids.new", "start", "start.new"}
    | {"compact.new", "compacted", "compacted.new", "truncated", "truncated.new"}
)
CURSOR = ".cursor"
"""How the names of cursors' files end."""
ENDINGS = (".seg", ".idx", CURSOR, CURSOR + ".lock", CURSOR + ".new")
KEEP_ALL = (core.NO_LIMIT, core.NO_LIMIT, 0, 0)
CREATION_S = 10.0
"""Another process is making the log: that takes milliseconds, and a slow disk's seconds."""
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


def file_of(name: str) -> str:
    """The file of a cursor. Raises ValueError."""
    if not name or len(name.encode()) > LONGEST_NAME or not name.isprintable():
        raise ValueError(
            f"cursor={name!r} is not possible; it is a name of 1 to {LONGEST_NAME} bytes that can be printed"
        )
    return quote(name, safe="") + CURSOR


@dataclass
class Folder(Closing):
    """The folder of a log that exists."""

    path: str
    descriptor: int
    uuid: bytes
    description: bytes
    """Description of the type that was given when the log was made."""
    is_replicated: bool
    """Only the service of the nodes that have it appends; readers see what is final."""
    cut: int = 0
    """Bytes of what was not whole, which were cut off when it was opened."""
    is_remote: ClassVar[bool] = False
    """Records come from the nodes of a replicated log."""

    def hold(self, to_write: bool = True) -> Holder:
        """The lock. LogLocked names who has it. A writer waits for those who only look whether the log is whole."""
        return Holder(self.path, self.descriptor, to_write)

    def recover(self) -> None:
        """Recovers the log after a writer that was killed, unless a writer lives, or this user may only read.

        LogDamaged, LogFailed.
        """
        try:
            with self.hold(to_write=False):
                self.cut = core.recover(self.path, self.descriptor, self.uuid, self.is_replicated)
        except LogLocked:
            return
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise

    def bounds(self) -> tuple[int, int]:
        """The first position, and the one behind the last record that is durable; in a replicated log, and final."""
        return core.bounds(self.path, self.descriptor, self.uuid, self.is_replicated)

    def check_writable(self) -> None:
        """LogError: the log is replicated, and only its service appends."""
        if self.is_replicated:
            raise LogError(
                f"{self.path}: this is one node's copy of a replicated log, and only the nodes append to it; append "
                "through them: rtmw.Log.connect. Reading is free to all"
            )

    def writer(
        self, most: int, window: int, retention: tuple[int, int, int, int] = KEEP_ALL, *, is_service: bool = False
    ) -> core.Writer:
        """The caller holds the lock. LogError: the log is replicated, and the caller is not its service.

        `most`: bytes of a segment; `window`: ids that are remembered; `retention`: see struct retention.
        """
        if not is_service:
            self.check_writable()
        return core.Writer(self.path, self.descriptor, self.uuid, most, window, retention, self.is_replicated)

    def truncate(self, position: int) -> None:
        """The log ends there. The caller holds the lock, and there is no writer. Of a replicated log."""
        core.truncate(self.path, self.descriptor, self.uuid, position)

    def epochs(self, end: int) -> list[tuple[int, int]]:
        """Each epoch of which there are records below `end`, and the position of the first one."""
        return core.epochs(self.path, self.descriptor, self.uuid, end)

    def reader(self, position: int, *, begins: bool = False) -> core.Reader:
        """`begins`: a file of the log says that a record begins there, so that LogDamaged is raised if none does."""
        return core.Reader(self.path, self.descriptor, self.uuid, position, begins)

    def cursor(self, name: str) -> tuple[int, int] | None:
        """Position of a cursor, and the time at which it was written; None: there is none."""
        return core.cursor_read(self.path, self.descriptor, self.uuid, file_of(name))

    def hold_cursor(self, name: str) -> Closing:
        """The lock of the cursor. LogLocked: another reader has it, and is named."""
        from rtmw.log.cursor import hold

        return hold(self, name)

    def begin_cursor(self, name: str, position: int, *, is_new: bool) -> None:
        """The first write of its holder. LogFull: the disk has no room for a new cursor."""
        begin = core.cursor_make if is_new else core.cursor_hold
        try:
            begin(self.path, self.descriptor, self.uuid, file_of(name), position)
        except LogFull:
            if is_new:
                os.unlink(file_of(name) + ".lock", dir_fd=self.descriptor)  # of a cursor that there is not
            raise

    def write_cursor(self, name: str, position: int) -> None:
        """Durably. The caller holds the cursor."""
        core.cursor_write(self.path, self.descriptor, self.uuid, file_of(name), position)

    def watch(self) -> Watch:
        """Wakes who waits for more records."""
        return Watch(self.path)

    def copy(self) -> Folder:
        """Returns another Folder of this log, which its user closes at a time of its own."""
        return Folder(self.path, os.dup(self.descriptor), self.uuid, self.description, self.is_replicated, self.cut)

    def segments(self) -> tuple[int, int]:
        """How many there are, and their bytes on the disk; the spare is one of them."""
        sizes = [self._size(name) for name in os.listdir(self.descriptor) if name.endswith(".seg") or name == "spare"]
        return len(sizes), sum(sizes)

    def size_of_segment(self, base: int) -> int:
        """Bytes of its file; 0: it is not there."""
        return self._size(f"{base:020}.seg")

    def _size(self, name: str) -> int:
        with suppress(FileNotFoundError):
            return os.stat(name, dir_fd=self.descriptor).st_size
        return 0

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def open_folder(path: Path, description: bytes | None, *, segment: int, disk: Disk = DISK) -> Folder:
    """The log of this folder. `description`: of the type; if there is no log, one of that type is made. None: none is.

    FileNotFoundError, LogError (it is no log), LogDamaged, LogFull, LogFailed. `segment`: bytes of a segment at most.
    """
    if description is not None:
        disk.make_folders(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no log {path}") from None
    except NotADirectoryError:
        raise LogError(f"{path} is a file; a log is a folder") from None
    try:
        found = core.identify(str(path), descriptor)
        if found is None and description is None:
            raise FileNotFoundError(f"there is no log in {path}")
        if found is None:
            found = _create(str(path), descriptor, description or b"", min(core.SEGMENT_FIRST, segment))
        folder = Folder(str(path), descriptor, *found)
        folder.recover()
        return folder
    except BaseException:
        os.close(descriptor)
        raise


def _create(path: str, descriptor: int, description: bytes, segment: int) -> tuple[bytes, bytes, bool]:
    until = CLOCK.monotonic() + CREATION_S
    while True:
        try:
            with Holder(path, descriptor):
                found = core.identify(path, descriptor)
                if found is None:
                    _check_empty(path, descriptor)
                    core.create(path, descriptor, os.urandom(16), segment, description)
                    found = core.identify(path, descriptor)
                if found is not None:
                    return found
        except LogLocked:
            found = core.identify(path, descriptor)
            if found is not None:
                return found
            if CLOCK.monotonic() > until:
                raise
            time.sleep(0.01)


def _check_empty(path: str, descriptor: int) -> None:
    others = sorted(name for name in os.listdir(descriptor) if name not in OWN and not name.endswith(ENDINGS))
    if others:
        raise LogError(f"{path} has other files ({others[0]}), and no log; name a folder that is empty or new")
