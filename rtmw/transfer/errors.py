"""Errors of transfers. A message says what was asked, what was found and what to do.

TransferError               rtmw.errors: this transfer or transaction cannot be done; nothing was changed
├── TransferRefused
├── CoreNotRunning
├── SourceChanged           the file that is sent was changed, cut or replaced meanwhile
├── TransactionAborted      the transaction was undone, by its age, its size or the end of its program
└── TransfersDamaged        what is in the log contradicts itself; the message has the position
"""

from __future__ import annotations

from typing import Final

from rtmw.errors import CoreNotRunning, SourceChanged, TransferError, TransferRefused

__all__ = [
    "CoreNotRunning",
    "SourceChanged",
    "TransactionAborted",
    "TransferError",
    "TransferRefused",
    "TransfersDamaged",
    "cause_of",
    "error_of",
]

_CHANGED: Final = "SourceChanged: "
"""Stands before the cause of a transfer whose source has changed."""


def cause_of(error: Exception) -> str:
    """Return the cause that a core tells senders for this error."""
    return f"{_CHANGED if isinstance(error, SourceChanged) else ''}{error}"


def error_of(words: str, cause: str) -> TransferError:
    """Return the error that a sender raises for a transfer that will not reach a level for this cause."""
    return SourceChanged(words) if cause.startswith(_CHANGED) else TransferRefused(words)


class TransactionAborted(TransferError):
    """The transaction was undone; begin a new one."""


class TransfersDamaged(TransferError):
    """The bytes are no record, header or body, or records contradict each other.

    `position`: that of the record in the log, or of the byte in what was to be read.
    """

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(message)
        self.position = position
