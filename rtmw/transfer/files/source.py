"""A file that is sent: read where it lies, and noticed if it changes meanwhile."""

from __future__ import annotations

import os
import stat
from dataclasses import astuple, dataclass
from struct import Struct
from typing import Final

from rtmw.closing import Closing
from rtmw.transfer.errors import SourceChanged, TransferRefused

__all__ = ["Fingerprint", "Source"]

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
