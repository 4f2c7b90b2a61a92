"""The spool: bodies that are too large for a record, each in a file of its own.

A file is whole and durable before the record that names it is logged. A file that no transfer names is the rest of a
crash, and is removed when the store is opened; so is what was freed and whose removal a crash has undone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from rtmw.closing import Closing
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.records import Spooled

__all__ = ["Spool"]


class Spool(Closing):
    """A folder of files. It is made, durably, if it is not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        above = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(above)
        finally:
            os.close(above)

    def write(self, name: str, body: bytes) -> Spooled:
        """Durable when this returns. OSError: the disk is full or has failed; nothing remains."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=self._descriptor)
        try:
            with open(descriptor, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            os.fsync(self._descriptor)
        except BaseException:
            self.remove(name)
            raise
        return Spooled(name, len(body))

    def read(self, body: Spooled) -> bytes:
        """Raises TransfersDamaged: the file is missing, or has another size."""
        try:
            data = (self._folder / body.name).read_bytes()
        except FileNotFoundError:
            raise TransfersDamaged(
                f"{self._folder / body.name} is missing; it has a body of {body.size} bytes"
            ) from None
        if len(data) != body.size:
            raise TransfersDamaged(f"{self._folder / body.name} has {len(data)} bytes, and not {body.size}")
        return data

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def keep(self, needed: Iterable[Spooled]) -> int:
        """Removes all other files; gives how many. Raises TransfersDamaged: one is missing, or has another size."""
        sizes = {body.name: body.size for body in needed}
        found = {entry.name: entry.stat().st_size for entry in os.scandir(self._descriptor)}
        for name, size in sizes.items():
            if found.get(name) != size:
                there = "missing" if name not in found else f"{found[name]} bytes long"
                raise TransfersDamaged(f"{self._folder / name} is {there}; it has a body of {size} bytes")
        others = found.keys() - sizes.keys()
        for name in others:
            self.remove(name)
        return len(others)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
