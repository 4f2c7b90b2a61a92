"""Where the files of one transfer arrive: unseen until all are whole, then visible at one moment.

    .rtmw/NAME.part         a FILE: renamed to its destination
    .rtmw/NAME.parts/…      the files of a composite, each at its destination: the folder is renamed to NAME

One rename is the only thing that a file system does at one moment for several files. So those of a composite get a
folder of their own, which has the name of the transfer.

Before the rename all bytes and all names are on the disk. So a crash leaves what was there before, or what is whole.
A file that is there already is never replaced by one with other bytes: nobody loses what another sender has sent.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from rtmw.closing import Closing
from rtmw.disk import DISK, Disk
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.files.beneath import FOLDER_FLAGS, STAGING, open_folder, split

__all__ = ["Folder", "StagedFiles"]

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK: Final = 1 << 20
_AT_ONCE: Final = 256 << 10
"""Bytes of one write: for a larger one the page cache takes larger pages, which a virtual machine may lack yet."""
_NO_FOLDER: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM)


class Folder(Closing):
    """The folder of an inbox, open. Raises TransferRefused: it is not there, no folder, or not for this user; OSError:
    it cannot be opened now."""

    def __init__(self, path: str | os.PathLike[str], disk: Disk = DISK) -> None:
        self.path, self.disk, self.descriptor = Path(path), disk, -1
        try:
            self.descriptor = os.open(self.path, FOLDER_FLAGS)
        except OSError as error:
            if error.errno not in _NO_FOLDER:
                raise
            raise TransferRefused(f"the receiver's folder {self.path} cannot be used: {error.strerror}") from None

    def staging(self) -> int:
        """Return a descriptor of the folder for files that have not arrived whole; the caller closes it."""
        with suppress(FileExistsError):
            self.disk.make_folder(STAGING, self.descriptor, 0o700)
        self.disk.sync(self.descriptor)
        return open_folder(self.descriptor, (STAGING,), self.disk)

    def free(self) -> int:
        """Return the bytes that this user may still write here."""
        found = os.fstatvfs(self.descriptor)
        return found.f_bavail * found.f_frsize

    def sweep(self, keep: set[str]) -> int:
        """Remove files that a crash has left, and that no transfer of these names needs; return how many."""
        try:
            staging = open_folder(self.descriptor, (STAGING,))
        except FileNotFoundError:
            return 0
        try:
            old = [name for name in os.listdir(staging) if name.rpartition(".part")[0] not in keep]
            for name in old:
                _remove(name, staging, self.disk)
        finally:
            os.close(staging)
        return len(old)

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class StagedFiles(Closing):
    """The files of one transfer, written one after the other. OSError: the disk is full, or has failed.

    `name`: that of the transfer, which no other one has. `is_composite`: the files become visible in a folder of this
    name. Raises TransferRefused: a destination leads out of the folder, or two are the same.
    """

    def __init__(self, folder: Folder, name: str, destinations: Sequence[str], *, is_composite: bool) -> None:
        self._folder, self._disk, self._name = folder, folder.disk, name
        self._is_composite = is_composite
        self._paths = tuple(split(destination) for destination in destinations)
        _check_distinct(self._paths)
        self._entry = f"{name}.parts" if is_composite else f"{name}.part"
        self._new: set[tuple[str, ...]] = set()
        """Folders, from the staging folder on, with names in them that are not durable yet."""
        self._index = self._file = -1
        self._staging = folder.staging()

    def paths(self) -> tuple[Path, ...]:
        """Return where the files are when they are visible."""
        base = self._folder.path / self._name if self._is_composite else self._folder.path
        return tuple(base.joinpath(*path) for path in self._paths)

    def check_free(self, size: int) -> None:
        """Check the place of a FILE before any byte comes. Raises TransferRefused: another file or folder is there."""
        if self._is_composite:
            return
        above, leaf = self._paths[0][:-1], self._paths[0][-1]
        try:
            parent = open_folder(self._folder.descriptor, above)
        except FileNotFoundError:
            return
        try:
            found = os.stat(leaf, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return
        finally:
            os.close(parent)
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            raise self._taken()

    # ---- arriving ----

    def write(self, index: int, position: int, data: bytes | memoryview) -> None:
        """Write bytes of a file; files come one after the other. An empty file is made by writing nothing."""
        self._turn_to(index)
        rest = memoryview(data)
        for at in range(0, len(rest), _AT_ONCE):
            self._disk.write_all(self._file, (rest[at : at + _AT_ONCE],), position + at)

    def read(self, index: int, position: int, size: int) -> bytes:
        """Return bytes that were written, for a comparison with the sender's hash; fewer, if fewer are there."""
        self._turn_to(index)
        return os.pread(self._file, size, position)

    def sync(self) -> None:
        """Make all durable that was written."""
        if self._file >= 0:
            self._disk.sync(self._file)
        self._sync_names()

    def written(self) -> list[int]:
        """Return the descriptor of the file whose bytes may not be durable; the names of all files are."""
        self._sync_names()
        return [self._file] if self._file >= 0 else []

    def _sync_names(self) -> None:
        for path in sorted(self._new, key=len, reverse=True):
            folder = open_folder(self._staging, path)
            try:
                self._disk.sync(folder)
            finally:
                os.close(folder)
        self._new.clear()

    def cut(self, index: int, size: int) -> None:
        """Drop the bytes behind this position: they were not durable."""
        self._turn_to(index)
        self._disk.cut(self._file, size)

    def _turn_to(self, index: int) -> None:
        if index == self._index:
            return
        self._leave()
        above, leaf = self._place(index)
        folder = open_folder(self._staging, above, self._disk)
        try:
            self._file = self._disk.create(leaf, folder, os.O_RDWR)
        finally:
            os.close(folder)
        self._index = index
        self._new |= {above[:length] for length in range(len(above) + 1)}

    def _place(self, index: int) -> tuple[tuple[str, ...], str]:
        """Return the folder of a file, from the staging folder on, and its name."""
        if not self._is_composite:
            return (), self._entry
        path = self._paths[index]
        return (self._entry, *path[:-1]), path[-1]

    def _leave(self) -> None:
        """Close the file that was open, which is whole; its bytes are durable then."""
        file, self._file, self._index = self._file, -1, -1
        if file >= 0:
            try:
                self._disk.sync(file)
            finally:
                os.close(file)

    # ---- visible ----

    def make_visible(self) -> bool:
        """Make all files visible and durable. False: they were already, before a crash.

        Raises TransferRefused: something else is in the way, and stays; nothing is visible then.
        """
        self.sync()
        self._leave()
        if self._is_composite:
            return self._rename(self._disk.rename, self._folder.descriptor, self._name)
        above, leaf = self._paths[0][:-1], self._paths[0][-1]
        parent = open_folder(self._folder.descriptor, above, self._disk)
        try:
            try:
                return self._rename(self._disk.rename_new, parent, leaf)
            except FileExistsError:
                if not self._is_there(parent, leaf):
                    raise self._taken() from None
                return self._rename(self._disk.rename, parent, leaf)
        finally:
            os.close(parent)

    def _is_there(self, parent: int, name: str) -> bool:
        """Are these bytes there already, after a crash that lost a NORMAL transfer, or from another sender?"""
        if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            return False
        with (
            open(os.open(name, _READ, dir_fd=parent), "rb") as old,
            open(os.open(self._entry, _READ, dir_fd=self._staging), "rb") as new,
        ):
            return _are_same(old, new)

    def _taken(self) -> TransferRefused:
        return TransferRefused(
            f"{'/'.join(self._paths[0])!r} is in {self._folder.path} already, with other bytes, and is not replaced; "
            "choose another destination, or let its receiver put that one elsewhere"
        )

    def _rename(self, rename: Callable[[str, int, str, int], None], parent: int, name: str) -> bool:
        try:
            rename(self._entry, self._staging, name, parent)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno == errno.EEXIST and not self._is_composite:
                raise
            if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST, errno.EXDEV):
                raise TransferRefused(
                    f"{name!r} cannot be put into {self._folder.path}: a folder, or another file system, is in its "
                    f"place ({error.strerror}); choose another destination"
                ) from None
            raise
        self._disk.sync(parent)
        self._disk.sync(self._staging)
        return True

    def discard(self) -> None:
        """Removes the files; nothing of them was visible."""
        file, self._file, self._index = self._file, -1, -1
        if file >= 0:
            os.close(file)
        self._new.clear()
        _remove(self._entry, self._staging, self._disk)

    def close(self) -> None:
        descriptors, self._file, self._staging = (self._file, self._staging), -1, -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)


def _are_same(old: BinaryIO, new: BinaryIO) -> bool:
    if os.fstat(old.fileno()).st_size != os.fstat(new.fileno()).st_size:
        return False
    while block := new.read(_BLOCK):
        if old.read(_BLOCK) != block:
            return False
    return True


def _check_distinct(paths: tuple[tuple[str, ...], ...]) -> None:
    """No file is where another one, or its folder, has to be."""
    known = set(paths)
    twice = len(known) < len(paths)
    above = next((path for path in paths for length in range(1, len(path)) if path[:length] in known), None)
    if twice or above:
        names = ", ".join("/".join(path) for path in paths[:8])
        raise TransferRefused(f"two parts of the composite have one destination, or one lies below another: {names}")


def _remove(name: str, folder: int, disk: Disk) -> None:
    """Remove a file, or a folder with all in it, if it is there; symbolic links are not followed."""
    try:
        disk.remove(name, folder)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        below = os.open(name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
        try:
            for entry in os.listdir(below):
                _remove(entry, below, disk)
        finally:
            os.close(below)
        disk.remove_folder(name, folder)
