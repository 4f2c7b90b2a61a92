"""Folders for the time of a program, under TMPDIR; those that a killed program has left are removed by the next one.

The owner holds a lock of the kernel on a file in its folder, which ends with the process however it ends.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from rtmw.locks import FileLock

_LOCK, _NEW = "owner", "new owner"


@contextmanager
def own_folder(prefix: str) -> Generator[Path]:
    """A new folder that only this user may enter, removed at the end. Those of the prefix without an owner go first."""
    _sweep(prefix)
    folder = Path(mkdtemp(prefix=prefix))
    lock = FileLock(os.open(folder / _NEW, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    lock.take()
    (folder / _NEW).rename(folder / _LOCK)  # under this name only when it is locked: others look for it
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def _sweep(prefix: str) -> None:
    for folder in Path(gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):  # of another user, or another program is just removing it
            if folder.lstat().st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink():
                _remove_unowned(folder)


def _remove_unowned(folder: Path) -> None:
    """A folder without its file is just being made, or removed by its owner: it is left alone (FileNotFoundError)."""
    with FileLock(os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)) as lock:
        if lock.take():
            shutil.rmtree(folder, ignore_errors=True)
