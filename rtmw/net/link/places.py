"""Places of `[link]` where a node listens, over TCP or at a Unix socket of this host.

At a Unix socket the kernel says which user is at the other end (SO_PEERCRED): such a link needs no keys, and everybody
who reaches the file may connect. Its rules are those for `uid:NUMBER`.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from typing import Final

from rtmw.disk import DISK
from rtmw.locks import FileLock
from rtmw.net.process import NodeError
from rtmw.net.session.sockets import BACKLOG
from rtmw.text.addresses import place_to_listen, unix_path

_EVERYBODY: Final = 0o666
"""The rules say who may do what; the mode of its folder says who reaches the file."""


class Listening:
    """A socket that listens, and, of a Unix socket, its file. Not for several threads."""

    def __init__(self, place: str, setting: str = "[link] listen") -> None:
        """`setting`: which one says it. Raises NodeError where that cannot be listened."""
        self._path, self._lock = unix_path(place), None
        try:
            if self._path is None:
                self.socket = _bound(place)
            else:
                self._lock = _lock_of(self._path)
                self.socket = _bound_to_file(self._path)
            self._inode = os.lstat(self._path).st_ino if self._path else 0
        except (OSError, NodeError) as error:
            if self._lock is not None:
                self._lock.close()
            words = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
            raise NodeError(f"{setting}: {place} cannot be had: {words}") from error
        self.socket.listen(BACKLOG)
        self.socket.setblocking(False)

    @property
    def port(self) -> int:
        """0: it has none."""
        return 0 if self._path else int(self.socket.getsockname()[1])

    @property
    def is_there(self) -> bool:
        """Can it be reached? The file of a Unix socket may have been removed."""
        try:
            return not self._path or os.lstat(self._path).st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        """Idempotent. The file goes, unless another one has its name by now."""
        self.socket.close()
        if self._path is None or self._lock is None:
            return
        with suppress(OSError):
            if os.lstat(self._path).st_ino == self._inode:
                os.unlink(self._path)
        self._lock.close()
        self._lock = None


def _bound(place: str) -> socket.socket:
    host, port = place_to_listen(place)
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    return listening


def _check(path: str) -> None:
    why = why_not(path)
    if why:
        raise NodeError(why)


def _lock_of(path: str) -> FileLock:
    """Takes the lock of the file beside a socket, and returns it. If two nodes find a socket without an owner, only the
    one with the lock replaces it. The file stays. Raises NodeError if another node has the lock."""
    _check(path)
    lock = FileLock(DISK.create(f"{path}.lock", None, os.O_RDWR, 0o600))
    if not lock.take():
        lock.close()
        raise NodeError("another node begins to listen there")
    return lock


def _bound_to_file(path: str) -> socket.socket:
    """The lock is held."""
    _check(path)
    with suppress(FileNotFoundError):
        os.unlink(path)  # of a program that was killed
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(path)
        os.chmod(path, _EVERYBODY)  # before anybody is accepted
    except OSError:
        listening.close()
        raise
    return listening


def why_not(path: str) -> str:
    """Why no Unix socket can be made here; empty: it can, in place of one whose owner is gone."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"this user may not write to {folder}"
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return "a file that is no socket has this name"
        return "another program listens there" if _is_alive(path) else ""
    return ""


def _is_alive(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:  # its queue is full, or it is of another kind
            return True
        return True
