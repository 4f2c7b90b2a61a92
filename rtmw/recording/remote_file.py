"""A file at a remote place: ranges of it are read as they are needed.

A request takes as long as reading many kilobytes, so small reads fetch a block of the file, and a few blocks are kept:
the header is one request, the footer with a small summary another one, and then each chunk.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

from rtmw.errors import ClosedError, RecordingError
from rtmw.recording.file import FOLDERS, File
from rtmw.recording.places import RemotePath, said

BLOCK: Final = 64 << 10
_KEPT: Final = 8


class RemoteFile(File):
    """A File at a remote place. It does not grow after it was opened: a place has a whole file or none, and nobody
    appends."""

    def __init__(self, path: RemotePath) -> None:
        self.path, self.bytes_read, self.requests = path, 0, 0
        self._open: Any = _opened(path)
        self.size = int(self._open.size())
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def measure(self) -> int:
        return self.size

    @property
    def descriptor(self) -> int:
        raise RecordingError(f"{self.path} is not on this host: it has no descriptor")

    def window(self, position: int, size: int) -> bytes:
        """Returns so many bytes from a position on; fewer at the end of the file. Raises RemoteFailed."""
        begin, end = position, min(position + size, self.size)
        if end <= begin:
            return b""
        first, last = begin // BLOCK, (end - 1) // BLOCK
        if last - first > 1:
            return self._fetched(begin, end - begin)
        data = b"".join(self._block(number) for number in range(first, last + 1))
        return data[begin - first * BLOCK : end - first * BLOCK]

    def _block(self, number: int) -> bytes:
        with self._lock:
            if number not in self._blocks:
                begin = number * BLOCK
                self._blocks[number] = self._fetched(begin, min(BLOCK, self.size - begin))
                if len(self._blocks) > _KEPT:
                    self._blocks.popitem(last=False)
            self._blocks.move_to_end(number)
            return self._blocks[number]

    def _fetched(self, position: int, size: int) -> bytes:
        if self._open is None:
            raise ClosedError(f"the recording {self.path} is closed")
        with said(self.path):
            data: bytes = self._open.read_at(size, position)
        self.requests += 1
        self.bytes_read += len(data)
        return data

    def close(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()


def _opened(path: RemotePath) -> Any:
    try:
        with said(path):
            return path.system.open_input_file(path.inside)
    except FileNotFoundError:
        if path.is_dir():
            raise RecordingError(f"{path} is no recording: it is a folder. {FOLDERS.format(path)}") from None
        raise FileNotFoundError(f"there is no recording {path}") from None


def open_file(path: Path) -> File:
    """The file at a place. Raises OSError, RecordingError."""
    return RemoteFile(path) if isinstance(path, RemotePath) else File(path)
