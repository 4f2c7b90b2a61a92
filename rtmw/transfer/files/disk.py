"""The system calls that change a folder. Tests put a `Disk` in place that fails at one of them, or ends there."""

from __future__ import annotations

import os

__all__ = ["Disk"]


class Disk:
    """Names are those of one entry of a folder, which is an open descriptor. Raises OSError."""

    def create(self, name: str, folder: int, flags: int, mode: int = 0o666) -> int:
        """A descriptor of a file; it is made if it is not there, and a symbolic link is not followed."""
        return os.open(name, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)

    def make_folder(self, name: str, folder: int, mode: int = 0o777) -> None:
        os.mkdir(name, mode, dir_fd=folder)

    def write(self, descriptor: int, data: bytes | memoryview, position: int) -> None:
        """All of it."""
        rest = memoryview(data)
        while rest:
            size = os.pwrite(descriptor, rest, position)
            rest, position = rest[size:], position + size

    def cut(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Of a file, or of a folder with the names in it."""
        os.fsync(descriptor)

    def rename(self, old: str, old_folder: int, new: str, new_folder: int) -> None:
        """What had the new name is replaced, at one moment."""
        os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)

    def remove(self, name: str, folder: int) -> None:
        os.unlink(name, dir_fd=folder)

    def remove_folder(self, name: str, folder: int) -> None:
        os.rmdir(name, dir_fd=folder)
