"""What a relay knows of orders: a pure function of its rows.

An order is open until each of its recipients has an end. Of the last ones each has its outcome, by which an order that
comes again gets its last answer again. `State.lines` and `State.of_lines` are a checkpoint: whatever `apply` keeps of
rows has to be in it, for a relay that starts does not read the rows before.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from sys import intern
from typing import Any, Final, NamedTuple, Self

from rtmw.relay import rows as r
from rtmw.relay._frames import total_of
from rtmw.relay.frame import ALL, HEAD_ROW, SUM, SUM_AT, UNSUMMED, Filter, checksums, rests, stamp_of
from rtmw.relay.rows import Row

KNOWN_LEAST: Final = 65_536
"""Orders of which the outcome is known."""
NO_SUM: Final = -1


_PLAIN: Final = ("numbered", "orphans", "sealed", "seal", "signer")
"""Fields of a state that a checkpoint has as they are, and of an order."""
_FIELDS: Final = attrgetter("number", "priority", "at", "lifetime", "size", "total", "told", "refused", "position")


class Id(NamedTuple):
    """What makes an order that order: of foreign agents with its content, for many of them stamp whole seconds."""

    source: str
    stamp: bytes
    digest: bytes = b""


Stream = tuple[str, str]
"""Source and destination: of one recipient, the order of these holds."""


@dataclass(eq=False, slots=True)
class Leg:
    """An order, for one of its recipients."""

    order: Order
    recipient: str
    tries: int = 0
    """Tries that have left, as the rows say."""
    end: str = ""
    """One of ENDS; empty: the leg is open."""
    cause: str = ""
    attempt: int = 0
    """Number of the try that runs, sent or not; 0: none. Neither this nor what follows is in rows."""
    due: float = math.inf
    """When that try is over, and when its lifetime is, in seconds by the clock of the machine."""
    ends: float = math.inf


@dataclass(eq=False, slots=True)
class Order:
    """One that was stored, or refused: then it has no legs."""

    number: int
    id: Id
    source: str
    destination: str
    head: bytes
    digest: bytes
    stream: Stream = field(init=False)
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
    position: int = -1
    """Position of its STORED row in the log."""
    legs: dict[str, Leg] = field(default_factory=dict[str, Leg])
    left: int = 0
    """Legs that are open."""

    @property
    def checksum(self) -> bytes:
        """The checksum that its frame came with."""
        return self.head[SUM_AT : SUM_AT + SUM]

    def has(self, checksum: bytes, header: int) -> bool:
        """May an answer with this checksum be to this order?"""
        return checksum == self.checksum or checksum in checksums(self.total + header)

    def __post_init__(self) -> None:
        self.stream = self.source, self.destination

    @property
    def is_open(self) -> bool:
        return self.left > 0

    @property
    def failed(self) -> list[Leg]:
        """Legs that have ended without a confirmation."""
        return [leg for leg in self.legs.values() if leg.end and leg.end != r.DELIVERED]


class Queue:
    """The orders of one recipient that are open, each stream in its order."""

    def __init__(self) -> None:
        self.streams: dict[Stream, deque[Leg]] = {}
        self.held: dict[Stream, int] = {}
        """Streams that have stopped, each with the number of the failed order behind which it waits."""
        self.waiting = self.bytes = 0

    def add(self, leg: Leg) -> None:
        self.streams.setdefault(leg.order.stream, deque()).append(leg)
        self.waiting += 1
        self.bytes += leg.order.size

    def remove(self, leg: Leg) -> None:
        stream = self.streams[leg.order.stream]
        stream.remove(leg)
        if not stream:
            del self.streams[leg.order.stream]
        self.waiting -= 1
        self.bytes -= leg.order.size


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
        self.queues = defaultdict[str, Queue](Queue)
        self.holds: set[str] = set()
        """Agents, and names of streams, to which operators let nothing go."""
        self.numbers: dict[int, Order] = {}
        """Those of `known` that were stored, by their numbers."""
        self.follows: dict[str, dict[str, set[Filter]]] = {}
        """The subscriptions by subject and agent."""
        self.highest: dict[str, bytes] = {}
        """By source: the highest stamp of an order that was stored by its stamp alone."""
        self.forgotten: dict[str, bytes] = {}
        """By `stream_name`: the highest such stamp whose outcome is no longer known. An agent sends in the order of its
        stamps to each destination, but not to all of them: it holds back orders for one that takes few."""
        self._answered: dict[tuple[str, bytes, int], list[Order]] = {}
        """Known orders by source, stamp, and sum modulo 1000: so a receipt names them."""
        self.sealed, self.seal, self.signer = 0, "", ""
        """The last seal: the position up to which it reaches, its hash (hexadecimal), and who has signed it."""
        self._most, self._horizon_ns = known, round(horizon * 1e9)

    def named(self, recipient: str, source: str, stamp: bytes, checksum: bytes, header: int) -> Leg | None:
        """What a receipt of a recipient is for, an open one before others: it has stamp and sum alone."""
        rests_of = (NO_SUM,) if checksum == UNSUMMED else rests(checksum, header)
        known = [one for rest in rests_of for one in self._answered.get((source, stamp, rest), ())]
        legs = (leg for one in known if (leg := one.legs.get(recipient)) and leg.tries and one.has(checksum, header))
        return min(legs, key=lambda leg: (bool(leg.end), leg.order.number), default=None)

    def apply(self, row: Row, position: int = -1) -> None:
        """`position`: of the row in the log."""
        if row.kind == r.STORED:
            self._store(row, position)
        elif row.kind == r.REFUSED and row.head:
            self._know(self._order(row, position))
        elif row.kind == r.SENT and (leg := self._leg(row)) is not None:
            leg.tries = row.tries
        elif row.kind in r.ENDS and (leg := self._leg(row)) is not None:
            self._end(leg, row)
        elif row.kind in (r.FOLLOWED, r.UNFOLLOWED):
            self._follow(row, position)
        elif row.kind == r.HELD:
            self.queues[row.recipient].held[row.source, row.destination] = row.order
        elif row.kind == r.LATE and (order := self.numbers.get(row.order)) is not None:
            order.legs[row.recipient].end = r.DELIVERED
            held = self.queues[row.recipient].held
            if held.get((row.source, row.destination)) == row.order:
                del held[row.source, row.destination]
        elif row.kind == r.ACT:
            self._act(row)
        elif row.kind == r.SEAL:
            self.sealed, self.seal = int.from_bytes(row.body[:8], "little"), row.digest.hex()
        elif row.kind == r.SIGNER:
            self.signer = row.version

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
        return bool(by_operator) or stream in self.queues[recipient].held

    # ---- a checkpoint ----

    def lines(self) -> Iterator[str]:
        """All of it, as lines of JSON (docs/formats/relay-format.md). Another thread may iterate while this state goes
        on: what is open is read here, and what has ended changes by LATE alone, which may be applied twice."""
        queues = self.queues.items()
        held = [[name, *stream, number] for name, queue in queues for stream, number in queue.held.items()]
        head = {name: getattr(self, name) for name in _PLAIN} | {"held": held}
        head |= {name: getattr(self, name) for name in ("holds", "highest", "forgotten", "follows")}
        orders = [_packed(one) if one.is_open else one for one in self.known.values()]
        packed = (_packed(one) if isinstance(one, Order) else one for one in orders)
        encode = json.JSONEncoder(default=_plain).encode
        return chain([encode(head)], map(encode, packed))

    @classmethod
    def of_lines(cls, lines: Iterable[str | bytes], horizon: float = 0.0, known: int = KNOWN_LEAST) -> Self:
        """ValueError, LookupError, TypeError and AttributeError: they are no lines of a state."""
        state, found = cls(horizon, known), iter(lines)
        head = json.loads(next(found, "{}"))
        for name in _PLAIN:
            setattr(state, name, head[name])
        state.highest, state.forgotten = (
            {key: one.encode("latin-1") for key, one in head[name].items()} for name in ("highest", "forgotten")
        )
        state.holds = set(head["holds"])
        state.follows = {
            subject: {name: {Filter(*one) for one in filters} for name, filters in found.items()}
            for subject, found in head["follows"].items()
        }
        for line in found:
            state._keep(_unpacked(json.loads(line)))
        for order in sorted(state.open.values(), key=lambda one: one.number):
            state._line_up(order)
        for recipient, source, destination, number in head["held"]:
            state.queues[recipient].held[source, destination] = number
        return state

    def _keep(self, order: Order) -> None:
        self.known[order.id] = order
        if order.number:
            self.numbers[order.number] = order
        if order.is_open:
            self.open[order.number] = order
        for key in _answer_keys(order):
            self._answered.setdefault(key, []).append(order)

    def _line_up(self, order: Order) -> None:
        for leg in order.legs.values():
            if not leg.end:
                self.queues[leg.recipient].add(leg)

    # ---- rows ----

    def _follow(self, row: Row, position: int) -> None:
        """The end of the widest subscription of an agent ends each that it has."""
        self._know(self._order(row, position))
        found, filter = self.follows.setdefault(row.destination, {}), Filter.decode(row.body)
        if row.kind == r.FOLLOWED:
            found.setdefault(row.source, set()).add(filter)
            return
        left = found.pop(row.source, set()) - {filter}
        if left and filter != ALL:
            found[row.source] = left

    def _order(self, row: Row, position: int) -> Order:
        if len(row.head) != HEAD_ROW:
            raise ValueError(f"a head of {len(row.head)} bytes; it has {HEAD_ROW}")
        return _made(
            row.order, row.source, row.destination, row.head, row.digest, row.by_content, row.priority, row.at,
            row.lifetime, len(row.body), total_of(row.head, row.body), row.told,
            row.cause if row.kind == r.REFUSED else "", position,
        )  # fmt: skip

    def _store(self, row: Row, position: int) -> None:
        order = self._order(row, position)
        order.legs = {name: Leg(order, name) for name in map(intern, row.recipients)}
        order.left = len(order.legs)
        self.numbered = max(self.numbered, order.number)
        self._know(order)
        self._keep(order)
        self._line_up(order)
        if not row.by_content:
            self.highest[row.source] = max(order.id.stamp, self.highest.get(row.source, b""))

    def _leg(self, row: Row) -> Leg | None:
        """None: the record does not have the order, for it was salvaged."""
        order = self.open.get(row.order)
        leg = order.legs.get(row.recipient) if order is not None else None
        self.orphans += leg is None
        return leg

    def _end(self, leg: Leg, row: Row) -> None:
        leg.end, leg.cause = intern(row.kind), row.cause
        leg.order.left -= 1
        self.queues[leg.recipient].remove(leg)
        if not leg.order.left:
            del self.open[row.order]

    def _know(self, order: Order) -> None:
        if (before := self.known.get(order.id)) is not None:  # it was refused, or has failed: the newest counts
            self._forget(before, is_replaced=True)
        self.known[order.id] = order
        for _ in range(2 * (len(self.known) > self._most)):
            oldest = next(iter(self.known.values()))
            if oldest.is_open:
                self.known.move_to_end(oldest.id)
            elif oldest.at < order.at - self._horizon_ns:
                self._forget(oldest)

    def _forget(self, order: Order, *, is_replaced: bool = False) -> None:
        del self.known[order.id]
        if self.numbers.pop(order.number, None) is not None and not (order.id.digest or is_replaced):
            stream = stream_name(order.stream)
            self.forgotten[stream] = max(order.id.stamp, self.forgotten.get(stream, b""))
        for key in _answer_keys(order):
            left = self._answered.pop(key)
            left.remove(order)
            if left:
                self._answered[key] = left


def _answer_keys(order: Order) -> list[tuple[str, bytes, int]]:
    """The keys by which an answer is found: the sum that recipients see, and NO_SUM if the order came without one. An
    order that was refused has none."""
    sums = (order.total % 1000, NO_SUM) if order.checksum == UNSUMMED else (order.total % 1000,)
    return [(order.source, order.id.stamp, rest) for rest in sums if order.legs]


def stream_name(stream: Stream) -> str:
    """The name that operators give a stream, such as `AODB:GATE`."""
    return ":".join(stream)


def _made(
    number: int, source: str, destination: str, head: bytes, digest: bytes, by_content: bool, *rest: Any
) -> Order:
    """`rest`: as _FIELDS has it. Names are interned: rows and lines have copies, which take memory."""
    id = Id(intern(source), stamp_of(head), digest if by_content else b"")
    return Order(number, id, id.source, intern(destination), head, digest, *rest)


def _packed(order: Order) -> list[Any]:
    legs = [[leg.recipient, leg.tries, leg.end, leg.cause] for leg in order.legs.values()]
    id = [order.source, order.destination, order.head, order.digest.hex(), bool(order.id.digest)]
    return [*id, legs, *_FIELDS(order)]


def _unpacked(fields: list[Any]) -> Order:
    source, destination, head, digest, by_content, legs, number, *rest = fields
    order = _made(number, source, destination, head.encode("latin-1"), bytes.fromhex(digest), by_content, *rest)
    for recipient, tries, end, cause in legs:
        order.legs[intern(recipient)] = Leg(order, intern(recipient), tries, intern(end), cause)
        order.left += not end
    return order


def _plain(one: bytes | set[Any]) -> Any:
    """Each byte as a character: addresses and stamps stay readable in JSON."""
    return one.decode("latin-1") if isinstance(one, bytes) else sorted(one)
