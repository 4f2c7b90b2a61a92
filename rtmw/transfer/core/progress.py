"""How far transfers with other nodes are, as people see it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

from rtmw.transfer.carry.content import size_of_parts
from rtmw.transfer.carry.journal import Journal
from rtmw.transfer.carry.peer import Peer
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Spooled, TransferId, TransferState
from rtmw.transfer.wire.frames import Offer
from rtmw.transfer.wire.under_way import Phase

__all__ = ["Progress", "coming_from", "held_for", "left_behind", "passed_over", "progress_of", "progress_of_ended"]


class Progress(NamedTuple):
    """How far one transfer is."""

    size: int
    """Bytes of all its parts, those of files included."""
    sent: int | None = None
    """Number of these bytes that have left for its node; None: none has yet, or it stays here."""
    rate: float | None = None
    """Bytes a second, since it began on this session."""
    got: int = 0
    """Bytes that the core of the receiver has, as far as it has said so."""
    limit: int | None = None
    """Bytes that may leave before it says more: the end of the window. None: it is not on its way."""


def held_for(before: TransferId) -> str:
    """Return why a transfer waits that was sent behind this one."""
    return f"{before} was sent before it, and comes first"


def passed_over(cause: str) -> str:
    """Return why a transfer waits that its receiver cannot take now."""
    return f"{cause}; what was sent after it does not wait for it"


def progress_of(item: Item, body: bytes | Path, peer: Peer | None, journal: Journal | None) -> Progress:
    """Return how far a transfer is. `peer`: that of its node, if it was there in this life of the core."""
    id, header = item.record.id, item.record.header
    one = peer.outbound.machine.transfers.get(id) if peer is not None else None
    if one is not None:
        is_there = one.phase in (Phase.WHOLE, Phase.AT_PEER, Phase.ENDED)
        sent = one.size if is_there else max(one.sent, one.kept)
        got = one.size if is_there and one.phase is not Phase.WHOLE else max(one.received, one.kept)
        return Progress(one.size, sent or None, one.rate(asyncio.get_running_loop().time()), got, one.limit or None)
    going = journal.going.get(id) if journal is not None else None
    size = header.length
    if header.kind is not Kind.BUF:
        size = size_of_parts(header.kind, body, going.accepted if going else ())
    if header.to.node and item.state not in (TransferState.HELD, TransferState.ACCEPTED):
        return Progress(size, size, got=size)
    position = going.mark.position if going else 0
    return Progress(size, position or None, got=position)


def progress_of_ended(header: Header, body: bytes | Spooled) -> Progress:
    """Return the progress of a transfer that was sent before, and of which the core has no more than its end.
    ValueError: this body, which the core does not take, is none of its kind."""
    try:
        return Progress(size_of_parts(header.kind, body) if isinstance(body, bytes) else header.length)
    except TransfersDamaged as error:
        raise ValueError(str(error)) from None


def coming_from(peer: Peer) -> list[dict[str, Any]]:
    """Return the transfers that have come in part from this node, in this life of the core, as rows."""
    return [_coming_row(one.offer, one.received, one.ref != 0) for one in peer.inbound.machine.arriving.values()]


def left_behind(peers: list[Peer], journal: Journal | None, own: str) -> list[dict[str, Any]]:
    """Return rows of transfers that had come in part, and that their nodes have not gone on with. `own`: this node."""
    here = {id for peer in peers for id in peer.inbound.machine.arriving}
    coming = journal.coming.items() if journal is not None else ()
    return [_coming_row(c.offer, c.mark.position, False) for id, c in coming if id not in here and id.node != own]


def _coming_row(offer: Offer, got: int, is_sent: bool) -> dict[str, Any]:
    """Return the row of a transfer. `waits` in it: its node does not send it now."""
    sender = f"{offer.sender}@{offer.id.node}"
    return {"from": sender, "to": str(offer.header.to), "got": got, "bytes": offer.size, "waits": not is_sent}
