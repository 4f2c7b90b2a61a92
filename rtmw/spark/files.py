"""Which files a path of Spark's stands for."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from rtmw.recording.paths import SUFFIX, by_name, recovered_of, without_damaged


def recordings_of(paths: Iterable[str], *, growing: bool = False) -> list[Path]:
    """The recordings that paths stand for, each once, by name; a folder stands for those in it, however deep.

    A recovered recording stands for the damaged one beside it; not for who followed that as it grew, and goes on.
    Raises FileNotFoundError for a path that stands for none.
    """
    found: dict[Path, None] = {}
    for path in paths:
        files = by_name(_files_of(_local(path)))
        files = _without_recovered(files) if growing else without_damaged(files)
        if not files:
            raise FileNotFoundError(f"no recording: {path!r} is no file, no folder of {SUFFIX} files, and matches none")
        found |= dict.fromkeys(files)
    return [*found]


def is_there(path: str) -> bool:
    """Does it stand for a recording as it is? Then its commas are of a name, and not between several paths."""
    return any(_files_of(_local(path)))


def _without_recovered(files: list[Path]) -> list[Path]:
    recovered = {recovered_of(file) for file in files}
    return [file for file in files if file not in recovered]


def _local(path: str) -> str:
    """Without the `file:` that Spark's users may write."""
    return path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:")


def _files_of(path: str) -> Iterator[Path]:
    matches = [path] if os.path.exists(path) else glob.glob(path, recursive=True)
    for match in map(Path, matches):
        if match.is_dir():
            yield from (file.absolute() for file in match.rglob(f"*{SUFFIX}") if file.is_file())
        else:
            yield match.absolute()
