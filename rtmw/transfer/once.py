"""Transfers that senders have sent under ids of their own: with one id, a sender of one name sends once, as with
`Log.append`.

`once` is, in frames and records, a digest of what was sent (16 bytes), and behind it the id as the log has labels; no
bytes where the sender has chosen no id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

from rtmw.log import Label, pack_labels, unpack_labels
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.header import Kind
from rtmw.transfer.records import Request, TransferId, TransferState

__all__ = ["DIGEST", "MOST_ONCE", "Ending", "Once", "OnceEntry", "pack_once"]

DIGEST: Final = 16
MOST_ONCE: Final = 65_536
"""Ids of senders that are remembered; then the oldest is forgotten."""
Key: TypeAlias = tuple[str, bytes]
"""Name of the sender, and its id."""


class Ending(NamedTuple):
    """How a transfer has ended."""

    state: TransferState
    cause: str
    request: Request
    """That has asked for it."""


@dataclass(slots=True)
class OnceEntry:
    """The transfers that were sent under an id."""

    digest: bytes
    ids: dict[TransferId, Ending | None] = field(default_factory=dict[TransferId, Ending | None])
    """One a receiver of `service/*`; None: it has not ended."""


def pack_once(id: Label, to: str, kind: Kind, body: bytes) -> bytes:
    """Raises TypeError, ValueError: the id is none."""
    digest = blake2b(bytes([kind, len(to)]) + to.encode(), digest_size=DIGEST)
    digest.update(body)
    labels = pack_labels(None, id)
    assert labels is not None, "there is an id"
    return digest.digest() + labels


class Once:
    """Of all senders."""

    def __init__(self) -> None:
        self.entries: dict[Key, OnceEntry] = {}

    def find(self, sender: str, once: bytes) -> OnceEntry | None:
        """The transfers that were sent under this id. TransferRefused: they had another body or address."""
        entry = self.entries.get((sender, once[DIGEST:]))
        if entry is not None and entry.digest != once[:DIGEST]:
            raise TransferRefused(
                f"sender {sender!r} has sent something else with id={unpack_labels(once[DIGEST:])[1]!r}; an id belongs "
                "to one body and one address"
            )
        return entry

    def add(self, sender: str, once: bytes, id: TransferId) -> None:
        key = sender, once[DIGEST:]
        entry = self.entries.get(key)
        if entry is None or entry.digest != once[:DIGEST]:
            entry = self.entries[key] = OnceEntry(once[:DIGEST])
            if len(self.entries) > MOST_ONCE:
                del self.entries[next(iter(self.entries))]
        entry.ids[id] = None

    def discard(self, sender: str, once: bytes, id: TransferId) -> None:
        """It was undone, and never was."""
        key = sender, once[DIGEST:]
        entry = self.entries.get(key)
        if entry is not None and entry.ids.pop(id, entry) is None and not entry.ids:
            del self.entries[key]

    def end(self, sender: str, once: bytes, id: TransferId, ending: Ending) -> None:
        entry = self.entries.get((sender, once[DIGEST:]))
        if entry is not None and id in entry.ids:
            entry.ids[id] = ending
