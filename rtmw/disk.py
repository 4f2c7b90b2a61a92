"""The calls that change files and folders, as one seam, and the few ways to write durably that are built on them.

Whatever of Python writes durably takes a `Disk`. Tests put one in place that writes short, is full, fails, or ends at a
call (tests/disks.py). The durable log is written in C, and has the same seam there (rtmw/log/io.h); what a recorder
writes comes from C as whole chunks, and is written here (rtmw/recording/writer.py).
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["DISK", "Disk"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_REPLACE: Final = 1
"""RENAME_NOREPLACE"""
_PARTS_MOST: Final = 1024
"""Parts that Linux takes in one call (IOV_MAX)."""


class Disk:
    """Names are those of an entry of a folder, which is an open descriptor; None: they are paths. Raises OSError.

    Any number of threads. Each of these blocks until the disk has answered.
    """

    # ---- calls ----

    def create(self, name: str, folder: int | None, flags: int, mode: int = 0o666) -> int:
        """A descriptor of a file; it is made if it is not there, and a symbolic link is not followed."""
        return os.open(name, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)

    def make_folder(self, name: str, folder: int | None, mode: int = 0o777) -> None:
        os.mkdir(name, mode, dir_fd=folder)

    def write_some(self, descriptor: int, parts: Sequence[memoryview], position: int) -> int:
        """How many bytes of the parts, one behind the other, were written: at least one, if there is one."""
        return os.pwritev(descriptor, parts, position)

    def cut(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Writes a file to the disk (fsync), or a folder with the names in it."""
        os.fsync(descriptor)

    def sync_data(self, descriptor: int) -> None:
        """Writes a file's data to the disk (fdatasync), with the metadata that readers need, such as its size. The
        times of the file may be older."""
        os.fdatasync(descriptor)

    def rename(self, old: str, old_folder: int | None, new: str, new_folder: int | None) -> None:
        """Renames a file. A file that has the new name already is replaced atomically."""
        os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)

    def rename_new(self, old: str, old_folder: int, new: str, new_folder: int) -> None:
        """Renames a file, unless the new name is taken: FileExistsError. On a file system without such a call (NFS),
        a file that another program makes at the new name at this moment is replaced."""
        if _renamed_new(old, old_folder, new, new_folder):
            return
        os.stat(old, dir_fd=old_folder, follow_symlinks=False)
        with suppress(FileNotFoundError):
            os.stat(new, dir_fd=new_folder, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
        os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)

    def remove(self, name: str, folder: int | None) -> None:
        os.unlink(name, dir_fd=folder)

    def remove_folder(self, name: str, folder: int | None) -> None:
        os.rmdir(name, dir_fd=folder)

    # ---- built on these ----

    def write_all(self, descriptor: int, parts: Sequence[bytes | bytearray | memoryview], position: int) -> None:
        """The parts, one behind the other, from this position on. After an error some of it may be written."""
        left = [memoryview(part).cast("B") for part in parts if len(part)]
        try:
            while left:
                written = self.write_some(descriptor, left[:_PARTS_MOST], position)
                position += written
                while left and written >= len(left[0]):
                    written -= len(left[0])
                    left.pop(0).release()
                if written:
                    left[0] = left[0][written:]
        finally:
            for part in left:
                part.release()

    def write_new(self, name: str, folder: int, data: bytes | bytearray, mode: int = 0o666) -> None:
        """A new file, durable with its name when this returns; nothing remains after an error. FileExistsError."""
        descriptor = self.create(name, folder, os.O_WRONLY | os.O_EXCL, mode)
        try:
            try:
                self.write_all(descriptor, (data,), 0)
                self.sync(descriptor)
            finally:
                os.close(descriptor)
            self.sync(folder)
        except (Exception, KeyboardInterrupt):
            with suppress(OSError):  # a disk that has failed: the first error says why
                self.remove(name, folder)
            raise

    def replace(self, path: Path, data: bytes | bytearray, mode: int = 0o666) -> None:
        """The file has this content, or after an error the one before; durable when this returns."""
        folder, temporary = os.open(path.parent, _FOLDER), f".{path.name}.{os.getpid()}.partial"
        try:
            with suppress(FileNotFoundError):  # of a process that was killed
                self.remove(temporary, folder)
            self.write_new(temporary, folder, data, mode)
            try:
                self.rename(temporary, folder, path.name, folder)
            except (Exception, KeyboardInterrupt):
                with suppress(OSError):
                    self.remove(temporary, folder)
                raise
            self.sync(folder)
        finally:
            os.close(folder)

    def sync_file(self, path: Path) -> None:
        """All that programs have written to this file is on the disk when this returns; its name need not be."""
        self._sync_opened(path, os.O_RDONLY | os.O_CLOEXEC)

    def sync_folder(self, path: Path) -> None:
        """The names in this folder are on the disk when this returns."""
        self._sync_opened(path, _FOLDER)

    def make_folders(self, path: Path) -> None:
        """The folder, and those above it; each new name is durable when this returns."""
        for folder in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
            with suppress(FileExistsError):
                self.make_folder(str(folder), None)
            self.sync_folder(folder.parent)

    def _sync_opened(self, path: Path, flags: int) -> None:
        descriptor = os.open(path, flags)
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """None: the C library has none."""
    found: Callable[[int, bytes, int, bytes, int], int] | None
    found = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    return found


def _renamed_new(old: str, old_folder: int, new: str, new_folder: int) -> bool:
    """Renames a file by renameat2 (Linux 3.15, glibc 2.28). False: the call does not exist, or not for this file
    system."""
    call = _renameat2()
    if call is None:
        return False
    if call(old_folder, os.fsencode(old), new_folder, os.fsencode(new), _NO_REPLACE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number), old, None, new)


DISK: Final = Disk()
"""This host's."""
