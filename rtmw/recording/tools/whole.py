"""Files that are there as a whole, or not at all: written under another name, and renamed when they are complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rtmw.disk import DISK, Disk
from rtmw.recording.places import RemotePath, send

STANDARD_OUTPUT: Final = "-"


@contextmanager
def written_whole(path: Path, *, replace: bool = False, disk: Disk = DISK) -> Generator[Path]:
    """The name to write under meanwhile, a file or a folder beside `path`; nothing is left of it after an error.

    A file is on the disk before it has its name. Of a folder the name alone is made durable.
    Raises FileExistsError where `path` exists, before and after, unless it is to be replaced, FileNotFoundError for
    a folder that is not there, and for `-`.
    """
    if isinstance(path, RemotePath):
        with _sent_whole(path, replace) as temporary:
            yield temporary
        return
    refuse_standard_output(path)
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
        if temporary.is_file():
            disk.sync_file(temporary)
        disk.rename(str(temporary), None, str(path), None)
        disk.sync_folder(path.parent)
    finally:
        _remove(temporary)


@contextmanager
def _sent_whole(path: RemotePath, replace: bool) -> Generator[Path]:
    """Writes to a remote place: the file or folder is made on this host, then sent. Each file of a folder appears as
    a whole."""
    if not replace:
        _refuse(path)
    with TemporaryDirectory(prefix="rtmw-send-") as folder:
        temporary = Path(folder) / path.name
        yield temporary
        if not replace:
            _refuse(path)
        for file in sorted(temporary.rglob("*")) if temporary.is_dir() else [temporary]:
            if file.is_file():
                send(file, path.joinpath(*file.relative_to(temporary).parts))


def refuse_standard_output(path: Path) -> None:
    """What is there as a whole or not at all is a file, and `-` is meant to be none. Raises FileNotFoundError."""
    if str(path) == STANDARD_OUTPUT:
        raise FileNotFoundError("this is not written to standard output: name a file instead of -")


def _refuse(path: Path) -> None:
    if path.exists() or (not isinstance(path, RemotePath) and path.is_symlink()):
        raise FileExistsError(f"{path} exists: name another one, or remove it")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
