"""A topic in one direction and lane: the DDS endpoint, and the engine's route between it and the bus.

A topic crosses in lanes: one for each reliability that somebody offers, so that none is weakened by another; and of
what comes in, writers that keep messages have another lane than those that do not. Messages between nodes have other
lanes than messages from and to plain programs (wire.py). Each lane has DDS endpoints of its own, and of a sample
that several readers of a node receive, only the one of its lane makes a message.

The user data of a node's endpoint say its lane, and the type as rtmw describes it. So a node needs no type lookup for
what comes from another node, and numpy arrays keep their type.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rtmw.clock import CLOCK
from rtmw.errors import RegionDamaged, RtmwError
from rtmw.net.dds.discovery import Endpoint, Refused, endpoint_of
from rtmw.net.dds.idl_class import idl_class, is_opaque
from rtmw.net.dds.library import (
    KNOWS_DATAGRAMS,
    DDSException,
    DomainParticipant,
    Engine,
    Route,
    Topic,
    matched,
    matched_endpoint,
)
from rtmw.net.dds.wire import FOR_PLAIN, MARK, NODES, Endpoints, Names, Offer, Request
from rtmw.publisher import wire_type
from rtmw.qos import Reliability
from rtmw.types import MessageType, carried_type
from rtmw.types.message_type import DESCRIPTION_LIMIT

KEEPS = 4
"""LANE_KEEPS of engine.h."""
AMONG_NODES = 8
"""LANE_NODES of engine.h."""

_LETTERS = {b"T": Reliability.TIMELY, b"A": Reliability.ADAPTIVE, b"R": Reliability.RELIABLE}


@dataclass(frozen=True)
class Lane:
    """Publishers or writers that offer the same."""

    reliability: Reliability
    keeps: bool
    """It keeps messages for late subscribers."""
    is_plain: bool = False
    """From or to plain programs: in the default partition, and not in that of nodes."""

    @property
    def code(self) -> int:
        """The number by which the engine knows the lane."""
        return self.reliability | (KEEPS if self.keeps else 0) | (0 if self.is_plain else AMONG_NODES)

    @property
    def letter(self) -> bytes:
        """The letter by which a node's endpoint says its lane. Lower case: the lane keeps messages."""
        letter = next(letter for letter, reliability in _LETTERS.items() if reliability is self.reliability)
        return letter.lower() if self.keeps else letter


def lane_of(endpoint: Endpoint) -> Lane:
    """The lane of an endpoint. A node's endpoint says it. A plain program offers RELIABLE or TIMELY, whatever it calls
    it."""
    described, is_plain = endpoint.description, endpoint.partitions != (NODES,)
    if described is not None:
        return Lane(_LETTERS.get(described[:1].upper(), Reliability.TIMELY), described[:1].islower(), is_plain)
    return Lane(Reliability.RELIABLE if endpoint.is_reliable else Reliability.TIMELY, endpoint.history > 0, is_plain)


def describe_endpoint(lane: Lane, type: MessageType) -> bytes:
    return lane.letter + type.description


def user_data(lane: Lane, type: MessageType) -> bytes:
    """The user data of a node's endpoint in this lane. An endpoint for plain programs says that, and no more."""
    return FOR_PLAIN if lane.is_plain else MARK + describe_endpoint(lane, type)


def type_in(described: bytes) -> MessageType:
    """Raises RegionDamaged or UnsupportedType: for a description that no node writes, or one of another version."""
    if len(described) > DESCRIPTION_LIMIT + 1:  # before it is kept
        raise RegionDamaged(f"a description of {len(described)} bytes; none has more than {DESCRIPTION_LIMIT + 1}")
    found = _judged(described)
    if isinstance(found, tuple):
        error, words = found
        raise error(words)
    return found


@lru_cache(maxsize=4096)
def _judged(described: bytes) -> MessageType | tuple[type[RtmwError], str]:
    """The type, or why there is none: a refusal is remembered, since its endpoint is looked at many times a second."""
    try:
        return carried_type(described[1:])
    except RtmwError as error:
        return type(error), str(error)


log = logging.getLogger("rtmw.node")


def _dds_topic(participant: DomainParticipant, names: Names, topic: str, type: MessageType) -> Any:
    try:
        return Topic(participant, names.topic(topic), idl_class(type, names.type))
    except DDSException as error:
        raise RtmwError(
            f"DDS takes no topic {names.topic(topic)!r} of type {type.name}; names have letters, digits and / _ . -, "
            f"and no blanks ({error})"
        ) from error


_PREFIX = 24
"""Digits of a GUID that all endpoints of a participant share."""
_RENEWAL_S = 2.0
"""Within which another writer takes over that was made for no other policy: where that takes longer, what was sent is
on its way, and the one that there is stays. So long the next one waits, too."""


class _Ending:
    """A route with nothing more to do but to deliver what it has, for `lease` at most. It may be needed again."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._close_by = 0.0

    def is_delivered(self) -> bool:
        raise NotImplementedError

    def may_close(self) -> bool:
        """May the route close? Ask again and again, once it should: all is delivered, or the lease since the first call
        is over."""
        now = CLOCK.monotonic()
        self._close_by = self._close_by or now + self._lease
        return now >= self._close_by or self.is_delivered()

    def stay(self) -> None:
        """Takes the wish to close back."""
        self._close_by = 0.0


class Outgoing(_Ending):
    """A lane of a topic that has publishers here, for nodes or for plain programs. The engine takes its messages while
    such read them."""

    def __init__(
        self, engine: Engine, endpoints: Endpoints, names: Names, topic: str, type: MessageType,
        is_plain: bool, offer: Offer, lease: float, origin: str, is_linked: Callable[[Endpoint], bool],
    ) -> None:  # fmt: skip
        """`is_linked`: does a reader get the topic over a link?"""
        self.topic, self.type, self.is_plain, self.offer, self._origin = topic, type, is_plain, offer, origin
        super().__init__(lease)
        self._engine, self._endpoints, self._is_linked = engine, endpoints, is_linked
        self._entity = _dds_topic(endpoints.participant, names, topic, type)
        self._writer = self._make_writer(offer)
        self._heir: tuple[Offer, Any] | None = None
        """The writer that is to take over, and what it offers."""
        self._renew_by = 0.0
        """CLOCK_MONOTONIC, until when the heir may take over that was made last, for no policy; 0: it is for one."""
        self._keeping: list[tuple[int, Any]] = []
        """Writers of before, for what they keep for late readers; each until so many messages have been sent."""
        self._route: Route | None = None
        self._limits, self._rates = (0, 0), (0, 0)
        self.readers: tuple[Endpoint, ...] = ()
        self._matched: dict[int, tuple[tuple[int, ...], tuple[Endpoint, ...]]] = {}
        """The handles of a writer's readers, and the endpoints that they belong to, as far as they were looked up; by
        writer."""
        self._before: Counter[str] = Counter()
        """Counters of routes that have been closed since."""
        self._told_missed, self._unsent = 0, Counter[str]()
        self._total = -1
        self._kept: dict[str, tuple[str, int]] = {}
        """Regions of nodes that have ended and may be back (succession.py): the participant that read here, and until
        when it is waited for, CLOCK_MONOTONIC in nanoseconds."""

    def _make_writer(self, offer: Offer) -> Any:
        says = user_data(self._lane(offer), self.type)
        return self._endpoints.writer(self._entity, offer.qos(says, self._origin), self.is_plain)

    @property
    def lane(self) -> Lane:
        """The lane in which its writer is now."""
        return self._lane(self.offer)

    def _lane(self, offer: Offer) -> Lane:
        return Lane(offer.reliability, offer.history > 0, self.is_plain)

    def change(self, offer: Offer) -> None:
        """Offer something else, if it is; where DDS needs another writer for it, nothing is lost meanwhile."""
        now = self._heir[0] if self._heir else self.offer
        if offer == now:
            return
        if offer.fixed != now.fixed:
            self._heir, self._renew_by = (offer, self._make_writer(offer)), 0.0
        elif self._heir:
            self._heir[1].set_qos(offer.changeable())
            self._heir = (offer, self._heir[1])
        else:
            self._writer.set_qos(offer.changeable())
            self.offer = offer

    def renew(self, participant: str) -> bool:
        """Let another writer take over that offers what this one does, as soon as all that was sent is acknowledged.
        False: that participant does not read it, or another writer is about to take over, or has just done so."""
        is_read = participant in {reader.participant for reader in self.readers}
        if not is_read or self._heir is not None or CLOCK.monotonic() < self._renew_by:
            return False
        self._heir, self._renew_by = (self.offer, self._make_writer(self.offer)), CLOCK.monotonic() + _RENEWAL_S
        return True

    @property
    def number(self) -> int:
        """The number of its topic and type among nodes; 0: nothing is sent."""
        return self._route.number() if self._route is not None else 0

    @property
    def last(self) -> int:
        """The sequence of the last sample that was sent; 0: none was."""
        return self._route.last() if self._route is not None else 0

    @property
    def is_kept(self) -> bool:
        """It takes nothing, for a node that reads it has ended, and may be back."""
        return bool(self._kept)

    def keep(self, participant: str, region: str, until_ns: int) -> tuple[int, bool] | None:
        """Take nothing until the node that follows the participant reads it, which has the same region, or until that
        time. The sequence of the last sample, and whether it is acknowledged; None: it does not read this, or not all
        that was taken is sent yet."""
        if self._route is None:
            return None
        if self._kept.get(region, ("", 0))[0] != participant:
            if participant not in {reader.participant for reader in self.readers}:
                return None
            self._kept[region] = (participant, until_ns)
        return self._route.keep(max(until for _, until in self._kept.values()))

    def _see_kept(self, region_of: Callable[[Endpoint], str]) -> None:
        """Go on when all are back that it waits for, or their time is over."""
        now, readers = CLOCK.monotonic_ns(), {(region_of(one), one.participant) for one in self.readers}
        left = {
            region: (before, until)
            for region, (before, until) in self._kept.items()
            if now < until and not any(one == region and participant != before for one, participant in readers)
        }
        if left != self._kept and self._route is not None:
            self._route.keep(max((until for _, until in left.values()), default=0))
        self._kept = left

    def refresh(
        self, may_pack: bool, may_check: bool, may_date: bool, is_news: bool, region_of: Callable[[Endpoint], str]
    ) -> None:
        """Open the route when somebody reads, thin as far as all readers wish, and close it when the last has gone.

        `may_pack`: all that may read the topic know packs (trailer.h). Messages kept for later readers are not packed.
        `may_check`, `may_date`: they know CRCs, and lifetimes that say when they were sent (trailer.h).
        `is_news`: what DDS shows has changed, such as what a reader asks for. `region_of`: that of a reader's node.
        """
        if is_news:
            self._matched.clear()
        self.readers = self._readers_of(self._writer, self.offer)
        if self._heir is not None:
            self._hand_over(*self._heir)
        if self._kept:
            self._see_kept(region_of)
        if self._route is not None and not self.readers and not self._kept:
            self._stop()
        if not self.readers:
            return
        limits = (self.offer.depth, min(reader.min_interval_ns for reader in self.readers))
        if self._route is None:
            self._route = self._open(*limits)
        elif limits != self._limits:
            self._route.adjust(*limits, self._may_zero_copy(self.offer))
        self._limits = limits
        self._route.pack(may_pack and not self.offer.history, may_check, may_date)
        sent = self.counters()["sent"]
        self._keeping = [(until, writer) for until, writer in self._keeping if sent < until]

    def _readers_of(self, writer: Any, offer: Offer) -> tuple[Endpoint, ...]:
        """But for those by which nodes read another lane: DDS matches best-effort readers with every writer, and what
        nodes read of plain programs with what others write for such."""
        lane, handles = self._lane(offer), matched(writer._ref, True)
        before, readers = self._matched.get(writer._ref, ((), ()))
        if before != handles:
            shown = (_shown(writer, handle) for handle in handles)
            readers = tuple(reader for reader in shown if reader is not None)
            self._matched[writer._ref] = (handles, readers)
        served = (reader for reader in readers if not reader.is_for_plain and not self._is_linked(reader))
        return tuple(reader for reader in served if _is_of(reader, lane))

    def _hand_over(self, offer: Offer, heir: Any) -> None:
        """Once everybody who reads it reads the heir too. A node may read that through another reader."""
        if self._renew_by and CLOCK.monotonic() > self._renew_by:
            self._heir = None
            return
        readers = self._readers_of(heir, offer)
        if not {_who(reader) for reader in self.readers} <= {_who(reader) for reader in readers}:
            return
        if self._route is not None:
            self._route.adjust(offer.depth, self._limits[1], self._may_zero_copy(offer))
            if not self._route.hand_over(heir._ref, self.offer.reliability is Reliability.TIMELY):
                return
            if self.offer.history:
                self._keeping.append((self.counters()["sent"] + offer.history, self._writer))
        self._writer, self.offer, self.readers, self._heir = heir, offer, readers, None

    def _stop(self) -> None:
        """Messages are kept by the bus alone again: the next reader gets them from there."""
        self._close_route()
        self._keeping = []
        if self.offer.history:
            self._writer = self._make_writer(self.offer)

    def _close_route(self, park_ns: int = 0) -> None:
        if self._route is None:
            return
        self._route.park(park_ns)
        self._route.stop()
        self._before.update(self._route.counters())
        self._route.close()
        self._route, self._kept = None, {}

    def _may_zero_copy(self, offer: Offer) -> bool:
        return not offer.history and is_opaque(self.type)

    def limit(self, bytes_per_second: int, places: int) -> None:
        """Send no more than that of this lane; 0: no limit. `places`: limited hosts that read it (peer_rates.py)."""
        if (bytes_per_second, places) != self._rates and self._route is not None:
            self._route.limit(bytes_per_second, places)
        self._rates = (bytes_per_second, places)

    def _open(self, depth: int, min_interval_ns: int) -> Route:
        route = self._engine.outbound(
            topic=self.topic,
            type=wire_type(self.type),
            writer=self._writer._ref,
            octets=is_opaque(self.type),
            reliability=self.offer.reliability,
            depth=depth,
            history=self.offer.history,
            min_interval_ns=min_interval_ns,
            lease_ns=int(self._lease * 1e9) if self.offer.reliability is Reliability.RELIABLE else 0,
            may_zero_copy=self._may_zero_copy(self.offer),
            is_plain=self.is_plain,
            sent=self._before.pop("sent", 0),
        )
        route.limit(*self._rates)
        return route

    def counters(self) -> dict[str, int]:
        now = self._route.counters() if self._route is not None else {}
        return {name: self._before[name] + now.get(name, 0) for name in {**now, **self._before}}

    def has_moved(self) -> bool:
        """Was anything counted since it was asked last?"""
        before, now = self._total, sum(self._before.values()) + (self._route.total() if self._route is not None else 0)
        self._total = now
        return now != before

    @property
    def is_idle(self) -> bool:
        """Nothing is left to be done for it until something changes."""
        return self._heir is None and not self._keeping and not self._close_by and not self._kept

    def is_delivered(self) -> bool:
        """All that was published here has left, and what is RELIABLE has been acknowledged."""
        return self._route is None or self._route.delivered()

    def held(self) -> int:
        """Messages that it has taken from the bus, and not sent."""
        return self._route.held() if self._route is not None else 0

    def unsent(self) -> Counter[str]:
        """What expired, or was thinned, before it was sent, since this was asked last."""
        counted = self.counters()
        before, self._unsent = self._unsent, Counter({cause: counted.get(cause, 0) for cause in ("expired", "thinned")})
        return self._unsent - before

    def tell_missed(self) -> None:
        """Say in the log what the bus could not keep for this node since it was asked last."""
        missed = self.counters().get("missed", 0)
        if missed > self._told_missed:
            log.warning(
                "topic %s: %d messages were missed before the node took them", self.topic, missed - self._told_missed
            )
        self._told_missed = missed

    def close(self, park_ns: int = 0) -> dict[str, int]:
        """Returns all that was counted. `park_ns`: for so long, messages not yet taken are kept for the next node."""
        self._close_route(park_ns)
        counted = self.counters()
        del self._route, self._writer, self._heir, self._keeping, self._entity
        return counted


def _shown(writer: Any, reader: int) -> Endpoint | None:
    """None: it has left, or cannot be read, which discovery counts."""
    row = matched_endpoint(writer._ref, True, reader)
    try:
        return None if row is None else endpoint_of(row)
    except Refused:
        return None


def _is_of(reader: Endpoint, lane: Lane) -> bool:
    """Is the reader in this lane? For plain programs, and nodes that know no partitions, a writer's lane is its DDS
    reliability."""
    return reader.description is None or lane.is_plain or lane_of(reader) == lane


def _who(reader: Endpoint) -> str:
    return reader.guid if reader.description is None else reader.participant


class Incoming(_Ending):
    """A lane of a topic that has subscribers here and writers far away."""

    def __init__(
        self, engine: Engine, endpoints: Endpoints, names: Names, topic: str, type: MessageType,
        lane: Lane, request: Request, offered: Offer, lease: float, newest: bytes, on_bus: dict[int, int],
    ) -> None:  # fmt: skip
        super().__init__(lease)
        self.topic, self.type, self.lane, self.request = topic, type, lane, request
        self._endpoints = endpoints
        self._entity = _dds_topic(endpoints.participant, names, topic, type)
        self._reader = self._make_reader(request)
        self._heir: tuple[Request, Any] | None = None
        """The reader that is to take over, and what it asks for."""
        self._guids: dict[int, str] = {}
        """The GUID of each writer that it hears, by its handle; empty for a writer that repeats messages for plain
        programs."""
        self._total = -1
        self._route = engine.inbound(
            topic=topic, type=wire_type(type), reader=self._reader._ref, octets=is_opaque(type), lane=lane.code,
            reliability=offered.reliability, priority=offered.priority, depth=offered.depth, history=offered.history,
            wants_old=request.history > 0, may_receive_in_loan=KNOWS_DATAGRAMS,
            is_keyed=not self._entity.data_type.__idl__.keyless, newest=newest, on_bus=on_bus,
        )  # fmt: skip

    def _make_reader(self, request: Request) -> Any:
        qos = request.qos(user_data(self.lane, self.type))
        reader = self._endpoints.reader(self._entity, qos, self.lane.is_plain)
        if request.min_interval_ns:
            reader.set_qos(request.changeable())
        return reader

    def change(self, request: Request) -> None:
        """Ask for something else, if it is; where DDS needs another reader for it, nothing is lost meanwhile."""
        now = self._heir[0] if self._heir else self.request
        if request.fixed != now.fixed:
            self._heir = (request, self._make_reader(request))
        elif request.min_interval_ns != now.min_interval_ns:
            (self._heir[1] if self._heir else self._reader).set_qos(request.changeable())
            self.request, self._heir = (self.request, (request, self._heir[1])) if self._heir else (request, None)
        if self._heir is not None:
            self._hand_over(*self._heir)

    def _hand_over(self, request: Request, heir: Any) -> None:
        """Once it has all that follows. Where one of the two may lose messages, that need not be waited for."""
        at_once = not (self.request.reliable and request.reliable)
        self._route.want_old(request.history > 0)
        if self._route.hand_over(heir._ref, at_once):
            self._reader, self.request, self._heir = heir, request, None

    def is_delivered(self) -> bool:
        """Nothing that has come waits for room on the bus."""
        return self._route.delivered()

    @property
    def number(self) -> int:
        """The number of its topic and type among nodes."""
        return self._route.number()

    def has(self, participant: str, sequence: int, is_acknowledged: bool) -> bool:
        """Is all on the bus that a node has sent of it, up to the sample of that sequence? See Route.has."""
        return self._route.has(bytes.fromhex(participant), sequence, is_acknowledged)

    def reached(self, participant: str) -> int | None:
        """The sequence up to which samples of a participant have come; 0: none has. None: some of them wait."""
        return self._route.reached(bytes.fromhex(participant))

    def hears(self, participant: str) -> bool:
        """Does DDS take a writer of that participant to be matched with its reader?"""
        return any(guid[:_PREFIX] == participant[:_PREFIX] for guid in self.heard())

    def unsent(self, expired: int, thinned: int) -> None:
        """Subscribers here did not get so many messages, which the node that publishes them has not sent."""
        self._route.unsent(expired, thinned)

    def newest(self) -> bytes:
        """How far the writers of its lane have been brought to the bus; for the route that comes after it."""
        return self._route.newest()

    def heard(self) -> set[str]:
        """The writers that it hears, by guid."""
        handles = {*matched(self._reader._ref, False)}
        for handle in handles - self._guids.keys():
            row = matched_endpoint(self._reader._ref, False, handle)
            if row is not None:
                self._guids[handle] = "" if row[4] == FOR_PLAIN else row[0].hex()
        self._guids = {handle: guid for handle, guid in self._guids.items() if handle in handles}
        return {*self._guids.values()} - {""}

    def held(self) -> int:
        """Samples that wait for room on the bus."""
        return self._route.held()

    def counters(self) -> dict[str, int]:
        return self._route.counters()

    def has_moved(self) -> bool:
        """Was anything counted since it was asked last?"""
        before, self._total = self._total, self._route.total()
        return self._total != before

    @property
    def is_idle(self) -> bool:
        """Nothing is left to be done for it until something changes."""
        return self._heir is None and not self._close_by

    def close(self) -> dict[str, int]:
        """Returns all that was counted."""
        counted = self.counters()
        self._route.close()
        del self._route, self._reader, self._heir, self._entity
        return counted
