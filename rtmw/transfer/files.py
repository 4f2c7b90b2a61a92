"""Files of transfers (T4, T9): read where they lie, written in place, seen by nobody before they are whole.

`Source` is a file that is sent: it is read where it lies, and notices if it changes meanwhile.

Paths of receivers lead to folders below a folder, and nothing outside of it: no `..`, no symbolic link, no other file
system. The system resolves such a path itself (openat2, Linux 5.6). Where that call is blocked, as by the seccomp
filter of an older container, the path is walked name by name with O_NOFOLLOW. Both ways open the same and refuse the
same.

`StagedFiles` are where the files of one transfer arrive: unseen until all are whole, then visible at one moment.

    .rtmw/NAME.part         a FILE: renamed to its destination
    .rtmw/NAME.parts/…      the files of a composite, each at its destination: the folder is renamed to NAME

One rename is the only thing that a file system does at one moment for several files. So those of a composite get a
folder of their own, which has the name of the transfer. Before the rename all bytes and all names are on the disk. So a
crash leaves what was there before, or what is whole. A file that is there already is never replaced by one with other
bytes: nobody loses what another sender has sent.

No network and no log is in here. docs/design/transfer.md has the reasons.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final

from rtmw.closing import Closing
from rtmw.disk import DISK, Disk
from rtmw.transfer.errors import SourceChanged, TransferRefused

__all__ = ["STAGING", "Fingerprint", "Folder", "Source", "StagedFiles", "open_folder", "split", "system_resolves"]


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


_LAYOUT: Final = Struct("<QQQqq")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The attributes of a file that differ when a program has written to it, cut it, or put another one in its place.

    Times of a file go on in steps of the system's clock, up to 10 ms: what is written within the step in which a
    program sends it is not told from what was there before.
    """

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int
    """When its content, owner, mode or number of names changed last; unlike `modified_ns`, no program can set it."""

    @classmethod
    def of(cls, descriptor: int) -> Fingerprint:
        found = os.fstat(descriptor)
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def pack(self) -> bytes:
        return _LAYOUT.pack(*astuple(self))

    @classmethod
    def unpack(cls, data: bytes) -> Fingerprint:
        return cls(*_LAYOUT.unpack(data))


class Source(Closing):
    """An open file. `expected`: as it was when it was accepted for sending, None: as it is now.

    Raises TransferRefused: it cannot be read, or is no regular file; SourceChanged.
    """

    def __init__(self, path: str, expected: Fingerprint | None = None) -> None:
        self._path, self._descriptor = path, -1
        try:
            # Without O_NONBLOCK, opening a pipe would wait for its writer.
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except FileNotFoundError:
            if expected is not None:
                raise SourceChanged(f"{path!r} is not there any more; send it again when it is back") from None
            raise TransferRefused(f"{path!r} cannot be sent: there is no such file") from None
        except OSError as error:
            raise TransferRefused(f"{path!r} cannot be sent: {error.strerror}") from None
        try:
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                raise TransferRefused(f"{path!r} cannot be sent: it is no regular file")
            self.fingerprint = expected or Fingerprint.of(self._descriptor)
            self.check()
        except BaseException:
            self.close()
            raise

    @property
    def size(self) -> int:
        return self.fingerprint.size

    def check(self) -> None:
        """Raises SourceChanged: the file is not as it was accepted."""
        now = Fingerprint.of(self._descriptor)
        if now != self.fingerprint:
            what = f"from {self.size} to {now.size} bytes" if now.size != self.size else "its content or owner"
            raise SourceChanged(f"{self._path!r} was changed while it was being sent ({what}); send it again")

    def read(self, position: int, size: int) -> bytes:
        """Read these bytes of the file that was accepted. Raises SourceChanged, TransferError for a bad disk."""
        parts: list[bytes] = []
        while size > 0:
            part = os.pread(self._descriptor, size, position)
            if not part:
                self.check()
                raise SourceChanged(f"{self._path!r} ends at {position}, before its {self.size} bytes; send it again")
            parts.append(part)
            position, size = position + len(part), size - len(part)
        self.check()  # behind the reads: what was written before them has changed the times by now
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


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
