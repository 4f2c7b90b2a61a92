"""A folder that one program at a time writes to: else two would take numbers of files from each other."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from rtmw.closing import Closing
from rtmw.errors import RtmwError

__all__ = ["Claim"]


class Claim(Closing):
    """Makes the folder if need be, and holds it until it is closed, or its process ends.

    Raises `held` where another program holds it. Where the file system knows no locks, nobody is refused.
    """

    def __init__(self, folder: Path, held: RtmwError) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(OSError):
                _lock(self._descriptor, held)
        except RtmwError:
            self.close()
            raise

    def close(self) -> None:
        """In a child process, too, the parent goes on holding it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _lock(descriptor: int, held: RtmwError) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise held from None
