"""What a relay knows of orders: a pure function of its rows.

An order is open until each of its recipients has an end. Of the last ones each has its outcome, by which an order that
comes again gets its last answer again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from rtmw.relay import rows as r
from rtmw.relay.frame import SUM, checksums, rests, total_of
from rtmw.relay.rows import SUM_AT, Row

KNOWN_LEAST: Final = 65_536
"""Orders of which the outcome is known."""
UNSUMMED: Final = bytes(SUM)
"""In place of a checksum: the frame came by the second format."""
NO_SUM: Final = -1


class Id(NamedTuple):
    """What makes an order that order: of foreign agents with its content, for many of them stamp whole seconds."""

    source: str
    stamp: bytes
    digest: bytes = b""


Stream = tuple[str, str]
"""Source and destination: of one recipient, the order of these holds."""


@dataclass(eq=False)
class Leg:
    """An order, for one of its recipients."""

    order: Order
    recipient: str
    tries: int = 0
    """That have left, as the rows say."""
    end: str = ""
    """Of ENDS; empty: it is open."""
    cause: str = ""
    attempt: int = 0
    """The try that runs, sent or not; 0: none. Not in rows, and so is the next."""
    timer: int = 0
    due: float = 0.0

    @property
    def stream(self) -> Stream:
        return self.order.source, self.order.destination


@dataclass(eq=False)
class Order:
    """One that was stored, or refused: then it has no legs."""

    number: int
    id: Id
    source: str
    destination: str
    head: bytes
    digest: bytes
    priority: int = 0
    at: int = 0
    """When it was stored: wall time in nanoseconds."""
    lifetime: float = 0.0
    size: int = 0
    """Bytes of its body."""
    total: int = 0
    """The sum of the bytes of its frame but for header and checksum."""
    told: bool = False
    """Its source had its receipt when it was stored."""
    refused: str = ""
    legs: dict[str, Leg] = field(default_factory=dict[str, Leg])
    position: int = -1
    """Of its STORED row in the log."""

    @property
    def checksum(self) -> bytes:
        """As it came."""
        return self.head[SUM_AT : SUM_AT + SUM]

    def has(self, checksum: bytes, header: int) -> bool:
        """May an answer with this checksum be to this order?"""
        is_unsummed = checksum == UNSUMMED == self.checksum
        return is_unsummed or checksum in checksums(self.total + header)

    @property
    def is_open(self) -> bool:
        return any(not leg.end for leg in self.legs.values())

    @property
    def failed(self) -> list[Leg]:
        """Those that have not confirmed it."""
        return [leg for leg in self.legs.values() if leg.end and leg.end != r.DELIVERED]


class Queue:
    """The orders of one recipient that are open, each stream in its order."""

    def __init__(self) -> None:
        self.streams: dict[Stream, deque[Leg]] = {}
        self.held: dict[Stream, int] = {}
        """They have stopped behind the order with this number, which has failed."""
        self.waiting = 0

    def add(self, leg: Leg) -> None:
        self.streams.setdefault(leg.stream, deque()).append(leg)
        self.waiting += 1

    def remove(self, leg: Leg) -> None:
        stream = self.streams[leg.stream]
        stream.remove(leg)
        if not stream:
            del self.streams[leg.stream]
        self.waiting -= 1


class State:
    """`apply` is the only way to change it."""

    def __init__(self, horizon: float = 0.0, known: int = KNOWN_LEAST) -> None:
        """`known`: orders of which the outcome is known at least; and all of the last `horizon` seconds."""
        self.orphans = 0
        """Rows about orders that the record does not have."""
        self.numbered = 0
        """The highest number of an order."""
        self.open: dict[int, Order] = {}
        self.known: OrderedDict[Id, Order] = OrderedDict()
        self.queues: dict[str, Queue] = {}
        self.holds: set[str] = set()
        """Agents, and names of streams, to which operators let nothing go."""
        self.numbers: dict[int, Order] = {}
        """Those of `known` that were stored, by their numbers."""
        self.highest: dict[str, bytes] = {}
        """By source: the highest stamp of an order that was stored by its stamp alone."""
        self.forgotten: dict[str, bytes] = {}
        """By source: the highest such stamp whose outcome is no longer known."""
        self._answered: dict[tuple[str, str, bytes, int], list[Order]] = {}
        """Known orders by recipient, source, stamp, and sum modulo 1000: so a receipt names them."""
        self._most, self._horizon_ns = known, round(horizon * 1e9)

    def queue(self, recipient: str) -> Queue:
        return self.queues.setdefault(recipient, Queue())

    def named(self, recipient: str, source: str, stamp: bytes, checksum: bytes, header: int) -> list[Order]:
        """The orders that a receipt of a recipient may be for, the open ones first: it has stamp and sum alone."""
        rests_of = (NO_SUM,) if checksum == UNSUMMED else rests(checksum, header)
        known = [one for rest in rests_of for one in self._answered.get((recipient, source, stamp, rest), ())]
        found = [one for one in known if one.legs[recipient].tries and one.has(checksum, header)]
        return sorted(found, key=lambda order: (bool(order.legs[recipient].end), order.number))

    def apply(self, row: Row, position: int = -1) -> None:
        """`position`: of the row in the log."""
        if row.kind == r.STORED:
            self._store(row, position)
        elif row.kind == r.REFUSED and row.head:
            self._know(self._order(row))
        elif row.kind == r.SENT and (leg := self._leg(row)) is not None:
            leg.tries = row.tries
        elif row.kind in r.ENDS and (leg := self._leg(row)) is not None:
            self._end(leg, row)
        elif row.kind == r.HELD:
            self.queue(row.recipient).held[row.source, row.destination] = row.order
        elif row.kind == r.LATE and (order := self.numbers.get(row.order)) is not None:
            order.legs[row.recipient].end = r.DELIVERED
            held = self.queue(row.recipient).held
            if held.get((row.source, row.destination)) == row.order:
                del held[row.source, row.destination]
        elif row.kind == r.ACT:
            self._act(row)

    def _act(self, row: Row) -> None:
        verb, _, whom = row.cause.partition(" ")
        if verb == "hold":
            self.holds.add(whom)
        elif verb == "release":
            self.holds.discard(whom)
            for recipient, queue in self.queues.items():
                for stream in [one for one in queue.held if whom in (recipient, stream_name(one))]:
                    del queue.held[stream]

    def is_held(self, recipient: str, stream: Stream) -> bool:
        """Behind an order that has failed, or by an operator: nothing of it is sent."""
        by_operator = self.holds and not self.holds.isdisjoint((recipient, stream_name(stream)))
        return bool(by_operator) or stream in self.queue(recipient).held

    def _order(self, row: Row) -> Order:
        frame = r.frame_of(row.head, row.body)
        id = Id(row.source, frame.stamp, row.digest if row.by_content else b"")
        found = Order(row.order, id, row.source, row.destination, row.head, row.digest)
        found.priority, found.at, found.lifetime = row.priority, row.at, row.lifetime
        found.refused, found.told = row.cause if row.kind == r.REFUSED else "", row.told
        found.size, found.total = len(row.body), total_of(frame)
        return found

    def _store(self, row: Row, position: int) -> None:
        order = self._order(row)
        order.position = position
        order.legs = {name: Leg(order, name) for name in row.recipients}
        self.numbered = max(self.numbered, order.number)
        self._know(order)
        if order.legs:
            self.open[order.number] = order
        for leg in order.legs.values():
            self.queue(leg.recipient).add(leg)
            for key in _answer_keys(leg):
                self._answered.setdefault(key, []).append(order)
        if not row.by_content:
            self.highest[row.source] = max(order.id.stamp, self.highest.get(row.source, b""))

    def _leg(self, row: Row) -> Leg | None:
        """None: the record does not have the order, for it was salvaged."""
        order = self.open.get(row.order)
        leg = order.legs.get(row.recipient) if order is not None else None
        self.orphans += leg is None
        return leg

    def _end(self, leg: Leg, row: Row) -> None:
        leg.end, leg.cause = row.kind, row.cause
        self.queue(leg.recipient).remove(leg)
        if not leg.order.is_open:
            del self.open[row.order]

    def _know(self, order: Order) -> None:
        if (before := self.known.get(order.id)) is not None:  # it was refused, or has failed: the newest counts
            self._forget(before)
        self.known[order.id] = order
        if order.number:
            self.numbers[order.number] = order
        for _ in range(2 * (len(self.known) > self._most)):
            oldest = next(iter(self.known.values()))
            if oldest.is_open:
                self.known.move_to_end(oldest.id)
            elif oldest.at < order.at - self._horizon_ns:
                self._forget(oldest)

    def _forget(self, order: Order) -> None:
        del self.known[order.id]
        if self.numbers.pop(order.number, None) is not None and not order.id.digest:
            self.forgotten[order.source] = max(order.id.stamp, self.forgotten.get(order.source, b""))
        for key in (key for leg in order.legs.values() for key in _answer_keys(leg)):
            left = self._answered.pop(key)
            left.remove(order)
            if left:
                self._answered[key] = left


def _answer_keys(leg: Leg) -> list[tuple[str, str, bytes, int]]:
    """By the sum that its recipient sees, and where it came without one, by none."""
    order = leg.order
    rests_of = (order.total % 1000, NO_SUM) if order.checksum == UNSUMMED else (order.total % 1000,)
    return [(leg.recipient, order.source, order.id.stamp, rest) for rest in rests_of]


def stream_name(stream: Stream) -> str:
    """As operators say it: `AODB:GATE`."""
    return ":".join(stream)


def digest_of(head: bytes, body: bytes) -> bytes:
    """Of source, destination, type, command and data."""
    return blake2b(head[:8] + head[-2:] + body, digest_size=8).digest()
