"""The interface of a core to the peers that carry its transfers. All of it in the core's event loop; nothing of it
blocks."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from rtmw.transfer.address import Address
from rtmw.transfer.header import Header
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Spooled, TransferId, TransferState
from rtmw.transfer.wire.frames import Offer

__all__ = ["Desk", "End", "Work"]

Work: TypeAlias = Coroutine[Any, Any, None]
"""Work that the caller awaits."""

End = tuple[TransferState, str]
"""A state and its cause."""


class Desk(Protocol):
    """What a peer asks of its core; see the head of this file."""

    def waiting(self, node: str) -> Iterable[Item]:
        """Return the durable transfers for this node that have not ended, in the order in which they are sent."""
        ...

    def newest_of(self, node: str) -> Sequence[tuple[int, int]]:
        """Return each incarnation of the node of which something has come, and its largest sequence that has."""
        ...

    def has_had(self, node: str, newest: Sequence[tuple[int, int]], sent: Mapping[int, int]) -> None:
        """Take what the node has had of this one: each incarnation, and its largest sequence. `sent`: what was offered
        to it, likewise. Raises TransferError: ids were used before that this store does not know; no report of the node
        counts."""
        ...

    def report(self, id: TransferId, state: TransferState, cause: str) -> Work:
        """Log the state that the receiver's node reports, durably. Nothing happens to a transfer that has ended."""
        ...

    def report_run(self, states: Mapping[TransferId, TransferState]) -> bool:
        """Log reports without causes in one batch; `durable` waits for it. False: not all of them can be logged now;
        report them one by one."""
        ...

    def durable(self) -> Work:
        """Wait until all that was reported, or arrived, before this call is durable."""
        ...

    def delayed(self, id: TransferId) -> None:
        """Note that the receiver cannot take a transfer now: what was sent after it does not wait for it."""
        ...

    def spool(self, body: Spooled) -> Path:
        """Return the file of a body."""
        ...

    async def folder(self, to: Address) -> Path | None:
        """Return the folder of an inbox that the address means and that takes files; None: there is none now. Programs
        of a core before this one are given some time to come back."""
        ...

    def check(self, header: Header, size: int) -> None:
        """Check a transfer before any byte comes, and before its files become visible. `size`: bytes of all parts.
        Raises TransferRefused: the peer has no right to send it, or nobody is meant."""
        ...

    async def arrive(self, header: Header, body: bytes | Path, sender: str, id: TransferId) -> None:
        """Enqueue a whole transfer of another node; `durable` waits for it. An id that has come is not enqueued again.

        Bytes are enqueued before this waits for anything. A `Path` is a durable file, to which the core makes another
        name: remove this one when all is durable. TransferRefused: see `check`. OSError, LogFull: there is no room; try
        it again.
        """
        ...

    def arrive_run(self, header: Header, sender: str, letters: dict[TransferId, bytes]) -> bool:
        """Enqueue letters in one batch of the log, each as `arrive` does; the peer's half is told when they are durable
        (`Inbound.moved`). False: not all of them can be taken so, and nothing was done."""
        ...

    def look(self, id: TransferId) -> End | None:
        """Return the state of a transfer that has come from another node, or how it has ended. None: it never came."""
        ...

    def withdraw(self, id: TransferId) -> Work:
        """Cancel a transfer for its sender. Nothing happens, if somebody has taken it."""
        ...

    def owed(self, node: str) -> Iterable[tuple[TransferId, End]]:
        """Return the transfers of this node that have ended, and of which it has not said that it knows."""
        ...

    def settled(self, ids: Collection[TransferId]) -> None:
        """Note that their node knows how these transfers have ended. Each id comes once."""
        ...

    def freed(self, offer: Offer, cause: str) -> None:
        """Note that the part of a transfer that had come was removed, because the sending node has left it."""
        ...

    def take_raw(self, header: Header, body: bytes, sender: str) -> None:
        """Take a SMALL_RAW that has come. TransferRefused: see `check`; nobody is told."""
        ...
