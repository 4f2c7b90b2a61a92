"""The folder that a recorder writes to is its own: else two would take numbers of files from each other."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from rtmw.closing import Closing
from rtmw.errors import RecordingFailed

__all__ = ["Claim"]


class Claim(Closing):
    """Makes the folder if need be, and holds it until it is closed, or its process ends.

    RecordingFailed: another recorder holds it. Where the file system knows no locks, nobody is refused.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(OSError):
                _lock(self._descriptor, folder)
        except RecordingFailed:
            self.close()
            raise

    def close(self) -> None:
        """In a child process, too, the parent goes on holding it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RecordingFailed(f"{folder}: another recorder writes to this folder; name another one") from None
