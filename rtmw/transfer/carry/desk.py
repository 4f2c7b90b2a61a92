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
"""It is awaited."""

End = tuple[TransferState, str]
"""A state and its cause."""


class Desk(Protocol):
    """See the head of this file."""

    def waiting(self, node: str) -> Iterable[Item]:
        """Transfers for this node that have not ended, durable, in the order in which they are sent."""
        ...

    def newest_of(self, node: str) -> Sequence[tuple[int, int]]:
        """Of what has come from this node: each incarnation, and the largest sequence of it."""
        ...

    def has_had(self, node: str, newest: Sequence[tuple[int, int]], sent: Mapping[int, int]) -> None:
        """The node says that it has had these of this one; `sent`: what was offered to it, likewise. Raises
        TransferError: ids were used before that this store does not know; no report of the node counts."""
        ...

    def report(self, id: TransferId, state: TransferState, cause: str) -> Work:
        """The receiver's node says so; durable when it returns. Of a transfer that has ended, nothing happens."""
        ...

    def report_run(self, states: Mapping[TransferId, TransferState]) -> bool:
        """As `report` of each, without causes and in one batch of the log; `durable` waits for it. False: not all of
        them can be logged now; report them one by one."""
        ...

    def durable(self) -> Work:
        """All that was reported, or arrived, before this call is durable when it returns."""
        ...

    def delayed(self, id: TransferId) -> None:
        """The receiver cannot take it now: what was sent after it does not wait for it."""
        ...

    def spool(self, body: Spooled) -> Path:
        """The file of a body."""
        ...

    async def folder(self, to: Address) -> Path | None:
        """Of an inbox that is meant and takes files; None: there is none now. Programs of a core before this one are
        given some time to come back."""
        ...

    def check(self, header: Header, size: int) -> None:
        """Before any byte comes, and before files become visible. `size`: of all parts, in bytes. Raises
        TransferRefused: the peer has no right to send it, or nobody is meant."""
        ...

    async def arrive(self, header: Header, body: bytes | Path, sender: str, id: TransferId) -> None:
        """A whole transfer of another node gets its place in its queue; `durable` waits for it. An id that has come is
        not enqueued again.

        Bytes are enqueued before this waits for anything. A `Path` is a durable file, to which the core makes another
        name: remove this one when all is durable. TransferRefused: as of `check`. OSError, LogFull: no room; it is
        tried again.
        """
        ...

    def arrive_run(self, header: Header, sender: str, letters: dict[TransferId, bytes]) -> bool:
        """As `arrive` of each letter, in one batch of the log; the peer's half is told when they are durable
        (`Inbound.moved`). False: not all of them can be taken so, and nothing was done."""
        ...

    def look(self, id: TransferId) -> End | None:
        """Of a transfer that has come from another node: its state, or how it has ended. None: it never came."""
        ...

    def withdraw(self, id: TransferId) -> Work:
        """Its sender cancels it. Nothing happens, if somebody has taken it."""
        ...

    def owed(self, node: str) -> Iterable[tuple[TransferId, End]]:
        """Transfers of this node that have ended, and of which it has not said that it knows."""
        ...

    def settled(self, ids: Collection[TransferId]) -> None:
        """Their node knows how they have ended. Each once."""
        ...

    def freed(self, offer: Offer, cause: str) -> None:
        """The part that has come was removed, because the sending node has left it."""
        ...

    def take_raw(self, header: Header, body: bytes, sender: str) -> None:
        """A SMALL_RAW has come. TransferRefused: as of `check`; nobody is told."""
        ...
