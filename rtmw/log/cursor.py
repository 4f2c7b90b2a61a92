"""Cursors: up to where a named reader has come, durably; each a file of its own, with one holder at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from threading import RLock
from typing import Final
from urllib.parse import unquote

from rtmw.clock import CLOCK, Clock
from rtmw.closing import Closing
from rtmw.errors import ClosedError, ForkedError, LogError
from rtmw.log import _log as core
from rtmw.log.folder import CURSOR, Folder, file_of
from rtmw.log.holder import Holder, holder_of

__all__ = ["BATCH_S", "HeldCursor", "cursor_names", "delete_cursor", "holder_of_cursor"]

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
