"""The file that a recording is written to: appended in whole groups of records, or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rtmw.recording.checksum import crc32

__all__ = ["End", "Output"]

Part = bytes | memoryview


class End(NamedTuple):
    """Where the file ends, with whole groups of records."""

    position: int
    """Bytes in it."""
    crc: int
    """CRC-32 of all of them."""


class Output:
    """A new file: `FileExistsError` when there is one of that name."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.end = End(0, 0)
        """Set back, it makes undone what was appended since."""
        self._is_named = False
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def append(self, *parts: Part) -> None:
        """All of it, or, with any exception, nothing: the end has not moved then, and is where the next group goes."""
        views = [memoryview(part) for part in parts if len(part)]
        try:
            self._write(views)
        except BaseException:  # Ctrl-C, too
            self._cut()
            raise
        finally:
            for view in views:
                view.release()
        position, crc = self.end
        for part in parts:
            position, crc = position + len(part), crc32(part, crc)
        self.end = End(position, crc)

    def _write(self, left: list[memoryview]) -> None:
        position = self.end.position
        while left:
            written = os.pwritev(self._file, left, position)
            position += written
            while left and written >= len(left[0]):
                written -= len(left[0])
                left.pop(0).release()
            if written:
                left[0] = left[0][written:]

    def _cut(self) -> None:
        """Takes away what lies behind the end."""
        with suppress(OSError):  # a disk that is gone: what came before is in the file, and readers find its end
            if os.fstat(self._file).st_size > self.end.position:
                os.ftruncate(self._file, self.end.position)

    def sync(self) -> None:
        """What was appended is on the disk when this returns, and so is the name of the file."""
        try:
            self._sync()
        except OSError as error:
            what = f"{error.strerror} at a sync, so what was written since the one before may not be on the disk"
            raise OSError(error.errno, what, str(self.path)) from None

    def _sync(self) -> None:
        os.fdatasync(self._file)
        if not self._is_named:
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            self._is_named = True

    def close(self) -> None:
        if self._file >= 0:
            self._cut()
            os.close(self._file)
            self._file = -1
