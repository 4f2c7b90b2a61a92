"""A log as a folder: find it, make it, recover it, and open what reads and writes it. Who holds its lock and its
cursors, and who waits for more.

The process that recovers or writes holds the lock, until it closes the log or ends. Cursors say up to where a named
reader has come, durably; each is a file of its own, with one holder at a time. Whoever waits for records watches the
file `end`, which is written when more is durable.
"""

from __future__ import annotations

import errno
import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import ClassVar, Final
from urllib.parse import quote, unquote

from rtmw.clock import CLOCK, Clock
from rtmw.closing import Closing
from rtmw.disk import DISK, Disk
from rtmw.errors import ClosedError, ForkedError, LogError, LogFull, LogLocked
from rtmw.locks import FileLock, NoLocks, is_locked
from rtmw.log import _log as core

__all__ = [
    "BATCH_S",
    "Folder",
    "HeldCursor",
    "Holder",
    "Watch",
    "cursor_names",
    "delete_cursor",
    "holder_of",
    "holder_of_cursor",
    "open_folder",
]


LOCK = "lock"
_RECOVERING = ", which looks whether it is whole"
"""What stands behind the name of one who opens the log to read it; that takes a moment, and a writer waits for it."""
_WRITES = (
    "{log}: {name} writes to this log, and one process at a time may; end it, or append through it. Reading is free to "
    "all"
)
RECOVERY_S = 60.0
_NAMED_S = 0.1
"""A holder that was killed has left its name; whoever has taken the lock from it has mostly written another by then."""
_NAMING_S = 5.0
"""A process that has just taken the lock has written its name by then, also on a busy machine."""
_NAME_SIZE = 120
_UNNAMED = "another process"
_LOOK_S = 0.002


class Holder(Closing):
    """Takes the lock of the log in this folder, or another one. LogLocked: somebody has it, who is named.

    `told`: what LogLocked says then. PermissionError, or OSError of a read-only file system: this user may read only.
    """

    def __init__(self, log: str, folder: int, to_write: bool = True, *, lock: str = LOCK, told: str = _WRITES) -> None:
        self._lock = FileLock(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666, dir_fd=folder))
        try:
            _take(log, self._lock, to_write, told)
        except BaseException:
            self._lock.close()
            raise
        _write_name(self._lock.descriptor, "" if to_write else _RECOVERING)

    def is_named(self, folder: int, lock: str) -> bool:
        """Whether its file still has this name: it is not, if the file was removed between its opening and the lock."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.stat(lock, dir_fd=folder), os.fstat(self._lock.descriptor))
        return False

    def close(self) -> None:
        if self._lock.is_ours:
            _remove_name(self._lock.descriptor)
        self._lock.close()


def _take(log: str, lock: FileLock, to_write: bool, told: str) -> None:
    seen, since = "", CLOCK.monotonic()
    while True:
        try:
            if lock.take():
                return
        except NoLocks as error:
            raise LogError(
                f"{log}: this file system has no locks ({error.strerror}), so two writers could not be kept apart; put "
                "the log on another one"
            ) from error
        name = _read_name(lock.descriptor)
        if name != seen:  # another holder than at the last look, or one that has written its name since
            seen, since = name, CLOCK.monotonic()
        patience = RECOVERY_S if name.endswith(_RECOVERING) else _NAMED_S if name else _NAMING_S
        if not to_write or CLOCK.monotonic() - since > patience:
            raise LogLocked(told.format(log=log, name=name or _UNNAMED))
        time.sleep(_LOOK_S)


def holder_of(folder: int, lock: str = LOCK) -> str | None:
    """The holder of a lock: program and process id; None: there is none."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        return (_read_name(descriptor) or _UNNAMED) if is_locked(descriptor) else None
    finally:
        os.close(descriptor)


def _write_name(descriptor: int, doing: str) -> None:
    """Writes for people who holds the lock; the lock counts also where this cannot be written."""
    program = os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else sys.executable)
    text = f"{program} ({os.getpid()}){doing}".encode(errors="replace")[:_NAME_SIZE]
    with suppress(OSError):  # in one call: whoever looks meanwhile sees one name or the other
        os.pwrite(descriptor, text.ljust(_NAME_SIZE) + b"\n", 0)


def _remove_name(descriptor: int) -> None:
    """Removes the holder's name before the lock is given back, so that it is not taken for that of the next holder,
    which has not written its own yet."""
    with suppress(OSError):
        os.pwrite(descriptor, b" " * _NAME_SIZE + b"\n", 0)


def _read_name(descriptor: int) -> str:
    with suppress(OSError):
        return os.pread(descriptor, 2 * _NAME_SIZE, 0).decode(errors="replace").strip()
    return ""


LOOK_AGAIN_S = 0.5
WITHOUT_S = 0.005
"""Seconds between looks where this user has no inotify instance left to make."""


class Watch(Closing):
    """Wakes when the log's end moves, or somebody calls `wake`. One waiter at a time.

    `log`: its folder; None: it is elsewhere, and whoever reads from there calls `tell`.
    """

    def __init__(self, log: str | None) -> None:
        self._lock, self._owner = RLock(), os.getpid()
        """Handlers of signals take it, too, and may interrupt whoever holds it."""
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._descriptor = -1
        with suppress(OSError):
            if log is None:
                self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            else:
                self._descriptor = core.watch(os.path.join(log, "end"))
        self._poll = select.poll()
        for descriptor in (self._event, self._descriptor):
            if descriptor >= 0:
                self._poll.register(descriptor, select.POLLIN)

    @property
    def descriptors(self) -> list[int]:
        """Readable when something may have changed."""
        return [descriptor for descriptor in (self._event, self._descriptor) if descriptor >= 0]

    @property
    def seconds(self) -> float:
        """A waiter looks by itself after so long."""
        return LOOK_AGAIN_S if self._descriptor >= 0 else WITHOUT_S

    def wait(self) -> None:
        """Waits until something may have changed. Look at the end after the watch was made, and again after each
        wait."""
        self._poll.poll(self.seconds * 1000)
        self.drain()

    def drain(self) -> None:
        """Takes the notices: the descriptor is not readable any more."""
        if self._descriptor >= 0:
            with suppress(BlockingIOError):
                os.read(self._descriptor, 65536)

    def tell(self) -> None:
        """End this wait, where there is no folder. From any thread."""
        with self._lock:
            if self._descriptor >= 0:
                os.eventfd_write(self._descriptor, 1)

    def wake(self) -> None:
        """End all waits from now on. From any thread; in a child of fork() it does nothing, for the parent waits."""
        if self._is_forked:
            return
        with self._lock:
            if self._event >= 0:
                os.eventfd_write(self._event, 1)

    def close(self) -> None:
        """Closes the descriptors; nobody may wait any more."""
        with nullcontext() if self._is_forked else self._lock:
            descriptors, self._event, self._descriptor = self.descriptors, -1, -1
            for descriptor in descriptors:
                os.close(descriptor)

    @property
    def _is_forked(self) -> bool:
        """Is this a child of fork()? It shares the descriptors, and a thread that it lacks may hold the lock."""
        return self._owner != os.getpid()


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


BATCH_S: Final = 0.1
"""Commits that come within this time go to the disk together."""
_HELD = (
    "{log}: the cursor is held by {name}, and one reader at a time may go on with a cursor; end that one, or read with "
    "a cursor of another name"
)


def cursor_names(folder: Folder) -> list[str]:
    names = os.listdir(folder.descriptor)
    return sorted(unquote(name.removesuffix(CURSOR)) for name in names if name.endswith(CURSOR))


def holder_of_cursor(folder: Folder, name: str) -> str | None:
    """Program and process id; None: nobody."""
    return holder_of(folder.descriptor, file_of(name) + ".lock")


def hold(folder: Folder, name: str) -> Holder:
    """The lock of the cursor, whose file is removed together with it."""
    lock, subject = file_of(name) + ".lock", f"{folder.path}, cursor {name!r}"
    while True:
        holder = Holder(subject, folder.descriptor, lock=lock, told=_HELD)
        if holder.is_named(folder.descriptor, lock):
            return holder
        holder.close()


def delete_cursor(folder: Folder, name: str) -> None:
    """Removes a cursor: it keeps no records any more. LogLocked names its holder; LogError: there is none of this
    name."""
    if name not in cursor_names(folder):
        raise LogError(f"{folder.path}: there is no cursor {name!r}; it has {cursor_names(folder) or 'none'}")
    with hold(folder, name):
        core.cursor_delete(folder.path, folder.descriptor, folder.uuid, file_of(name))
        with suppress(FileNotFoundError):
            os.unlink(file_of(name) + ".lock", dir_fd=folder.descriptor)


class HeldCursor(Closing):
    """A cursor that this process holds. `commit` and `flush` may be called from any thread, and a handler of a signal
    may close it while the thread that it interrupts commits.

    LogLocked: another one holds it, and is named.
    """

    def __init__(self, folder: Folder, name: str, clock: Clock = CLOCK) -> None:
        self.name = name
        self._clock = clock
        file_of(name)  # raises ValueError
        self._busy = RLock()
        """Protects what is committed; nothing waits for the disk under it."""
        self._writing = RLock()
        """Protects the file; it is taken before `_busy`."""
        self._later: Callable[[float], bool] | None = None
        self._owner = os.getpid()
        self._closed = self._failed = False
        self._untold: Exception | None = None
        with ExitStack() as opened:
            self._folder = opened.enter_context(folder.copy())  # the log may be closed while a thread commits
            self._holder = opened.enter_context(self._folder.hold_cursor(name))
            found = self._folder.cursor(name)
            opened.pop_all()
        self.position: int | None = None if found is None else found[0]
        """Up to where all is committed, durably or in the batch; None: it is new, and `begin` makes it."""
        self._durable: int | None = self.position
        self._written_s = 0.0

    def begin(self, position: int) -> None:
        """Where it is new: it begins here. Else the time of its last use becomes now. Durable.

        LogFull: the disk has no room for a new cursor.
        """
        is_new = self.position is None
        self._folder.begin_cursor(self.name, position if self.position is None else self.position, is_new=is_new)
        if is_new:
            self.position = position
        self._durable = self.position
        self._written_s = self._clock.monotonic()

    def write_later(self, later: Callable[[float], bool]) -> None:
        """From now on `commit` does not write: `later` is called with the seconds until a write is due, and sees to a
        `flush`. False: it cannot."""
        self._later = later

    def commit(self, end: int) -> None:
        """All below `end` is done with. On the disk within a batch of a tenth of a second, or with `flush`."""
        self._check_owner()
        self._tell_failure()
        with self._busy:
            if self._closed:
                raise ClosedError(
                    f"{self._folder.path}: the reader with cursor {self.name!r} has ended; commit before it is closed"
                )
            self.position = max(self.position or 0, end)
            self._failed = False
            due_s = max(0.0, self._written_s + BATCH_S - self._clock.monotonic())
        if self._later is not None and self._later(due_s):
            return
        if not due_s:
            self.flush()

    def flush(self) -> None:
        """Brings commits to the disk, also those whose write has failed before. LogFailed: they may be there or not."""
        self._check_owner()
        with self._writing:
            self._failed = False
            self._write()
            self._tell_failure()  # under the lock: of several who flush, each is told of its own write

    def write(self) -> None:
        """Writes like `flush`, but the next commit, flush or close raises what goes wrong."""
        with self._writing:
            self._write()

    @property
    def is_flushed(self) -> bool:
        """Nothing was committed that is not on the disk, or a write of it has failed."""
        return self.position == self._durable or self._failed or self._closed

    def _check_owner(self) -> None:
        """Raises ForkedError in a child of fork(). It goes before the locks, which a thread of the parent may hold
        for ever there."""
        if self._owner != os.getpid():
            raise ForkedError(f"{self._folder.path}: cursor {self.name!r} is held by the parent of this process")

    def _write(self) -> None:
        """`_writing` is held. After one that failed the next commit or flush writes; `_tell_failure` raises it."""
        position = self.position
        if position is None or self.is_flushed:
            return
        try:
            self._folder.write_cursor(self.name, position)
        except Exception as error:
            self._failed, self._untold = True, error
            return
        self._durable = position
        self._written_s = self._clock.monotonic()

    def _tell_failure(self) -> None:
        """Raises the failure of a write once, to the first who asks."""
        with self._busy:
            error, self._untold = self._untold, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Brings commits to the disk, and gives the cursor free. LogFailed: the commits may be there or not."""
        if self._owner != os.getpid():
            return  # the holder has closed its copy of the lock
        with self._writing:
            self._write()
            with self._busy:
                self._closed = True
            self._holder.close()
            self._folder.close()
        self._tell_failure()
