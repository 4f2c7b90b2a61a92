"""Which files a path stands for."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

SUFFIX = ".mcap"


def recordings_of(paths: Iterable[str]) -> list[Path]:
    """The recordings that paths stand for, each once, by name; a folder stands for those in it, however deep.

    Raises FileNotFoundError for a path that stands for none.
    """
    found: dict[Path, None] = {}
    for path in paths:
        files = sorted(_files_of(_local(path)))
        if not files:
            raise FileNotFoundError(f"no recording: {path!r} is no file, no folder of {SUFFIX} files, and matches none")
        found |= dict.fromkeys(files)
    return [*found]


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
