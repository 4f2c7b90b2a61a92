"""Files that are there as a whole, or not at all: written under another name, and renamed when they are complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path, *, replace: bool = False) -> Generator[Path]:
    """The name to write under meanwhile, a file or a folder beside `path`; nothing is left of it after an error.

    Raises FileExistsError where `path` exists, before and after, unless it is to be replaced.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}")
    if not replace:
        _refuse(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    _remove(temporary)
    try:
        yield temporary
        if not replace:
            _refuse(path)
        temporary.rename(path)
        sync_folder(path.parent)
    finally:
        _remove(temporary)


def _refuse(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists: name another one, or remove it")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """So that the name survives a loss of power, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
