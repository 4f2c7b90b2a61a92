"""Decides which topics cross, from what both sides show, and keeps the routes in step with it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from rtmw.domain import Domain
from rtmw.errors import RtmwError
from rtmw.net.cyclone import DDSException, DomainParticipant
from rtmw.net.discovery import Discovery, Endpoint
from rtmw.net.idl_class import OCTETS_NAME
from rtmw.net.lanes import Lane, lane_of
from rtmw.net.library import Engine
from rtmw.net.lookup import Lookup
from rtmw.net.names import Names
from rtmw.net.neighbours import LocalTopic, Publishing, Subscribing, on_bus, origin
from rtmw.net.note import kind_in
from rtmw.net.partitions import DEFAULT, NODES, meet
from rtmw.net.refusals import Refusals
from rtmw.net.routes import Incoming, Outgoing
from rtmw.net.settings import Settings
from rtmw.net.wire import Endpoints, Offer, Request
from rtmw.qos import Reliability
from rtmw.types import AnyType, MessageType, resolve

log = logging.getLogger("rtmw.node")

OutKey = tuple[str, int, Reliability, bool]
"""A topic, the identity of the type of its messages, the reliability, and whether it is for plain programs."""
InKey = tuple[str, int, Lane]
"""A topic, the identity of the type of its messages, and the lane."""


class Bridge:
    """The routes of a node. Not for several threads."""

    def __init__(
        self, engine: Engine, participant: DomainParticipant, settings: Settings, domain: Domain, refusals: Refusals
    ) -> None:
        self._engine, self._domain, self._refusals = engine, domain, refusals
        self._endpoints = Endpoints(participant)
        self._names = Names(settings.ros2)
        self.settings = settings
        self.discovery = Discovery(participant, refusals)
        engine.watch(self.discovery.reader_news)
        self.outgoing: dict[OutKey, Outgoing] = {}
        self.incoming: dict[InKey, Incoming] = {}
        self._known: dict[InKey, bytes] = {}
        """What lanes that keep messages have brought to the bus, which keeps it though the route is closed."""
        self.ended: dict[str, dict[str, Counter[str]]] = {"out": {}, "in": {}}
        """What was counted of routes that are closed, by direction and topic."""
        self._refused: dict[tuple[str, str], str] = {}
        """What cannot be done with a topic, by topic and what it is, and why."""
        self._tried: set[tuple[str, str]] = set()
        """In this step."""
        self._lookup = Lookup(participant, self._names)

    def step(self, topics: dict[str, LocalTopic]) -> None:
        """Take in what has changed, and open and close routes as it asks for."""
        self._tried.clear()
        heard = self._engine.heard()
        self._send(topics, self.discovery.poll())
        self._engine.looked(heard)
        self._receive(topics)
        self._refused = {of: reason for of, reason in self._refused.items() if of in self._tried}

    @property
    def refused(self) -> dict[str, str]:
        """What cannot cross, by topic, and why."""
        return {topic: reason for (topic, _), reason in self._refused.items()}

    def is_delivered(self) -> bool:
        """Has everything left that was published here?"""
        return all(route.is_delivered() for route in self.outgoing.values())

    def tell_missed(self) -> None:
        for route in self.outgoing.values():
            route.tell_missed()

    def close(self) -> None:
        """What is published from now on is kept for the next node, for `handover` at most."""
        for out in [*self.outgoing]:
            self._try(out[0], "closed", self._end_outgoing, out, int(self.settings.handover * 1e9))
        for into in [*self.incoming]:
            self._try(into[0], "closed", self._end_incoming, into)
        self._lookup.close()

    # ---- out ----

    def _send(self, topics: dict[str, LocalTopic], is_news: bool) -> None:
        wanted: dict[OutKey, tuple[MessageType, list[Publishing]]] = {}
        for name, topic in topics.items():
            for publisher in topic.publishers if self.settings.leaves(name) else ():
                for is_plain in self._audiences(name):
                    key = (name, publisher.kind.identity, publisher.reliability, is_plain)
                    wanted.setdefault(key, (publisher.kind, []))[1].append(publisher)
        for key in [*self.outgoing.keys() - wanted.keys()]:
            self._try(key[0], "closed", self._leave_outgoing, key)
        for key, (kind, publishers) in wanted.items():
            self._try(key[0], "sent", self._see_outgoing, key, kind, publishers)
        for (name, *_), route in self.outgoing.items():
            self._try(name, "brought to its readers", self._refresh, name, route, is_news)

    def _audiences(self, topic: str) -> tuple[bool, ...]:
        """For whom it is written: always for nodes, by which DDS programs also see that there is such a topic; and for
        plain programs while one reads it that does not read among nodes."""
        is_read = any(not meet(reader.partitions, (NODES,)) for reader in self._readers(topic, True))
        return (False, True) if is_read else (False,)

    def _leave_outgoing(self, key: OutKey) -> None:
        if self.outgoing[key].may_close():
            self._end_outgoing(key)

    def _see_outgoing(self, key: OutKey, kind: MessageType, publishers: list[Publishing]) -> None:
        before = self.outgoing.get(key)
        offer = self._offer(self._readers(key[0], key[3]), publishers, before.offer if before else None)
        if before is None:
            self._open_outgoing(key, kind, offer)
        else:
            before.stay()
            before.change(offer)

    def _refresh(self, topic: str, route: Outgoing, is_news: bool) -> None:
        readers = self._readers(topic, route.is_plain)
        knows_crcs = all(self.discovery.program(reader).knows_crcs for reader in readers)
        may_pack = not route.is_plain and all(map(self._knows_packs, readers))
        route.limit(self.settings.rate_of(topic))
        knows_dates = not route.is_plain and all(self.discovery.program(reader).knows_dates for reader in readers)
        route.refresh(may_pack, knows_crcs and not route.is_plain, knows_dates, is_news)

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

    def _open_outgoing(self, key: OutKey, kind: MessageType, offer: Offer) -> None:
        self.outgoing[key] = Outgoing(
            self._engine, self._endpoints, self._names, key[0], kind, key[3], offer, self.settings.lease,
            origin(self._domain),
        )  # fmt: skip

    def _end_outgoing(self, key: OutKey, park_ns: int = 0) -> None:
        self._count("out", key[0], self.outgoing.pop(key).close(park_ns))

    # ---- in ----

    def _receive(self, topics: dict[str, LocalTopic]) -> None:
        wanted: dict[InKey, tuple[MessageType, list[Subscribing], list[Endpoint]]] = {}
        for name, topic in topics.items():
            if topic.subscribers and self.settings.enters(name):
                for (identity, lane), (kind, writers) in self._writers(name, topic).items():
                    takers = [one for one in topic.subscribers if one.takes(kind)]
                    if takers:
                        wanted[name, identity, lane] = (kind, takers, writers)
        for key in [*self.incoming.keys() - wanted.keys()]:
            self._try(key[0], "closed", self._leave_incoming, key, topics.get(key[0]))
        for key, (kind, takers, writers) in wanted.items():
            self._try(key[0], "received", self._see_incoming, key, kind, takers, writers)

    def _leave_incoming(self, key: InKey, topic: LocalTopic | None) -> None:
        """The writers elsewhere may have left before there was room here for all that they sent."""
        route = self.incoming[key]
        is_read = topic is not None and any(one.takes(route.kind) for one in topic.subscribers)
        if not is_read or route.may_close():
            self._end_incoming(key)

    def _see_incoming(self, key: InKey, kind: MessageType, takers: list[Subscribing], writers: list[Endpoint]) -> None:
        before = self.incoming.get(key)
        request = _request(key[2], takers, writers, before.request if before else None)
        if before is None:
            self._open_incoming(key, kind, request, _offered(key[2], writers))
        else:
            before.stay()
            before.change(request)

    def _open_incoming(self, key: InKey, kind: MessageType, request: Request, offered: Offer) -> None:
        self.incoming[key] = Incoming(
            self._engine, self._endpoints, self._names, key[0], kind, key[2], request, offered,
            self.settings.lease, self._known.get(key, b""), self._on_bus(key),
        )  # fmt: skip

    def _on_bus(self, key: InKey) -> dict[int, int]:
        """What a node that ran before this one has brought; later, the routes themselves know it better."""
        return on_bus(self._domain, key[0]) if key[2].keeps and key not in self._known else {}

    def _end_incoming(self, key: InKey) -> None:
        route = self.incoming.pop(key)
        if key[2].keeps:
            self._known[key] = route.known()
        self._count("in", key[0], route.close())

    def _readers(self, topic: str, is_plain: bool) -> list[Endpoint]:
        """Who reads it, but for what nodes have for plain programs: in the default partition, or in that of nodes."""
        partition = DEFAULT if is_plain else NODES
        readers = self.discovery.readers.of(self._names.topic(topic))
        return [one for one in readers if not one.is_for_plain and meet(one.partitions, (partition,))]

    def _writers(self, name: str, topic: LocalTopic) -> dict[tuple[int, Lane], tuple[MessageType, list[Endpoint]]]:
        """The writers of a topic elsewhere, by the identity of their type and their lane."""
        found: dict[tuple[int, Lane], tuple[MessageType, list[Endpoint]]] = {}

        def sort(writer: Endpoint) -> None:
            kind = self._kind_of(writer, topic)
            if kind is not None:
                found.setdefault((kind.identity, lane_of(writer)), (kind, []))[1].append(writer)

        for writer in self.discovery.writers.of(self._names.topic(name)):
            if writer.is_for_plain:
                continue
            what = f"received as {writer.type_name} of {self.discovery.program(writer)}"
            self._try(name, what, sort, writer)
        return found

    def _kind_of(self, writer: Endpoint, topic: LocalTopic) -> MessageType | None:
        """None: it is not known yet. Raises RtmwError or DDSException when it cannot be known."""
        if writer.note is not None:
            return kind_in(writer.note)
        if writer.type_name == OCTETS_NAME:
            return resolve(bytes)
        for kind in [one.kind for one in topic.subscribers] + [one.kind for one in topic.publishers]:
            if not isinstance(kind, AnyType) and self._names.type(kind.name) == writer.type_name:
                return kind
        return self._lookup.find(writer)

    # ---- both ----

    def _count(self, way: str, topic: str, counters: dict[str, int]) -> None:
        self.ended[way].setdefault(topic, Counter()).update(counters)

    def _try(self, topic: str, what: str, act: Callable[..., None], *arguments: Any) -> None:
        """Whatever goes wrong with one topic is said once, and costs no other; it is tried again by the next step."""
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
    kept = all(one.note is not None or 0 < one.deadline_ns <= deadline for one in writers)
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
    """What the node's publisher here offers: what its lane does."""
    return Offer(lane.reliability, max(one.priority for one in writers), 64, max(one.history for one in writers))


def _longest(lifetimes: list[int]) -> int:
    return max(lifetimes) if all(lifetimes) else 0
