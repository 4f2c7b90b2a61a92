"""Folders below a folder, and nothing outside of it: no `..`, no symbolic link, no other file system.

The system resolves such a path itself (openat2, Linux 5.6). Where that call is blocked, as by the seccomp filter of an
older container, the path is walked name by name with O_NOFOLLOW. Both ways open the same and refuse the same.
"""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from functools import cache
from typing import Final

from rtmw.disk import Disk
from rtmw.transfer.errors import TransferRefused

__all__ = ["STAGING", "open_folder", "split", "system_resolves"]

STAGING: Final = ".rtmw"
"""The folder for what has not arrived whole, in the folder of an inbox."""

_OPENAT2: Final = 437
"""Number of the system call, which is the same on all architectures of Linux."""
_WORKING_FOLDER: Final = -100
"""AT_FDCWD."""
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 1, 2, 4, 8
FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LONGEST_NAME: Final = 255


class _How(ctypes.Structure):
    """`struct open_how` of <linux/openat2.h>."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def split(destination: str) -> tuple[str, ...]:
    """Return the names of a path below a folder. Raises TransferRefused: it leads out of it, or no file can have it."""
    names = tuple(destination.split("/"))
    for name in names:
        if name in ("", ".", ".."):
            raise TransferRefused(
                f"the destination {destination!r} is refused: it has to be a path below the receiver's folder, as "
                f"'in/run.mcap', without empty names, '.' and '..'"
            )
        if "\0" in name or len(os.fsencode(name)) > _LONGEST_NAME:
            raise TransferRefused(
                f"the destination {destination!r} is refused: a name in it is longer than {_LONGEST_NAME} bytes, or "
                "has a zero byte"
            )
    if names[0] == STAGING:
        raise TransferRefused(f"the destination {destination!r} is refused: {STAGING!r} is kept for rtmw; rename it")
    return names


@cache
def system_resolves() -> bool:
    """Is openat2 there, and allowed?"""
    try:
        os.close(_openat2(_WORKING_FOLDER, "."))
    except OSError:
        return False
    return True


def _openat2(folder: int, path: str) -> int:
    how = _How(FOLDER_FLAGS, 0, _NO_XDEV | _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH)
    system = ctypes.CDLL(None, use_errno=True)
    system.syscall.restype = ctypes.c_long
    found = system.syscall(
        ctypes.c_long(_OPENAT2), ctypes.c_int(folder), os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how)
    )
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return int(found)


def _walk(folder: int, names: tuple[str, ...]) -> int:
    device, descriptor = os.fstat(folder).st_dev, os.dup(folder)
    for name in names:
        try:
            below = os.open(name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
        if os.fstat(descriptor).st_dev != device:
            os.close(descriptor)
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
    return descriptor


def open_folder(folder: int, names: tuple[str, ...], disk: Disk | None = None, *, by_system: bool | None = None) -> int:
    """Return a descriptor of the folder with this path below `folder`; the caller closes it.

    `disk`: folders that are not there are made, durably; without it, FileNotFoundError. `by_system`: None takes openat2
    if it is there. Raises TransferRefused: something on the way is no folder, or leads elsewhere; OSError.
    """
    by_system = system_resolves() if by_system is None else by_system
    try:
        if not names:
            return os.dup(folder)
        return _openat2(folder, "/".join(names)) if by_system else _walk(folder, names)
    except FileNotFoundError:
        if disk is None:
            raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV):
            raise TransferRefused(
                f"the path {'/'.join(names)!r} is refused: a part of it is a symbolic link, a file, or a mount point, "
                "and so it leads out of the receiver's folder; make it a folder"
            ) from None
        raise
    above = open_folder(folder, names[:-1], disk, by_system=by_system)
    try:
        _make(names[-1], above, disk)
    finally:
        os.close(above)
    return open_folder(folder, names, None, by_system=by_system)


def _make(name: str, above: int, disk: Disk) -> None:
    with suppress(FileExistsError):  # another transfer was faster, and may not have made it durable yet
        disk.make_folder(name, above)
    disk.sync(above)
