"""The files under recordings: which ones a path means, and what is read of each, on this host or from a remote place.

A file may grow, or be cut by somebody else, at any time. Its beginning tells whether it is a recording, and whose.

A file is read, not mapped: to touch a mapped page that has been cut off ends the process with SIGBUS.

A request to a remote place takes as long as reading many kilobytes, so small reads fetch a block of the file, and a few
blocks are kept: the header is one request, the footer with a small summary another one, and then each chunk.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any, Final

from rtmw.errors import ClosedError, RecordingError
from rtmw.recording import records
from rtmw.recording.places import RemotePath, modified_ns, place, recordings_at, said
from rtmw.recording.records import HEAD, MAGIC, Fields, Opcode, damaged

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


SQLITE: Final = b"SQLite f"
CONVERT: Final = "Convert it: rtmw recording convert BAG -o NEW.mcap"
_EXTENSION: Final = 4096
"""Later versions of MCAP may append fields, but not so many."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a file: the profile, and the library that wrote it."""

    profile: str
    library: str
    end: int
    """Where the data section begins."""

    @property
    def is_ours(self) -> bool:
        """Written by rtmw: every chunk has a side record."""
        return self.library.startswith("rtmw ")


def read_header(file: File) -> Header:
    """Raises RecordingError if the file is no recording, RecordingDamaged if its beginning is not whole."""
    _require_magic(file)
    position = len(MAGIC)
    opcode, size = records.read_head(file.read(position, HEAD))
    if opcode != Opcode.HEADER or size > _EXTENSION:
        raise damaged(file.path, position, "here should be a header")
    fields = Fields(file.path, file.read(position + HEAD, size), position + HEAD, "header")
    header = Header(*records.read_header(fields), position + HEAD + size)
    if header.is_ours and fields.left():
        fields.wrong(f"{fields.left()} bytes too many")
    return header


def _require_magic(file: File) -> None:
    begin = file.window(0, len(MAGIC))
    if begin == MAGIC:
        return
    if not begin:
        raise RecordingError(f"{file.path} is empty: nothing has been recorded yet, or it is no recording")
    if begin == SQLITE:
        raise RecordingError(f"{file.path} is a bag of ROS 2 in SQLite. {CONVERT}")
    if begin[:5] == MAGIC[:5] and len(begin) == len(MAGIC):
        raise RecordingError(f"{file.path} is of MCAP version {chr(begin[5])!r}, or damaged; version '0' is read")
    raise RecordingError(f"{file.path} is no recording: it begins with {begin!r}, and an MCAP file with {MAGIC!r}")


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


SUFFIX: Final = ".mcap"
RECOVERED: Final = ".recovered.mcap"
"""How the name ends of what was made of a damaged recording, and lies beside it."""

Source = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A file, a folder, a pattern such as `day-*.mcap`, at a URI such as s3://bucket/prefix or not; or several of these."""


def find_recordings(source: Source, *, growing: bool = False) -> list[Path]:
    """The files that are meant, each once, whatever names and links lead to it. Raises FileNotFoundError.

    A folder stands for all recordings in it, however deep, in the order of their names, as a pattern does. There, a
    recovered recording stands for the damaged one beside it; with `growing` the other way round, for who followed that
    as it grew, and goes on.
    """
    given = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    if not given:
        raise FileNotFoundError("no recording was named")
    found: dict[object, Path] = {}
    for item in given:
        for path in _find(place(item), growing):
            found.setdefault(_file_of(path), path)
    return list(found.values())


def _file_of(path: Path) -> object:
    """The file itself, under whatever name; of a link to nothing the name."""
    try:
        about = path.stat()
    except OSError:
        return path
    return about.st_dev, about.st_ino


def find_recording(source: str | os.PathLike[str]) -> Path:
    """The only one that is meant. Raises FileNotFoundError, RecordingError for several."""
    found = find_recordings(source)
    if len(found) > 1:
        raise RecordingError(f"{os.fspath(source)} has {len(found)} recordings: name one of them, such as {found[0]}")
    return found[0]


def by_name(paths: Iterable[Path]) -> list[Path]:
    """Sorts paths by their names, run_2 before run_10."""
    return sorted(paths, key=lambda path: (path.parent, _parts(path.name)))


def _parts(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def recovered_of(path: Path) -> Path:
    """Returns the path of the recording that `rtmw recording recover` makes of another one."""
    return path.with_name(path.name.removesuffix(SUFFIX) + RECOVERED)


def without_damaged(paths: Iterable[Path]) -> list[Path]:
    """Leaves out what was recovered, unless it has been written since: that would be another recording."""
    found = {path: None for path in paths}
    return [path for path in found if not ((saved := recovered_of(path)) in found and _is_older(path, saved))]


def _is_older(path: Path, other: Path) -> bool:
    mine, others = modified_ns(path), modified_ns(other)
    return mine is not None and others is not None and mine <= others


def _without_recovered(paths: Iterable[Path]) -> list[Path]:
    found = list(paths)
    recovered = {recovered_of(path) for path in found}
    return [path for path in found if path not in recovered]


def _find(path: Path, growing: bool) -> list[Path]:
    if isinstance(path, RemotePath):
        found = recordings_at(path, SUFFIX)
        if not found:
            raise FileNotFoundError(f"there is no recording {path}, and none in a folder of that name")
    elif path.is_dir():
        found = _in_folder(path)
        if not found:
            raise FileNotFoundError(f"the folder {path} has no recording: {_what_is_in(path)}")
    elif path.exists():
        return [path]
    else:
        matches = [Path(name) for name in glob(os.fspath(path), recursive=True)]
        found = [file for match in matches for file in (_in_folder(match) if match.is_dir() else [match])]
        if not found:
            raise FileNotFoundError(f"there is no recording {path}")
    return (_without_recovered if growing else without_damaged)(by_name(found))


def _in_folder(folder: Path) -> list[Path]:
    return [item for item in folder.rglob(f"*{SUFFIX}") if not item.is_dir()]


def _what_is_in(folder: Path) -> str:
    bags = sorted(item.name for item in folder.rglob("*.db3"))
    if bags:
        return f"{bags[0]} is a bag of ROS 2 in SQLite. {CONVERT}"
    packed = sorted(item.name for item in folder.rglob(f"*{SUFFIX}.*"))
    if packed:
        return f"{packed[0]} is compressed as a whole; decompress it first"
    return f"no file whose name ends in {SUFFIX}"
