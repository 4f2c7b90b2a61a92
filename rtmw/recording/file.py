"""The file under a recording, which may grow, or be cut by somebody else, at any time.

It is read, not mapped: to touch a mapped page that has been cut off ends the process with SIGBUS.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from rtmw.errors import ClosedError, RecordingError
from rtmw.recording.damage import damaged

FOLDERS: Final = (
    'A Recording is one of its .mcap files; rtmw.Recordings("{0}"), rtmw.Replay("{0}"), rtmw.spark.read("{0}") and, '
    "in a shell, `rtmw recording info {0}` read all of them"
)


class File:
    """Reads at positions. Any thread may."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would be waited for
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            self.close()
            found = f"a folder. {FOLDERS.format(path)}" if path.is_dir() else "a pipe or device"
            raise RecordingError(f"{path} is no recording: it is no file, but {found}")
        self.size = self.measure()
        """Bytes of the file at the last `measure`."""
        self.bytes_read = 0

    def measure(self) -> int:
        self.size = os.fstat(self.descriptor).st_size
        return self.size

    @property
    def descriptor(self) -> int:
        if self._descriptor < 0:
            raise ClosedError(f"the recording {self.path} is closed")
        return self._descriptor

    def window(self, position: int, size: int) -> bytes:
        """Returns so many bytes from a position on; fewer at the end of the file."""
        data = os.pread(self.descriptor, max(size, 0), position)
        while data and len(data) < size:  # at the end of the file, or of what one call reads
            more = os.pread(self.descriptor, size - len(data), position + len(data))
            if not more:
                break
            data += more
        self.bytes_read += len(data)
        return data

    def read(self, position: int, size: int) -> bytes:
        """Exactly so many bytes. Raises RecordingDamaged where the file ends before."""
        if size > self.size - position:
            self.measure()
        if position < 0 or size < 0 or size > self.size - position:
            raise damaged(self.path, max(position, 0), f"{size} bytes should lie here, the file has {self.size}")
        data = self.window(position, size)
        if len(data) < size:
            raise damaged(self.path, position, f"{size} bytes lay here, {len(data)} are left: somebody cut the file")
        return data

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
