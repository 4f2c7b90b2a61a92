"""What a step could not do, as programs are told it."""

from __future__ import annotations

from typing import Final

from rtmw.errors import LogFull
from rtmw.transfer.errors import TransactionAborted, TransferRefused
from rtmw.transfer.messages import Failed

__all__ = ["FAILURES", "failed"]

FAILURES: Final = (TransactionAborted, TransferRefused, ValueError, LogFull, OSError)
"""The errors that programs are told."""
_REFUSED, _UNDONE, _VALUE, _DISK = range(4)


def failed(error: Exception) -> Failed:
    """Of one of these errors."""
    if isinstance(error, TransactionAborted):
        return Failed(_UNDONE, str(error))
    if isinstance(error, TransferRefused):
        return Failed(_REFUSED, str(error))
    if isinstance(error, ValueError):
        return Failed(_VALUE, str(error))
    return Failed(_DISK, f"the disk of the core has no room, or has failed: {error}")
