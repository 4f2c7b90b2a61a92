"""The seam between a core and what carries transfers to the cores of other nodes.

The core calls `Peers`; it gives them a `Desk`. All run in the core's event loop, and none of them blocks.

    core                                             peers (sessions, pieces, resume)
    ────                                             ─────
    a transfer for `service@node` is durable  ──►    ready(node)
    waiting(node), one after the other        ◄──    Desk.waiting
    SENT, DELIVERED, CONSUMED, REFUSED, …     ◄──    await Desk.report(item, state, cause)
    a transfer came from another node         ◄──    await Desk.arrive(header, body, sender, id)
    it was taken, consumed, refused here      ──►    moved(id, state, cause), durable
    its sender here has cancelled it          ──►    moved(id, CANCELLED)

A transfer that came from another node has that node's id (`TransferId.node`), by which the peers know to whom they
report. `arrive` with an id that has come already returns without enqueueing: exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rtmw.transfer.header import Header
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Spooled, TransferId, TransferState

__all__ = ["Desk", "NoPeers", "Peers"]


class Desk(Protocol):
    """What a core does for its peers."""

    @property
    def node(self) -> str:
        """The name of this node."""
        ...

    @property
    def incarnation(self) -> int:
        """Of the ids of this store."""
        ...

    def waiting(self, node: str) -> Iterable[Item]:
        """Transfers for this node that are ACCEPTED, durable, the first one first. `Item.lsn` is their number."""
        ...

    async def report(self, item: int, state: TransferState, cause: str = "") -> TransferState:
        """The state that the receiver's node reports; durable when it returns. ACCEPTED: to be sent again.

        TransferRefused: the transfer has ended meanwhile, or that state cannot follow its own.
        """
        ...

    def spool_name(self) -> str:
        """A new name for a body that is larger than a record may hold; the file is written by `spool.receive`."""
        ...

    async def arrive(self, header: Header, body: bytes | Spooled, sender: str, id: TransferId) -> bool:
        """A whole transfer of another node. Durable when this returns; False: it has come before.

        `header.to.node` is this node, or empty. TransferRefused: nobody is meant, or a limit is reached.
        """
        ...


class Peers(Protocol):
    """What carries transfers to other nodes."""

    def ready(self, node: str) -> None:
        """There is something in `Desk.waiting(node)` that was not there before. Also called after a restart."""
        ...

    def moved(self, id: TransferId, state: TransferState, cause: str) -> None:
        """A transfer that came from another node, or that is on its way to one, has another state here. Durable."""
        ...

    def close(self) -> None:
        """The core ends."""
        ...


class NoPeers:
    """No links: what is for other nodes stays parked."""

    def ready(self, node: str) -> None:
        """It waits for a node that has links."""

    def moved(self, id: TransferId, state: TransferState, cause: str) -> None:
        """Nobody is to be told."""

    def close(self) -> None:
        """Nothing is open."""
