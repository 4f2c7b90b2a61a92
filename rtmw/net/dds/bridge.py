"""Decides which topics cross, from what both sides show, and keeps the routes in step with it.

Programs that are no nodes describe their types; they are asked in a thread, for it may take seconds (`Lookup`).
`PeerRates` knows how much may leave towards single hosts: which of them the settings limit, and by how much
(outbound.c). A host has a name, as its programs say it, and an address. All participants of one address share one
limit.

`find_mismatches` says which topics do not cross, and why: what `rtmw node info` answers when somebody misses a message.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from rtmw.clock import CLOCK, Clock
from rtmw.domain import Domain
from rtmw.errors import RtmwError
from rtmw.net.dds.discovery import Discovery, Endpoint, Program, Refusals
from rtmw.net.dds.idl_class import OCTETS_NAME, idl_class, is_opaque
from rtmw.net.dds.library import DDSException, DomainParticipant, Engine, TypeIdentifier, get_types_for_typeid
from rtmw.net.dds.routes import Incoming, Lane, Outgoing, lane_of, type_in
from rtmw.net.dds.wire import DEFAULT, NODES, Endpoints, Mismatch, Names, Offer, Request, meet, mismatches
from rtmw.net.neighbours import LocalTopic, Publishing, Subscribing, on_bus, origin
from rtmw.net.settings import Settings
from rtmw.net.topics import ByTopic, Ended
from rtmw.observe.node_status import NotCrossing, Undelivered
from rtmw.qos import Reliability
from rtmw.text.patterns import is_meant, is_own
from rtmw.types import AnyType, MessageType, resolve

_WAIT_NS = 1_000_000_000
"""Nanoseconds that one answer is waited for."""
_RETRY_S = 5.0
"""A type that was not told is asked for again after so long."""
_MOST = 1000
"""Types that are known at a time."""


class Lookup:
    """Types by their identifiers. Not for several threads."""

    def __init__(self, participant: DomainParticipant, names: Names, clock: Clock = CLOCK) -> None:
        self._participant, self._names, self._clock = participant, names, clock
        self._thread = ThreadPoolExecutor(1, "rtmw type lookup")
        self._asked: dict[bytes, Future[MessageType]] = {}
        self._failed: dict[bytes, float] = {}
        """When, by CLOCK_MONOTONIC."""

    def find(self, writer: Endpoint) -> MessageType | None:
        """The type of a writer; None: it is being asked for. Raises RtmwError or DDSException: it cannot be had."""
        if writer.type_id is None:
            raise RtmwError("the program does not describe its types; subscribe with the type's class")
        key = writer.type_id
        asked = self._asked.get(key)
        if asked is None or self._is_due(key):
            if len(self._asked) >= _MOST:
                self._forget()
            self._failed.pop(key, None)
            self._asked[key] = self._thread.submit(self._ask, key)
            return None
        if not asked.done():
            return None
        if asked.exception() is not None:
            self._failed.setdefault(key, self._clock.monotonic())
        return asked.result()

    def _is_due(self, key: bytes) -> bool:
        return key in self._failed and self._clock.monotonic() - self._failed[key] > _RETRY_S

    def _forget(self) -> None:
        """The oldest answer; of those who have not been answered, the one who asked first."""
        key = next((key for key, asked in self._asked.items() if asked.done()), next(iter(self._asked)))
        self._asked.pop(key).cancel()
        self._failed.pop(key, None)

    def _ask(self, key: bytes) -> MessageType:
        try:
            type_id: Any = TypeIdentifier.deserialize(key, has_header=False, use_version_2=True)
            kind = resolve(get_types_for_typeid(self._participant, type_id, _WAIT_NS)[0])
            return resolve(idl_class(kind, self._names.local_type)) if self._names.ros2 else kind
        except (RtmwError, DDSException):
            raise
        except Exception as error:  # any that cyclonedds raises for a description that is none
            raise RtmwError(f"its description cannot be read: {error}") from error

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)


PLACES: Final = 64
"""Hosts with a limit of their own: those that come later share the last place, and the lowest of their limits."""


class PeerRates:
    """Limits in bytes a second for the messages to each host. Not for several threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rates: tuple[tuple[str, int], ...] = ()
        self._places: dict[str, int] = {}
        """By address."""
        self._limits: dict[int, int] = {}
        """Bytes a second, by place."""

    def set(self, rates: tuple[tuple[str, int], ...]) -> None:
        """Patterns of hosts and addresses, and bytes a second; the first pattern that fits counts."""
        if rates != self._rates:
            self._rates, self._places = rates, {}
            for place in self._limits:
                self._engine.peer_rate(place, 0)
            self._limits = {}

    def rate(self, program: Program) -> int:
        """Bytes a second that may leave towards the host of a program; 0: no limit."""
        names = (program.host, address_of(program))
        return next((rate for pattern, rate in self._rates if any(is_meant(name, pattern) for name in names)), 0)

    def places(self, programs: Iterable[Program]) -> int:
        """A bit for each place whose limit holds for a route that these programs read; for Route.limit."""
        found = 0
        for program in programs if self._rates else ():
            limit = self.rate(program)
            if limit:
                found |= 1 << self._place(address_of(program) or program.host, limit)
        return found

    def _place(self, address: str, limit: int) -> int:
        place = self._places.setdefault(address, min(len(self._places), PLACES - 1))
        lowest = min(limit, self._limits.get(place, limit))
        if self._limits.get(place) != lowest:
            self._limits[place] = lowest
            self._engine.peer_rate(place, lowest)
        return place


def address_of(program: Program) -> str:
    """The address of a program as `peers` has it: without the port and without brackets."""
    return program.address.rpartition(":")[0].removeprefix("[").removesuffix("]").partition("%")[0]


log = logging.getLogger("rtmw.node")

OutKey = tuple[str, int, Reliability, bool]
"""A topic, the identity of the type of its messages, the reliability, and whether it is for plain programs."""
LaneKey = tuple[int, int]
"""The number of a topic and type among nodes, and a reliability."""
InKey = tuple[str, int, Lane]
"""A topic, the identity of the type of its messages, and the lane."""


NOBODY = LocalTopic((), ())
"""A topic that no program here uses."""
_CROWD = 100
"""Routes and endpoints that have ended whose memory is worth a moment without any other."""
_OF_CONNECTION = 10
"""Endpoints whose memory that of one connection is worth: what a stranger says first may fill buffers."""
_NEWEST_MOST = 1024
"""Lanes of closed routes of which it is known what they have brought."""


class Bridge:
    """The routes of a node. Not for several threads."""

    def __init__(
        self, engine: Engine, participant: DomainParticipant, settings: Settings, domain: Domain, refusals: Refusals,
        is_linked: Callable[[Program], bool] = lambda _: False,
    ) -> None:  # fmt: skip
        """`is_linked`: does the node meet that program over a link, and so not over DDS?"""
        self._is_linked = is_linked
        self._engine, self._domain, self._refusals = engine, domain, refusals
        engine.follow(participant._ref)
        self._endpoints = Endpoints(participant)
        self._names = Names(settings.ros2)
        self._settings = settings
        self.discovery = Discovery(participant, refusals)
        engine.watch(self.discovery.reader_news)
        self.peer_rates = PeerRates(engine)
        self.peer_rates.set(settings.peer_rates)
        self.outgoing, self.incoming = ByTopic[OutKey, Outgoing](), ByTopic[InKey, Incoming]()
        self._unsent: dict[LaneKey, Counter[str]] = {}
        self._newest: dict[InKey, bytes] = {}
        """How far lanes that keep messages have brought them to the bus; it keeps them though the route is closed."""
        self.ended = {"out": Ended(), "in": Ended()}
        """Counters of routes that are closed, by direction."""
        self._refused: dict[tuple[str, str], str] = {}
        """Reasons of steps that failed, by topic and step."""
        self._tried: set[tuple[str, str]] = set()
        """Topics and steps that were tried in this step."""
        self._look_again: set[str] = set()
        """Topics that are to be looked at by the next step, though nothing may have changed."""
        self._sees_all, self._total = True, -1
        self._ended_before, self._given_back = 0, 0
        """How many had ended a second ago, and when memory was given back."""
        self._lookup = Lookup(participant, self._names)

    @property
    def settings(self) -> Settings:
        return self._settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._settings, self._sees_all = settings, True
        self.peer_rates.set(settings.peer_rates)

    def step(self, topics: dict[str, LocalTopic], changed: set[str]) -> set[str]:
        """Take in what has changed, and open and close routes as it asks for; the topics that this may concern.

        `topics`: as the bus of this host shows them. `changed`: of those, and of those that are over, since last time.
        """
        self._tried.clear()
        heard = self._engine.heard()
        news = self._news()
        changed = changed | news | self._look_again
        due = self._due(topics, changed)
        self._look_again = set[str]()
        for name in due:
            self._send(name, topics.get(name, NOBODY), name in news)
        if not self.discovery.is_behind:
            self._engine.looked(heard)
        for name in due:
            self._receive(name, topics.get(name, NOBODY))
        if self._refused:
            tried = self._tried
            self._refused = {of: why for of, why in self._refused.items() if of in tried or of[0] not in due}
            self._look_again |= {topic for topic, _ in self._refused}
        return changed | due

    def _news(self) -> set[str]:
        """Topics of which DDS shows something new: endpoints of others, or whom endpoints here have met."""
        matched = self._engine.matched()
        self._sees_all |= matched is None
        told = (self._names.local(topic) for topic in self.discovery.poll() | (matched or set()))
        return {topic for topic in told if topic is not None}

    def _due(self, topics: dict[str, LocalTopic], changed: set[str]) -> set[str]:
        if self._sees_all:
            changed = changed.union(topics, self.outgoing.topics(), self.incoming.topics())
            self._sees_all = False
        return {topic for topic in changed if self._has_to_do_with(topic, topics)}

    def _has_to_do_with(self, topic: str, topics: dict[str, LocalTopic]) -> bool:
        return topic in topics or self.outgoing.has(topic) or self.incoming.has(topic)

    @property
    def refused(self) -> dict[str, str]:
        """Topics that cannot cross, each with the reason."""
        return {topic: reason for (topic, _), reason in self._refused.items()}

    def is_delivered(self) -> bool:
        """Has everything left that was published here?"""
        return all(route.is_delivered() for route in self.outgoing)

    def undelivered(self) -> list[Undelivered]:
        """Messages that the node has now and has not handed over."""
        left = [one for one in self.outgoing if not one.is_delivered()]
        held = [(one.topic, one.held()) for one in self.incoming]
        return [
            *(Undelivered(one.topic, "out", one.held(), self._behind(one)) for one in left),
            *(Undelivered(topic, "in", messages) for topic, messages in held if messages),
        ]

    def _behind(self, route: Outgoing) -> tuple[str, ...]:
        return tuple(sorted({str(self.discovery.program(reader)) for reader in route.readers}))

    def renew(self, route: Outgoing, participant: str) -> bool:
        """Let another DDS writer take over a route that a participant reads (Outgoing.renew)."""
        self._look_again.add(route.topic)
        return route.renew(participant)

    def see_kept(self) -> None:
        """Let topics go on whose readers are back (succession.py). Only where `step` is no longer called."""
        self.discovery.poll()
        for route in self.outgoing:
            if route.is_kept:
                self._try(route.topic, "brought to its readers", self._refresh, route.topic, route, True)

    def moved(self) -> set[OutKey | InKey]:
        """Routes of which anything was counted since it was asked last; says in the log what they have missed."""
        before, self._total = self._total, self._engine.total()
        if self._total == before:
            return set()
        out = {key: route for key, route in self.outgoing.items() if route.has_moved()}
        for route in out.values():
            route.tell_missed()
            self._note_unsent(route)
        return {*out, *(key for key, route in self.incoming.items() if route.has_moved())}

    def unsent(self) -> dict[LaneKey, Counter[str]]:
        """What expired, or was thinned, before it was sent, since this was asked last; as far as `moved` has seen."""
        unsent, self._unsent = self._unsent, {}
        return unsent

    def _note_unsent(self, route: Outgoing) -> None:
        counts = route.unsent()
        if counts and not route.is_plain:
            self._unsent.setdefault((route.number, int(route.offer.reliability)), Counter()).update(counts)

    def give_back(self, refused: int) -> None:
        """To be called once a second: when a crowd of topics has ended, of endpoints elsewhere, or of connections to
        links, of which `refused` have come to none, their memory is the system's again."""
        ended = _OF_CONNECTION * refused + self.discovery.gone + sum(one.changes for one in self.ended.values())
        if ended == self._ended_before and abs(ended - self._given_back) >= _CROWD:
            self._engine.trim()
            self._given_back = ended
        self._ended_before = ended

    def close(self) -> None:
        """Messages published from now on are kept for the next node, for `handover` at most."""
        for out, _ in [*self.outgoing.items()]:
            self._try(out[0], "closed", self._end_outgoing, out, int(self.settings.handover * 1e9))
        for into, _ in [*self.incoming.items()]:
            self._try(into[0], "closed", self._end_incoming, into)
        self._lookup.close()

    # ---- out ----

    def _send(self, name: str, topic: LocalTopic, is_news: bool) -> None:
        wanted: dict[OutKey, tuple[MessageType, list[Publishing]]] = {}
        may_leave = self.settings.leaves(name) and self.settings.is_on_dds(name)
        for publisher in topic.publishers if may_leave else ():
            for is_plain in self._audiences(name):
                key = (name, publisher.type.identity, publisher.reliability, is_plain)
                wanted.setdefault(key, (publisher.type, []))[1].append(publisher)
        for key in self.outgoing.keys(name):
            if key not in wanted:
                self._try(name, "closed", self._leave_outgoing, key)
        for key, (type, publishers) in wanted.items():
            self._try(name, "sent", self._see_outgoing, key, type, publishers)
        for route in self.outgoing.of(name):
            self._try(name, "brought to its readers", self._refresh, name, route, is_news)
            if not route.is_idle:
                self._look_again.add(name)

    def _audiences(self, topic: str) -> tuple[bool, ...]:
        """For whom it is written: always for nodes, by which DDS programs also see that there is such a topic; and for
        plain programs while one reads it that does not read among nodes."""
        is_read = any(not meet(reader.partitions, (NODES,)) for reader in self._readers(topic, True))
        return (False, True) if is_read else (False,)

    def _leave_outgoing(self, key: OutKey) -> None:
        route = self.outgoing.get(key)
        if route is not None and route.may_close():
            self._end_outgoing(key)

    def _see_outgoing(self, key: OutKey, type: MessageType, publishers: list[Publishing]) -> None:
        before = self.outgoing.get(key)
        offer = self._offer(self._readers(key[0], key[3]), publishers, before.offer if before else None)
        if before is None:
            self._open_outgoing(key, type, offer)
        else:
            before.stay()
            before.change(offer)

    def _refresh(self, topic: str, route: Outgoing, is_news: bool) -> None:
        readers = self._readers(topic, route.is_plain)
        knows_crcs = all(self.discovery.program(reader).knows_crcs for reader in readers)
        may_pack = not route.is_plain and all(map(self._knows_packs, readers))
        self._limit(topic, route, readers)  # before it opens, and is read by some of these
        knows_dates = not route.is_plain and all(self.discovery.program(reader).knows_dates for reader in readers)
        may_check = knows_crcs and not route.is_plain
        route.refresh(may_pack, may_check, knows_dates, is_news, lambda one: self.discovery.program(one).region)
        self._limit(topic, route, route.readers)

    def _limit(self, topic: str, route: Outgoing, readers: Iterable[Endpoint]) -> None:
        route.limit(self.settings.rate_of(topic), self.peer_rates.places(map(self.discovery.program, readers)))

    def _offer(self, readers: list[Endpoint], publishers: list[Publishing], before: Offer | None) -> Offer:
        """The most that anybody offered since the route exists, so that it is not made anew at each change."""
        asked = [reader.deadline_ns for reader in readers if reader.deadline_ns]
        now = Offer(
            next(one.reliability for one in publishers),
            max(one.priority for one in publishers),
            max(one.depth for one in publishers),
            max(one.history for one in publishers),
            min(asked, default=0),
            _longest([one.lifetime_ns for one in publishers]),
        )
        if before is None:
            return now
        deadlines = [ns for ns in (now.deadline_ns, before.deadline_ns) if ns]
        return Offer(
            now.reliability,
            max(now.priority, before.priority),
            max(now.depth, before.depth),
            max(now.history, before.history),
            min(deadlines, default=0),
            _longest([now.lifetime_ns, before.lifetime_ns]),
        )

    def _knows_packs(self, reader: Endpoint) -> bool:
        """A reader with a minimum interval would take of a pack what it would take of one message."""
        return self.discovery.program(reader).knows_packs and not reader.min_interval_ns

    def _open_outgoing(self, key: OutKey, type: MessageType, offer: Offer) -> None:
        made = Outgoing(
            self._engine, self._endpoints, self._names, key[0], type, key[3], offer, self.settings.lease,
            origin(self._domain), self.crosses_by_link,
        )  # fmt: skip
        self.outgoing.put(key[0], key, made)

    def _end_outgoing(self, key: OutKey, park_ns: int = 0) -> None:
        route = self.outgoing.pop(key)
        if route is not None:
            self._note_unsent(route)
            self.ended["out"].add(key[0], route.close(park_ns))

    # ---- in ----

    def _receive(self, name: str, topic: LocalTopic) -> None:
        wanted: dict[InKey, tuple[MessageType, list[Subscribing], list[Endpoint]]] = {}
        if topic.subscribers and self.settings.enters(name) and self.settings.is_on_dds(name):
            for (identity, lane), (type, writers) in self._writers(name, topic).items():
                takers = [one for one in topic.subscribers if one.takes(type)]
                if takers:
                    wanted[name, identity, lane] = (type, takers, writers)
        for key in self.incoming.keys(name):
            if key not in wanted:
                self._try(name, "closed", self._leave_incoming, key, topic)
        for key, (type, takers, writers) in wanted.items():
            self._try(name, "received", self._see_incoming, key, type, takers, writers)
        if not all(route.is_idle for route in self.incoming.of(name)):
            self._look_again.add(name)

    def _leave_incoming(self, key: InKey, topic: LocalTopic) -> None:
        """The writers elsewhere may have left before there was room here for all that they sent."""
        route = self.incoming.get(key)
        is_read = route is not None and any(one.takes(route.type) for one in topic.subscribers)
        if route is None or not is_read or route.may_close():
            self._end_incoming(key)

    def _see_incoming(self, key: InKey, type: MessageType, takers: list[Subscribing], writers: list[Endpoint]) -> None:
        before = self.incoming.get(key)
        request = _request(key[2], takers, writers, before.request if before else None)
        if before is None:
            self._open_incoming(key, type, request, _offered(key[2], writers))
        else:
            before.stay()
            before.change(request)

    def _open_incoming(self, key: InKey, type: MessageType, request: Request, offered: Offer) -> None:
        made = Incoming(
            self._engine, self._endpoints, self._names, key[0], type, key[2], request, offered,
            self.settings.lease, self._newest.get(key, b""), self._on_bus(key),
        )  # fmt: skip
        self.incoming.put(key[0], key, made)

    def _on_bus(self, key: InKey) -> dict[int, int]:
        """How far a node that ran before this one has brought the lane; later, the routes themselves know it better."""
        return on_bus(self._domain, key[0]) if key[2].keeps and key not in self._newest else {}

    def _end_incoming(self, key: InKey) -> None:
        route = self.incoming.pop(key)
        if route is None:
            return
        if key[2].keeps:
            self._newest.pop(key, None)
            self._newest[key] = route.newest()
            if len(self._newest) > _NEWEST_MOST:
                del self._newest[next(iter(self._newest))]  # of a lane that comes again, the bus is asked instead
        self.ended["in"].add(key[0], route.close())

    def _readers(self, topic: str, is_plain: bool) -> list[Endpoint]:
        """Readers of the topic in the default partition, or in that of nodes, but for those that nodes have for plain
        programs."""
        partition = DEFAULT if is_plain else NODES
        readers = self.discovery.readers.of(self._names.topic(topic))
        served = (one for one in readers if not one.is_for_plain and not self.crosses_by_link(one))
        return [one for one in served if meet(one.partitions, (partition,))]

    def is_linked(self, program: Program) -> bool:
        """Does the node meet that program over a link, and so not over DDS?"""
        return self._is_linked(program)

    def crosses_by_link(self, endpoint: Endpoint) -> bool:
        """Is it of a node that is met over a link, and so not over DDS?"""
        return self._is_linked(self.discovery.program(endpoint))

    def _writers(self, name: str, topic: LocalTopic) -> dict[tuple[int, Lane], tuple[MessageType, list[Endpoint]]]:
        """The writers of a topic elsewhere, by the identity of their type and their lane."""
        found: dict[tuple[int, Lane], tuple[MessageType, list[Endpoint]]] = {}

        def sort(writer: Endpoint) -> None:
            type = self._type_of(writer, topic)
            if type is None:
                self._look_again.add(name)
            else:
                found.setdefault((type.identity, lane_of(writer)), (type, []))[1].append(writer)

        for writer in self.discovery.writers.of(self._names.topic(name)):
            if writer.is_for_plain or self.crosses_by_link(writer):
                continue
            what = f"received as {writer.type_name} of {self.discovery.program(writer)}"
            self._try(name, what, sort, writer)
        return found

    def _type_of(self, writer: Endpoint, topic: LocalTopic) -> MessageType | None:
        """None: it is not known yet. Raises RtmwError or DDSException when it cannot be known."""
        if writer.description is not None:
            return type_in(writer.description)
        if writer.type_name == OCTETS_NAME:
            return resolve(bytes)
        for type in [one.type for one in topic.subscribers] + [one.type for one in topic.publishers]:
            if not isinstance(type, AnyType) and self._names.type(type.name) == writer.type_name:
                return type
        return self._lookup.find(writer)

    # ---- both ----

    def _try(self, topic: str, what: str, act: Callable[..., None], *arguments: Any) -> None:
        """A failure with one topic is said once, and costs no other topic; the next step tries again."""
        self._tried.add((topic, what))
        try:
            act(*arguments)
        except Exception as error:
            reason = f"cannot be {what}: {error}"
            if not isinstance(error, (RtmwError, DDSException)):
                self._refusals.refuse("topic", error)
            if self._refused.get((topic, what)) != reason:
                log.warning("topic %s %s", topic, reason)
            self._refused[topic, what] = reason
        else:
            self._refused.pop((topic, what), None)


def _request(lane: Lane, takers: list[Subscribing], writers: list[Endpoint], before: Request | None) -> Request:
    """Enough for each subscriber here, and no more than every writer of a lane offers.

    `before`: what the route asked for until now. It goes on asking for what does no harm: subscribers have their own
    deadline and depth.
    """
    deadline = before.deadline_ns if before else min((one.deadline_ns for one in takers if one.deadline_ns), default=0)
    kept = all(one.description is not None or 0 < one.deadline_ns <= deadline for one in writers)
    history = max(one.history for one in takers) if lane.keeps else 0
    history = max(history, before.history) if before else history
    reliable = any(min(lane.reliability, one.reliability) is not Reliability.TIMELY for one in takers)
    return Request(
        reliable=reliable or history > 0,  # DDS brings what is kept to reliable readers only
        depth=max(one.depth for one in takers),
        history=history,
        min_interval_ns=min(one.min_interval_ns for one in takers),
        deadline_ns=deadline if kept else 0,
    )


def _offered(lane: Lane, writers: list[Endpoint]) -> Offer:
    """The offer of the node's publisher here: that of its lane."""
    return Offer(lane.reliability, max(one.priority for one in writers), 64, max(one.history for one in writers))


def _longest(lifetimes: list[int]) -> int:
    return max(lifetimes) if all(lifetimes) else 0


def find_mismatches(name: str, topic: LocalTopic, bridge: Bridge, names: Names) -> list[NotCrossing]:
    """Why publishers and subscribers of one topic here do not meet others. `topic`: as this host's bus shows it."""
    if is_own(name):
        return []
    found: list[NotCrossing] = []
    if topic.publishers:
        found += (NotCrossing(name, "out", *why) for why in _outbound(name, topic.publishers, bridge, names))
    if topic.subscribers:
        found += (NotCrossing(name, "in", *why) for why in _inbound(name, topic.subscribers, bridge, names))
    return found + [NotCrossing(name, way, "type", f"a program here uses it as {type}") for way, type in topic.strange]


Why = tuple[str, str] | tuple[str, str, str]
"""Cause, reason, endpoint."""


def _outbound(name: str, publishers: tuple[Publishing, ...], bridge: Bridge, names: Names) -> Iterator[Why]:
    settings: Settings = bridge.settings
    if not settings.leaves(name):
        yield "pattern", f"topics_out allows {', '.join(settings.topics_out) or 'nothing'}"
        return
    readers = _reached_over_dds(bridge, bridge.discovery.readers.of(names.topic(name)))
    if not readers:
        yield "nobody", "nobody elsewhere reads it"
    elif not settings.is_on_dds(name):
        yield "pattern", f"a DDS program reads it, and {_by_link_only(settings)}"
        return
    routes = bridge.outgoing.of(name)
    served = {reader.guid for route in routes for reader in route.readers}
    for reader in readers:
        if reader.guid not in served:
            cause, why = _unserved(reader, publishers, routes, names)
            yield cause, f"{bridge.discovery.program(reader)} {why}", reader.guid


def _reached_over_dds(bridge: Bridge, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
    """The endpoints that this node meets over DDS."""
    return [one for one in endpoints if not one.is_for_plain and not bridge.crosses_by_link(one)]


def _by_link_only(settings: Settings) -> str:
    return f"dds_topics allows {', '.join(settings.on_dds) or 'nothing'}: it crosses by link only"


def _unserved(
    reader: Endpoint, publishers: tuple[Publishing, ...], routes: list[Outgoing], names: Names
) -> tuple[str, str]:
    known = [one.type for one in publishers]
    if not _has_type(reader, known, names):
        return "type", f"reads it as {reader.type_name}; {_listed(known, names)} is published here"
    if _differs(reader, known):
        return "type", f"reads it as another definition of {reader.type_name}"
    offers = [route.offer.policies(is_plain) for route in routes for is_plain in (True, route.is_plain)]
    found = _fewest([*mismatches(offer, reader.policies)] for offer in offers)
    if found:
        return "qos", ", and ".join(one.of_reader() for one in found)
    return "unmatched", f"is not matched yet; its definition of {reader.type_name} may be another"


def _inbound(name: str, subscribers: tuple[Subscribing, ...], bridge: Bridge, names: Names) -> Iterator[Why]:
    settings: Settings = bridge.settings
    if not settings.enters(name):
        yield "pattern", f"topics_in allows {', '.join(settings.topics_in) or 'nothing'}"
        return
    writers = _reached_over_dds(bridge, bridge.discovery.writers.of(names.topic(name)))
    if not writers:
        yield "nobody", "nobody elsewhere publishes it"
    elif not settings.is_on_dds(name):
        yield "pattern", f"a DDS program publishes it, and {_by_link_only(settings)}"
        return
    routes = bridge.incoming.of(name)
    heard = {guid for route in routes for guid in route.heard()}
    for writer in writers:
        why = _unheard(writer, subscribers, names)
        if why is None and routes and writer.guid not in heard:
            why = _unmatched(writer, routes)
        if why is not None:
            yield why[0], f"{bridge.discovery.program(writer)} {why[1]}", writer.guid


def _unmatched(writer: Endpoint, routes: list[Incoming]) -> tuple[str, str]:
    lane = lane_of(writer)
    requests = [route.request.policies(lane.is_plain) for route in routes if route.lane == lane]
    found = _fewest([*mismatches(writer.policies, request)] for request in requests)
    if found:
        return "qos", ", and ".join(one.of_writer() for one in found)
    return "unmatched", f"is not matched yet; its definition of {writer.type_name} may be another"


def _fewest(found: Iterable[list[Mismatch]]) -> list[Mismatch]:
    """The mismatches with the endpoint that is nearest to a match: those of the shortest list."""
    return min(found, key=len, default=list[Mismatch]())


def _unheard(writer: Endpoint, subscribers: tuple[Subscribing, ...], names: Names) -> tuple[str, str] | None:
    known = [one.type for one in subscribers if not isinstance(one.type, AnyType)]
    takes_any = len(known) < len(subscribers)
    if not takes_any and not _has_type(writer, known, names):
        return "type", f"publishes {writer.type_name}; {_listed(known, names)} is wanted here"
    if not takes_any and _differs(writer, known):
        return "type", f"publishes another definition of {writer.type_name}"
    if lane_of(writer).reliability is not Reliability.RELIABLE and all(
        one.reliability is Reliability.RELIABLE for one in subscribers
    ):
        return "qos", "offers less than RELIABLE, which is asked for here"
    return None


def _has_type(endpoint: Endpoint, types: list[MessageType], names: Names) -> bool:
    return endpoint.type_name in {_wire_name(type, names) for type in types}


def _differs(endpoint: Endpoint, types: list[MessageType]) -> bool:
    """Only a node says enough of its types to tell."""
    if endpoint.description is None:
        return False
    try:
        return type_in(endpoint.description).identity not in {type.identity for type in types}
    except RtmwError:
        return True


def _listed(types: list[MessageType], names: Names) -> str:
    return ", ".join(sorted({_wire_name(type, names) for type in types}))


def _wire_name(type: MessageType, names: Names) -> str:
    return OCTETS_NAME if is_opaque(type) else names.type(type.name)
