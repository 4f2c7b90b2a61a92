"""A transfer of which bytes come, as the receiving half of a peer keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from rtmw.transfer.carry.arrival import Arrival
from rtmw.transfer.files.staging import Folder
from rtmw.transfer.wire.frames import Offer

__all__ = ["Here"]


@dataclass
class Here:
    """Its bytes come into memory, or into files."""

    offer: Offer
    until: float | None
    """When its lifetime ends, on the clock of the loop."""
    memory: bytearray
    arrival: Arrival | None = None
    folder: Folder | None = None
    has_failed: bool = False
    """The disk: what was written may be lost, and is not marked any more, since a disk says so only once."""

    def close(self) -> None:
        for one in (self.arrival, self.folder):
            if one is not None:
                one.close()
