"""Which files are meant: a recording, several, a pattern, or a folder of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from glob import glob
from pathlib import Path
from typing import Final

from rtmw.errors import RecordingError

SUFFIX: Final = ".mcap"
RECOVERED: Final = ".recovered.mcap"
"""How the name ends of what was made of a damaged recording, and lies beside it."""

Source = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A file, a folder, a pattern such as `day-*.mcap`, or several of these."""


def find_recordings(source: Source) -> list[Path]:
    """The files, each once, in the order of their names within a folder or pattern. Raises FileNotFoundError.

    There, a recovered recording stands for the damaged one beside it.
    """
    given = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    if not given:
        raise FileNotFoundError("no recording was named")
    return list(dict.fromkeys(path for item in given for path in _find(Path(item))))


def find_recording(source: str | os.PathLike[str]) -> Path:
    """The only one that is meant. Raises FileNotFoundError, RecordingError for several."""
    found = find_recordings(source)
    if len(found) > 1:
        raise RecordingError(f"{os.fspath(source)} has {len(found)} recordings: name one of them, such as {found[0]}")
    return found[0]


def by_name(paths: Iterable[Path]) -> list[Path]:
    """In the order of their names, run_2 before run_10."""
    return sorted(paths, key=lambda path: (path.parent, _parts(path.name)))


def _parts(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def recovered_of(path: Path) -> Path:
    """Where that is which `rtmw recording recover` makes of a recording."""
    return path.with_name(path.name.removesuffix(SUFFIX) + RECOVERED)


def without_damaged(paths: Iterable[Path]) -> list[Path]:
    """Leaves out what was recovered, unless it has been written since: that would be another recording."""
    found = {path: None for path in paths}
    return [path for path in found if not ((saved := recovered_of(path)) in found and _is_older(path, saved))]


def _is_older(path: Path, other: Path) -> bool:
    return path.stat().st_mtime_ns <= other.stat().st_mtime_ns


def _find(path: Path) -> list[Path]:
    if path.is_dir():
        found = [item for item in path.iterdir() if item.suffix == SUFFIX]
        if not found:
            raise FileNotFoundError(f"the folder {path} has no recording: {_what_is_in(path)}")
        return without_damaged(by_name(found))
    if path.exists():
        return [path]
    found = [Path(name) for name in glob(os.fspath(path))]
    if not found:
        raise FileNotFoundError(f"there is no recording {path}")
    return without_damaged(by_name(found))


def _what_is_in(folder: Path) -> str:
    packed = sorted(item.name for item in folder.iterdir() if f"{SUFFIX}." in item.name)
    if packed:
        return f"{packed[0]} is compressed as a whole; decompress it first"
    return f"no file whose name ends in {SUFFIX}"
