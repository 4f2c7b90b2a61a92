"""Which level a state has reached, as programs are told it."""

from __future__ import annotations

from typing import Final

from rtmw.transfer.header import Level
from rtmw.transfer.records import TransferState

__all__ = ["LOST", "REACHED", "RESTARTED"]

REACHED: Final = {
    TransferState.HELD: Level.NONE,
    TransferState.ACCEPTED: Level.ACCEPTED,
    TransferState.SENT: Level.SENT,
    TransferState.DELIVERED: Level.DELIVERED,
    TransferState.CONSUMED: Level.CONSUMED,
}
"""The level that a state has reached. One that is not here reaches none any more."""
LOST: Final = "the transfer was accepted before its core was started anew, and has ended since; nobody knows how"
RESTARTED: Final = "its core was started anew; nobody knows how it has ended"
"""Why a transfer is UNKNOWN."""
