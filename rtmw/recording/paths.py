"""Which files are meant: a recording, several, a pattern, or a folder of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from glob import glob
from pathlib import Path
from typing import Final

from rtmw.errors import RecordingError
from rtmw.recording.header import CONVERT
from rtmw.recording.places import RemotePath, modified_ns, place, recordings_at

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
