"""Which files a path of Spark's stands for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from glob import glob
from pathlib import Path

from rtmw.recording.files import find_recordings


def recordings_of(paths: Iterable[str], *, growing: bool = False) -> list[Path]:
    """Returns what `find_recordings` does, as absolute paths: they mean the same file in each task. Raises
    FileNotFoundError."""
    return [path.absolute() for path in find_recordings(map(local, paths), growing=growing)]


def is_there(path: str) -> bool:
    """Does it stand for a file or folder as it is? Then its commas are of a name, and not between several paths."""
    return os.path.exists(local(path)) or bool(glob(local(path), recursive=True))


def local(path: str) -> str:
    """Returns the path without the `file:` that Spark's users may write."""
    return path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:")
