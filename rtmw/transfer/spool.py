"""The spool: bodies that are too large for a record, each in a file of its own.

A file is whole and durable before the record that names it is logged. A file that no transfer names is the rest of a
crash, and is removed when the store is opened; so is what was freed and whose removal a crash has undone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from rtmw.closing import Closing
from rtmw.disk import DISK, Disk
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.records import Spooled

__all__ = ["Spool", "SpoolFile"]

SYNC_BYTES: Final = 8 << 20
"""Bytes of a body that comes in pieces, after which what has come is brought to the disk."""


class Spool(Closing):
    """A folder of files. It is made, durably, if it is not there."""

    def __init__(self, folder: Path, disk: Disk = DISK) -> None:
        self._folder, self.disk = folder, disk
        disk.make_folders(folder)
        disk.sync_folder(folder.parent)  # where it was there: whoever made it may have died before its name was durable
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def write(self, name: str, body: bytes) -> Spooled:
        """Write a body, durably. OSError: the disk is full or has failed; nothing remains."""
        self.disk.write_new(name, self._descriptor, body, 0o600)
        return Spooled(name, len(body))

    def receive(self, name: str, durable: bool) -> SpoolFile:
        """Make a file for a body that comes in pieces. `durable`: it is on the disk when it is finished. OSError."""
        descriptor = self.disk.create(name, self._descriptor, os.O_WRONLY | os.O_EXCL, 0o600)
        return SpoolFile(self, descriptor, name, durable)

    def sync(self) -> None:
        """Make the names of files durable that were finished."""
        self.disk.sync(self._descriptor)

    def path(self, body: Spooled) -> Path:
        return self._folder / body.name

    def read(self, body: Spooled) -> bytes:
        """Return a body. Raises TransfersDamaged: the file is missing, or has another size."""
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
            self.disk.remove(name, self._descriptor)

    def keep(self, needed: Iterable[Spooled]) -> int:
        """Remove all other files, and return how many. Raises TransfersDamaged: one is missing, or has another size."""
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


class SpoolFile:
    """A body that comes in pieces. A body that is not finished is abandoned."""

    def __init__(self, spool: Spool, descriptor: int, name: str, durable: bool) -> None:
        self._spool, self._descriptor, self.name, self._durable = spool, descriptor, name, durable
        self.size = self._synced = 0

    def write(self, data: bytes | memoryview) -> None:
        """Write the next piece. OSError: the disk is full, or has failed; the file has to be abandoned then."""
        self._spool.disk.write_all(self._descriptor, (data,), self.size)
        self.size += len(data)
        if self._durable and self.size - self._synced >= SYNC_BYTES:
            self._spool.disk.sync_data(self._descriptor)  # so that the last sync has little to wait for
            self._synced = self.size

    def finish(self) -> Spooled:
        """Finish the body, of which all has come. It is on the disk when this returns, if it has to be."""
        if self._durable:
            self._spool.disk.sync(self._descriptor)
            self._spool.sync()
        self._close()
        return Spooled(self.name, self.size)

    def abandon(self) -> None:
        """Remove the file. Idempotent."""
        if self._descriptor >= 0:
            self._close()
            self._spool.remove(self.name)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)
