"""The file that a recording is written to: appended in whole groups of records, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from rtmw.recording.checksum import crc32

__all__ = ["Output"]

Part = bytes | memoryview


class Output:
    """A new file: `FileExistsError` when there is one of that name."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.position = 0
        """Bytes in it, all of whole records."""
        self.crc = 0
        """CRC-32 of all of them."""
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def append(self, *parts: Part) -> None:
        """All of it, or, with an OSError, nothing: then the file ends where it did before."""
        views = [memoryview(part) for part in parts if len(part)]
        try:
            self._write(views)
        except OSError:
            self._cut()
            raise
        finally:
            for view in views:
                view.release()
        for part in parts:
            self.crc = crc32(part, self.crc)
            self.position += len(part)

    def _write(self, left: list[memoryview]) -> None:
        while left:
            written = os.writev(self._file, left)
            while left and written >= len(left[0]):
                written -= len(left[0])
                left.pop(0).release()
            if written:
                left[0] = left[0][written:]

    def _cut(self) -> None:
        try:
            os.ftruncate(self._file, self.position)
            os.lseek(self._file, self.position, os.SEEK_SET)
        except OSError:
            pass  # a pipe, or a disk that is gone: what came before is in the file, and readers find its end

    def sync(self) -> None:
        """What was appended is on the disk when this returns."""
        os.fdatasync(self._file)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
