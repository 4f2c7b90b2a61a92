"""Disks with faults: one that ends at a call, as a process that is killed; one that is full; one that takes notes."""

from __future__ import annotations

import errno
import os
from typing import Any

from rtmw.transfer.files.disk import Disk


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

    def create(self, name: str, folder: int, flags: int, mode: int = 0o666) -> int:
        self._count("create", name)
        return super().create(name, folder, flags, mode)

    def make_folder(self, name: str, folder: int, mode: int = 0o777) -> None:
        self._count("make_folder", name)
        super().make_folder(name, folder, mode)

    def write(self, descriptor: int, data: bytes | memoryview, position: int) -> None:
        self._count("write", _path(descriptor))
        super().write(descriptor, data, position)

    def cut(self, descriptor: int, size: int) -> None:
        self._count("cut", _path(descriptor))
        super().cut(descriptor, size)

    def sync(self, descriptor: int) -> None:
        self._count("sync", _path(descriptor))

    def rename(self, old: str, old_folder: int, new: str, new_folder: int) -> None:
        self._count("rename", f"{_path(old_folder)}/{old}")
        super().rename(old, old_folder, new, new_folder)

    def remove(self, name: str, folder: int) -> None:
        self._count("remove", name)
        super().remove(name, folder)

    def remove_folder(self, name: str, folder: int) -> None:
        self._count("remove_folder", name)
        super().remove_folder(name, folder)


def _path(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
