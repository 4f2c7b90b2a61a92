"""Disks with faults: one that ends at a call, as a process that is killed, or is full there; one that writes short; one
that forgets in a power cut what was not synced."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rtmw.disk import Disk


class Killed(BaseException):
    """The process ends here: nothing catches it."""


class Counting(Disk):
    """Counts its calls, and at one of them raises instead. `calls`: name and first argument of each."""

    def __init__(self, at: int = -1, error: BaseException | None = None) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._at, self._error = at, error or Killed()

    def _count(self, what: str, about: object) -> None:
        if len(self.calls) == self._at:
            self._at = -1
            raise self._error
        self.calls.append((what, about))

    def create(self, name: str, folder: int | None, flags: int, mode: int = 0o666) -> int:
        self._count("create", name)
        return super().create(name, folder, flags, mode)

    def make_folder(self, name: str, folder: int | None, mode: int = 0o777) -> None:
        self._count("make_folder", name)
        super().make_folder(name, folder, mode)

    def write_some(self, descriptor: int, parts: Sequence[memoryview], position: int) -> int:
        self._count("write", _path(descriptor))
        return super().write_some(descriptor, parts, position)

    def cut(self, descriptor: int, size: int) -> None:
        self._count("cut", _path(descriptor))
        super().cut(descriptor, size)

    def sync(self, descriptor: int) -> None:
        self._count("sync", _path(descriptor))

    def sync_data(self, descriptor: int) -> None:
        self._count("sync_data", _path(descriptor))

    def rename(self, old: str, old_folder: int | None, new: str, new_folder: int | None) -> None:
        self._count("rename", f"{_path(old_folder)}/{old}")
        super().rename(old, old_folder, new, new_folder)

    def rename_new(self, old: str, old_folder: int, new: str, new_folder: int) -> None:
        self._count("rename", f"{_path(old_folder)}/{old}")
        super().rename_new(old, old_folder, new, new_folder)

    def remove(self, name: str, folder: int | None) -> None:
        self._count("remove", name)
        super().remove(name, folder)

    def remove_folder(self, name: str, folder: int | None) -> None:
        self._count("remove_folder", name)
        super().remove_folder(name, folder)


def _path(descriptor: int | None) -> str:
    return "" if descriptor is None else os.readlink(f"/proc/self/fd/{descriptor}")


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Short(Disk):
    """Takes at most `most` bytes in a call, as a disk that is nearly full, or a signal, makes it."""

    def __init__(self, most: int) -> None:
        self._most = most

    def write_some(self, descriptor: int, parts: Sequence[memoryview], position: int) -> int:
        return os.pwrite(descriptor, parts[0][: self._most], position)


class Forgetful(Counting):
    """Knows what of a folder is not synced, and loses it with `cut_power`. `deaf`: syncs of these do nothing.

    Of files without a sync all that they hold is lost, and of names without one each that was made or replaced.
    """

    def __init__(self, folder: Path, at: int = -1, deaf: str = "") -> None:
        super().__init__(at)
        self._folder, self._deaf = folder, deaf
        self._unsynced = set[tuple[int, int]]()
        """Files, by device and number."""
        self._names = list[tuple[str, str | None, bytes | None]]()
        """Names that are not durable: the new name, the old one, and what had the new one."""

    def create(self, name: str, folder: int | None, flags: int, mode: int = 0o666) -> int:
        descriptor = super().create(name, folder, flags, mode)
        self._names.append((name, None, None))
        return descriptor

    def write_some(self, descriptor: int, parts: Sequence[memoryview], position: int) -> int:
        written = super().write_some(descriptor, parts, position)
        self._unsynced.add(_file(os.fstat(descriptor)))
        return written

    def rename(self, old: str, old_folder: int | None, new: str, new_folder: int | None) -> None:
        path = self._folder / new
        before = path.read_bytes() if path.exists() else None
        super().rename(old, old_folder, new, new_folder)
        self._names.append((new, old, before))

    def remove(self, name: str, folder: int | None) -> None:
        super().remove(name, folder)
        self._names = [row for row in self._names if row[0] != name]

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        found = os.fstat(descriptor)
        is_folder = stat.S_ISDIR(found.st_mode)
        if self._deaf == ("folder" if is_folder else "file"):
            return
        if is_folder:
            self._names.clear()
        self._unsynced.discard(_file(found))

    def cut_power(self, *, content: bool, names: bool) -> None:
        """What was not synced is lost: content of files, names, or both."""
        if content:
            for file in self._folder.iterdir():
                if _file(file.stat()) in self._unsynced:
                    os.truncate(file, 0)
        for name, old, before in reversed(self._names) if names else ():
            if old is None:
                (self._folder / name).unlink(missing_ok=True)
            else:
                (self._folder / name).rename(self._folder / old)
            if before is not None:
                (self._folder / name).write_bytes(before)


def _file(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
