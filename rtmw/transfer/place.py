"""Where a store lies: a store that was copied, or restored from a copy, is told from the one that it is a copy of.

The ids that a store gives follow from its log. So a copy gives ids that the other store has given to other transfers,
and the nodes that know these ids take what comes under them for duplicates. A file of the store says device, inode and
time of change of another file beside it, which nobody can copy. What is written there and what is found differ: it is
a copy, and its ids need a new incarnation.
"""

from __future__ import annotations

import os
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

from rtmw.disk import DISK, Disk

__all__ = ["Lies", "Place"]

_BEHIND: Final = b"behind\n"


class Lies(Enum):
    """How a store was found; the value says why it needs a new incarnation."""

    HERE = ""
    ELSEWHERE = "this folder is a copy, or was restored from one"
    BEHIND = "another node has had transfers of this store that it does not know, so it was set back to an older state"


class Place:
    """Says where the store in this folder lies. Raises OSError."""

    def __init__(self, folder: Path, disk: Disk = DISK) -> None:
        self._anchor, self._said, self._disk = folder / "place.anchor", folder / "place", disk

    def look(self) -> Lies:
        """Return how the store was found. One that says nothing is a copy: a new incarnation does no harm."""
        try:
            said = self._said.read_bytes()
            if said == _BEHIND:
                return Lies.BEHIND
            return Lies.HERE if said == self._found() else Lies.ELSEWHERE
        except FileNotFoundError:
            return Lies.ELSEWHERE

    def _found(self) -> bytes:
        """Return what tells this place from others. The time of change is in it, because a file system gives the inode
        of a removed file to the next one."""
        found = os.stat(self._anchor, follow_symlinks=False)
        return f"1 {found.st_dev} {found.st_ino} {found.st_ctime_ns}\n".encode()

    def keep(self) -> None:
        """Say durably that the store lies here; if that fails, as on a full disk, the next start begins one incarnation
        more. Call it when the new incarnation is durable."""
        if self.look() is Lies.HERE:
            return
        with suppress(OSError):
            self._disk.replace(self._anchor, b"")
            self._disk.replace(self._said, self._found())

    def say_behind(self) -> None:
        """Say that the store lies behind what another node has seen of it; its next start begins a new incarnation."""
        self._disk.replace(self._said, _BEHIND)

    def forget(self) -> None:
        """Forget the place: the store counts as a copy from now on."""
        with suppress(FileNotFoundError):
            self._disk.remove(str(self._said), None)
        self._disk.sync_folder(self._said.parent)
