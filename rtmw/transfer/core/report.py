"""What a core says of itself to people and tools: transfers under the paper's names, queues and counters, as JSON in
pieces (`answer_to`); the last errors as events, and the disk (T11); and how far transfers with other nodes are.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rtmw.observe.services import TransferCounters, TransferQueue
from rtmw.text.units import counted, size
from rtmw.transfer.address import Address
from rtmw.transfer.carry.content import size_of_parts
from rtmw.transfer.carry.journal import Journal
from rtmw.transfer.carry.peer import Peer
from rtmw.transfer.errors import TransferRefused, TransfersDamaged
from rtmw.transfer.frames import BLOCK
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.machine import Machine
from rtmw.transfer.messages import Shown
from rtmw.transfer.queues import Item, queue_name
from rtmw.transfer.records import ENDED, AbortCause, Spooled, TransferId, TransferState
from rtmw.transfer.store import Ages, queue_rows, transaction_rows
from rtmw.transfer.wire.frames import Offer
from rtmw.transfer.wire.under_way import Phase

if TYPE_CHECKING:
    from rtmw.transfer.core.service import Service

__all__ = [
    "BAD",
    "Events",
    "Happening",
    "Progress",
    "Room",
    "answer_to",
    "coming_from",
    "counters_of",
    "full_words",
    "held_for",
    "left_behind",
    "passed_over",
    "progress_of",
    "progress_of_ended",
    "queue_items",
    "queues_of",
    "transfer_row",
]


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
        # What came with an offer that was put off is not kept, and is sent again.
        sent = one.size if is_there else max(one.sent, one.kept) if one.ref else one.kept
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


BAD: Final = (ENDED - {TransferState.CONSUMED}) | {TransferState.DEAD}
"""States that are events."""
KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class Happening:
    """An event: something went another way than that of a transfer that is consumed."""

    time_ns: int
    """Wall clock, since 1970."""
    what: str
    """The state that a transfer has come to; UNDONE of a transaction; FREED of a part that its node
    has left; FULL and ROOM of the disk of the core; RESTORED of its store."""
    id: str
    """Id of the transfer, or number of the transaction; empty: it is of neither."""
    to: str
    sender: str
    cause: str

    def row(self) -> dict[str, Any]:
        return asdict(self)


class Events:
    """The last events of a core."""

    def __init__(self) -> None:
        self.last: deque[Happening] = deque(maxlen=KEPT)
        self.count = 0
        """Number of all events since the core was started."""

    def _add(self, happening: Happening) -> Happening:
        self.last.append(happening)
        self.count += 1
        return happening

    def of_transfer(self, item: Item, state: TransferState, cause: str, wall_ns: int) -> Happening:
        record = item.record
        return self._add(Happening(wall_ns, state.name, str(record.id), str(record.header.to), record.sender, cause))

    def of_transaction(self, txn: int, cause: AbortCause, sender: str, wall_ns: int) -> Happening:
        return self._add(Happening(wall_ns, "UNDONE", str(txn), "", sender, cause.name))

    def of_part(self, offer: Offer, cause: str, wall_ns: int) -> Happening:
        """Add an event: the part of a transfer that had come was removed."""
        return self._add(Happening(wall_ns, "FREED", str(offer.id), str(offer.header.to), offer.sender, cause))

    def of_disk(self, cause: str, wall_ns: int) -> Happening:
        """Add an event of the disk. `cause`: why nothing is logged; empty: there is room again."""
        return self._add(Happening(wall_ns, "FULL" if cause else "ROOM", "", "", "", cause))

    def of_store(self, cause: str, wall_ns: int) -> Happening:
        """Add an event: the ids of the store have a new incarnation."""
        return self._add(Happening(wall_ns, "RESTORED", "", "", "", cause))


class Room:
    """Whether the disk of the core has room: its log and its spool find it out each by what was last to be kept.

    `say` is called when one of them comes to have no room, with what is refused and why, and with "" when both have.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self._log_is_full = False
        self.lacks = 0
        """Size of the last body, for which the spool had no room; 0: it has room."""
        self._enough = 0
        """Bytes that are free when the spool has room again."""

    @property
    def is_full(self) -> bool:
        return self._log_is_full or bool(self.lacks)

    def log_has_none(self, why: str) -> None:
        if not self._log_is_full:
            self._log_is_full = True
            self._say(why)

    def log_has_some(self) -> None:
        if self._log_is_full:
            self._log_is_full = False
            self._say_again()

    def spool_has_none(self, size: int) -> str:
        """Note that the spool has no room for a body of this size. Returns the words for its sender."""
        free, was_full = self._free(), bool(self.lacks)
        self.lacks, self._enough = size, size if free < size else free + size  # more is free than a quota lets one have
        why = f"a body of {size} bytes has no room in {self._folder}, where {free} are free"
        if not was_full:
            self._say(why)
        return why

    def spool_has_some(self) -> None:
        if self.lacks:
            self.lacks = 0
            self._say_again()

    def look(self) -> None:
        """Is there room for the last body? Its sender may have gone."""
        if self.lacks and self._free() >= self._enough:
            self.spool_has_some()

    def _free(self) -> int:
        return shutil.disk_usage(self._folder).free

    def _say_again(self) -> None:
        if not self.is_full:
            self._say("")


def counters_of(machines: tuple[Machine, ...], redelivered: int) -> TransferCounters:
    """Return the counters. It walks over all transfers that are more than a part of a run: about 0.1 µs each."""
    states: Counter[TransferState] = Counter()
    ended: Counter[TransferState] = Counter()
    size = 0
    for machine in machines:
        ended.update(machine.state.counts)
        items = machine.state.items
        states[TransferState.ACCEPTED] += len(items) - len(items.made)
        size += items.inline_bytes
        for item in items.made.values():
            states[item.state] += item.counts_at(machine.state.node)
            size += item.record.body.size if isinstance(item.record.body, Spooled) else 0
    parked, failed = states.total(), ended.total() - ended[TransferState.CONSUMED]
    return TransferCounters(
        parked=parked,
        body_bytes=size,
        dead=states[TransferState.DEAD],
        transactions=sum(len(machine.open) for machine in machines),
        accepted=parked + ended.total(),
        consumed=ended[TransferState.CONSUMED],
        failed=failed,
        redelivered=redelivered,
    )


def full_words(data: Path, kept: TransferCounters, log_bytes: int, lacks: int) -> str:
    """Return how full the disk is, what is kept there, and what makes room. `lacks`: see Room."""
    body = f", and a body of {size(lacks)} had no room there" if lacks else ""
    number = counted(kept.parked, "transfer") + (f" ({counted(kept.dead, 'dead letter')})" if kept.dead else "")
    return (
        f"the disk of {data} has {size(shutil.disk_usage(data).free)} free{body}. Kept there are {number} with "
        f"{size(kept.body_bytes)} of bodies, and {size(log_bytes)} of log. Receivers that consume make room (rtmw "
        "transfers shows where letters wait); so does rtmw transfers cancel, and what you remove from that disk. Then "
        "it goes on by itself"
    )


def queues_of(machines: Iterable[tuple[Machine, Ages]]) -> list[TransferQueue]:
    """Return what waits, without dead letters, by service and node; the queue with the oldest transfer comes first."""
    counts: Counter[tuple[str, str]] = Counter()
    since: dict[tuple[str, str], int] = {}
    for machine, ages in machines:
        firsts: dict[tuple[str, str], int] = {}
        for to, number, first in _parts(machine):
            queue = to.service, to.node
            counts[queue] += number
            firsts[queue] = min(first, firsts.get(queue, first))
        for queue, first in firsts.items():
            since[queue] = min(ages.since(first), since.get(queue, sys.maxsize))
    return [TransferQueue(*queue, counts[queue], since[queue]) for queue in sorted(since, key=lambda one: since[one])]


def _parts(machine: Machine) -> Iterator[tuple[Address, int, int]]:
    """Yield for each part to whom it is, how many there are, and the number of the first of them."""
    yield from machine.state.items.waiting()
    for item in machine.state.items.made.values():
        if item.state is not TransferState.DEAD and item.counts_at(machine.state.node):
            yield item.record.header.to, 1, item.lsn


TIMEOUT_S: Final = 10
"""Seconds: the paper's timeout of an item that is part of no transaction."""
MOST: Final = 10_000
"""Largest number of rows in one answer; `more` says how many there are beside."""


def answer_to(what: str, service: Service) -> Iterator[Shown]:
    """Yield the answer to a Show, in pieces. Raises ValueError, TransferRefused."""
    kind, _, rest = what.partition(" ")
    if kind == "transfers":
        yield from _pieces(_all(service))
    elif kind == "dead":
        yield from _pieces(_dead(service))
    elif kind == "queues":
        items = queue_items(_items(service, MOST), service)
        yield from _pieces({"queues": _queues(service), "items": items, "more": _more(service)})
    elif kind == "members":
        yield from _pieces(_members(service))
    elif kind == "info":
        item = _found(rest, service)
        yield from _pieces({**transfer_row(item, service), **queue_items([item], service)[0]})
    elif kind == "body":
        yield from _pieces(_body(_found(rest, service), service))
    else:
        raise ValueError(f"a core does not show {what!r}; it shows transfers, dead, queues, members, info ID, body ID")


def _found(written: str, service: Service) -> Item:
    item = service.machines.find(TransferId.parse(written))
    if item is None:
        raise TransferRefused(f"there is no transfer {written}; it has ended, or never was{_end_of(written, service)}")
    return item


def _body(item: Item, service: Service) -> dict[str, Any]:
    """Return the body in base64; or the path of the file in which it lies, which goes with the transfer."""
    body, kind = item.record.body, item.record.header.kind.name
    if isinstance(body, Spooled):
        return {"kind": kind, "path": str(service.path(body))}
    return {"kind": kind, "body": base64.b64encode(body).decode()}


def _end_of(written: str, service: Service) -> str:
    move = service.machines.move(TransferId.parse(written))
    if move.state in (None, TransferState.UNKNOWN):
        return ""
    return f": it is {move.state.name}{f', {move.cause}' if move.cause else ''}"


def _all(service: Service) -> dict[str, Any]:
    """Return transfers, what is on its way to the core, open transactions, and the last events."""
    machines = service.machines
    counters = counters_of((machines.logged, machines.volatile), service.redelivered)
    return {
        "node": machines.logged.state.node,
        "counters": asdict(counters),
        "transfers": [transfer_row(item, service) for item in _items(service, MOST)],
        "more": _more(service),
        "arriving": [*service.arriving(), *service.nodes.arriving()],
        "transactions": _transactions(service),
        "events": [one.row() for one in service.events.last],
        "events_before": service.events.count - len(service.events.last),
    }


def _dead(service: Service) -> list[dict[str, Any]]:
    """Return the dead letters as rows, at most MOST."""
    machines = service.machines.logged, service.machines.volatile
    items = (item for machine in machines for item in machine.state.items.made.values())
    dead = (item for item in items if item.state is TransferState.DEAD)
    return [transfer_row(item, service) for item in islice(dead, MOST)]


def _transactions(service: Service) -> list[dict[str, Any]]:
    """Return the open transactions under the paper's names, with who has begun them."""
    rows: list[dict[str, Any]] = []
    for row in transaction_rows(service.machines.logged, service.machines.now().monotonic_ns):
        member = service.owner(row.txn_id)
        owner = {"from": member.name if member else None, "pid": member.life.pid if member else None}
        named = {"TxnID": row.txn_id, "State": row.state, "LastLSN": row.last_lsn, "UndoNxtLSN": row.undo_nxt_lsn}
        size = {"records": row.records, "bytes": row.bytes, "age": row.age}
        rows.append({**named, "SaveList": row.save_list, **owner, **size})
    return rows


def _members(service: Service) -> list[dict[str, Any]]:
    return [
        {
            "pid": member.life.pid,
            "role": ("sender", "inbox")[member.role],
            "name": member.name,
            "to": service.sends_to(member),
        }
        for member in service.members.values()
    ]


def _items(service: Service, most: int) -> list[Item]:
    found: list[Item] = []
    for machine in (service.machines.logged, service.machines.volatile):
        for item in machine.state.items.values():
            if len(found) == most:
                return found
            found.append(item)
    return found


def _more(service: Service) -> int:
    """Return the number of transfers beyond those in one answer."""
    machines = service.machines.logged, service.machines.volatile
    return max(0, sum(len(machine.state.items) for machine in machines) - MOST)


def transfer_row(item: Item, service: Service) -> dict[str, Any]:
    """Return the row of a transfer. `deliveries` and `retries`: None, if another node hands it over, which counts them.
    `bytes`: those of all its parts, with those of files; `sent`: how many of these have left for another node;
    `received`: how many of these that node has, as it has said; `limit`: how many may leave before it says more;
    `rate`: bytes a second. None: it is not on its way."""
    record, header = item.record, item.record.header
    progress = service.nodes.progress(item)
    waits = _why_waits(item, service) if item.state is TransferState.ACCEPTED else ""
    return {
        "id": str(record.id),
        "to": str(header.to),
        "from": record.sender,
        "state": item.state.name,
        "delivery": header.delivery.name,
        "kind": header.kind.name,
        "bytes": progress.size,
        "priority": header.priority,
        "deliveries": None if header.to.node else item.deliveries,
        "retries": None if header.to.node else max(0, item.deliveries - 1),
        "taker": item.taker.pid if item.taker else None,
        "transaction": item.txn or None,
        "expires_ns": record.deadline_ns or None,
        "sent": progress.sent,
        "received": progress.got if progress.limit else None,
        "limit": progress.limit,
        "rate": progress.rate,
        "cause": item.cause or waits,
    }


def _why_waits(item: Item, service: Service) -> str:
    if item.record.header.to.node:
        return service.nodes.why_waits(item)
    before = service.machines.of(item.lsn).state.held_for(item)
    return held_for(before.record.id) if before is not None else ""


def _queues(service: Service) -> list[dict[str, Any]]:
    """Return the queues of both machines, by name."""
    found: dict[str, dict[str, Any]] = {}
    for machine in (service.machines.logged, service.machines.volatile):
        for row in queue_rows(machine):
            known = found.setdefault(row.queue, {"queue": row.queue, "transfers": 0, "bytes": 0, "states": {}})
            known["receivers"] = row.receivers
            known["transfers"] += sum(row.states.values())
            known["bytes"] += row.bytes
            for state, number in row.states.items():
                known["states"][state.name] = known["states"].get(state.name, 0) + number
    return [found[name] for name in sorted(found)]


def queue_items(items: Iterable[Item], service: Service) -> list[dict[str, Any]]:
    """Return the paper's eleven fields of each item. Items of a queue are linked in the order in which they are read,
    and in that in which they were written; blocks are numbered within a body."""
    queues: dict[str, list[Item]] = {}
    for item in items:
        queues.setdefault(queue_name(item.record.header.to), []).append(item)
    rows: list[dict[str, Any]] = []
    for queue in queues.values():
        read, written = sorted(queue, key=lambda item: item.place), sorted(queue, key=lambda item: item.lsn)
        next_read, next_written = _links(read), _links(written)
        rows += [_queue_item(item, next_read[item.lsn], next_written[item.lsn], service) for item in read]
    return rows


def _links(items: list[Item]) -> dict[int, int]:
    after = [item.lsn for item in items[1:]] + [0]
    return dict(zip((item.lsn for item in items), after, strict=True))


def _queue_item(item: Item, next_read: int, next_write: int, service: Service) -> dict[str, Any]:
    life, blocks = item.taker or item.record.life, -(-item.record.header.length // BLOCK)
    age = service.machines.logged.limits.transaction_age
    return {
        "index": item.lsn,
        "udtype": item.record.header.kind.name,
        "flag": item.state.name,
        "pid": life.pid if life else 0,
        "txId": item.txn,
        "nNextRead": next_read,
        "nNextWrite": next_write,
        "timeout": age if item.txn else TIMEOUT_S,
        "bufHead": 0,
        "bufTail": blocks - 1,
        "bufNum": blocks,
    }


def _pieces(document: object) -> Iterator[Shown]:
    data = json.dumps(document).encode()
    for at in range(0, len(data), BLOCK):
        yield Shown(int(at + BLOCK >= len(data)), data[at : at + BLOCK])
