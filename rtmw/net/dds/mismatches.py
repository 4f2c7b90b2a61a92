"""Topics that do not cross, and why: what `rtmw node info` answers when somebody misses a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rtmw.errors import RtmwError
from rtmw.net.dds.bridge import Bridge
from rtmw.net.dds.discovery import Endpoint
from rtmw.net.dds.idl_class import OCTETS_NAME, is_opaque
from rtmw.net.dds.policies import Mismatch, Names, mismatches
from rtmw.net.dds.routes import Incoming, Outgoing, lane_of, type_in
from rtmw.net.neighbours import LocalTopic, Publishing, Subscribing
from rtmw.net.settings import Settings
from rtmw.patterns import is_own
from rtmw.qos import Reliability
from rtmw.types import AnyType, MessageType


@dataclass(frozen=True)
class NotCrossing:
    """A topic that does not cross, in one direction, to or from one program or all."""

    topic: str
    direction: str
    """`out` or `in`."""
    cause: str
    """`pattern`, `nobody`, `type`, `qos` or `unmatched`."""
    reason: str
    endpoint: str = ""
    """GUID of the DDS endpoint elsewhere with which it does not; empty: with none in particular."""


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
    readers = _met(bridge, bridge.discovery.readers.of(names.topic(name)))
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


def _met(bridge: Bridge, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
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
    writers = _met(bridge, bridge.discovery.writers.of(names.topic(name)))
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
