"""Waiting for records: the file `end` is written when more is durable, and inotify tells whoever watches it."""

from __future__ import annotations

import os
import select
from contextlib import nullcontext, suppress
from threading import RLock

from rtmw.closing import Closing
from rtmw.log import _log as core

__all__ = ["Watch"]

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
