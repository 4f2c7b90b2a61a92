"""The file that a recording is written to: appended in whole groups of records, or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rtmw.checksum import crc32
from rtmw.disk import DISK, Disk

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

    def __init__(self, path: str | os.PathLike[str], disk: Disk = DISK) -> None:
        self.path, self._disk = Path(path), disk
        self.end = End(0, 0)
        """Set back, it makes undone what was appended since."""
        self._is_named = False
        self._file = disk.create(str(self.path), None, os.O_WRONLY | os.O_EXCL)

    def append(self, *parts: Part) -> None:
        """All of it, or, with any exception, nothing: the end has not moved then, and is where the next group goes."""
        try:
            self._disk.write_all(self._file, parts, self.end.position)
        except BaseException:  # Ctrl-C, too
            self._cut()
            raise
        position, crc = self.end
        for part in parts:
            position, crc = position + len(part), crc32(part, crc)
        self.end = End(position, crc)

    def _cut(self) -> None:
        """Takes away what lies behind the end."""
        with suppress(OSError):  # a disk that is gone: what came before is in the file, and readers find its end
            if os.fstat(self._file).st_size > self.end.position:
                self._disk.cut(self._file, self.end.position)

    def sync(self) -> None:
        """All appended data is on the disk when this returns, and so is the name of the file."""
        try:
            self._sync()
        except OSError as error:
            what = f"{error.strerror} at a sync, so what was written since the one before may not be on the disk"
            raise OSError(error.errno, what, str(self.path)) from None

    def _sync(self) -> None:
        self._disk.sync_data(self._file)
        if not self._is_named:
            self._disk.sync_folder(self.path.parent)
            self._is_named = True

    def close(self) -> None:
        if self._file >= 0:
            self._cut()
            os.close(self._file)
            self._file = -1
