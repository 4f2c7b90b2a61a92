"""How a node is: the document that it publishes once a second, for `rtmw node`, for Prometheus and for anybody else."""

from __future__ import annotations

import os
import socket
from dataclasses import asdict
from itertools import chain, islice
from typing import Any, Final

from rtmw.net.apart import find_apart
from rtmw.net.beacon import Beacons, Peer
from rtmw.net.bridge import Bridge
from rtmw.net.clocks import disagreement, shortest_lifetime_ns
from rtmw.net.discovery import Program
from rtmw.net.interfaces import Used
from rtmw.net.names import Names
from rtmw.net.neighbours import LocalTopic
from rtmw.net.roster import Member, Rosters, plain_members
from rtmw.net.routes import Incoming, Outgoing
from rtmw.net.settings import WITH_NODES, WITH_PLAIN, Settings
from rtmw.qos import Reliability

_TOLD_MOST: Final = 1000
"""Endpoints elsewhere that the document names."""
CARRIED: Final = {"out": "sent", "in": "received"}
ENDS: Final = {"out": "readers", "in": "writers"}
WAITS: Final = ("blocked", "delayed", "lapses")
"""Counters of what had to wait, and was not dropped."""
HOW: Final = ("packs", "uncopied", "unchecked")
"""Counters of how messages travelled."""

INSTANCES: Final = ("disposed", "unregistered", "hashed")
"""Counters of what plain writers said of instances, and what is no message."""


def drops(row: dict[str, Any]) -> dict[str, int]:
    """What a topic has dropped in one direction, by cause; of a row of `out` or `in`."""
    others = {"bytes", *HOW, *INSTANCES, *CARRIED.values(), *ENDS.values(), *WAITS}
    return {name: value for name, value in row.items() if isinstance(value, int) and name not in others}


def make_status(bridge: Bridge, beacons: Beacons, topics: dict[str, LocalTopic], interfaces: Used) -> dict[str, Any]:
    """The document, but for what only the node knows. `topics`: as the bus of this host shows them."""
    settings, shortest = bridge.settings, shortest_lifetime_ns(topics, bridge)
    programs = [*bridge.discovery.participants.values()]
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "domain": settings.domain,
        "dds_domain": settings.wire_domain,
        "interface": interfaces.names or None,
        "interface_why": interfaces.why,
        "multicast": not settings.peers,
        "peers": [_peer(peer, programs, shortest) for peer in beacons.peers.values()],
        "participants": len(programs),
        "shortest_lifetime_ns": shortest,
        "out": [
            {**_names(topic, route, reliability, is_plain), "readers": len(route.readers), **route.counters()}
            for (topic, _, reliability, is_plain), route in bridge.outgoing.items()
        ],
        "in": [
            {**_names(topic, route, lane.reliability, lane.is_plain), "writers": len(route.heard()), **route.counters()}
            for (topic, _, lane), route in bridge.incoming.items()
        ],
        "ended": {
            way: [{"topic": topic, **counters} for topic, counters in ended.items()]
            for way, ended in bridge.ended.items()
        },
        "refused": bridge.refused,
        "apart": [asdict(one) for one in find_apart(topics, bridge, Names(settings.ros2))],
    }


def make_waiting(settings: Settings, why: str, since: float) -> dict[str, Any]:
    """The whole document of a node that waits for a network."""
    return {
        "pid": os.getpid(),
        "guid": "",
        "host": socket.gethostname(),
        "domain": settings.domain,
        "dds_domain": settings.wire_domain,
        "interface": None,
        "interface_why": why,
        "cut_off": why,
        "multicast": not settings.peers,
        **{key: [] for key in ("peers", "out", "in", "apart", "elsewhere")},
        **dict.fromkeys(("participants", "swept", "elsewhere_untold"), 0),
        **{key: {} for key in ("refused", "refusals")},
        **dict.fromkeys(("shortest_lifetime_ns", "metrics_port"), None),
        "ended": {"out": [], "in": []},
        "since": since,
        "metrics_address": settings.metrics_address,
    }


def _names(topic: str, route: Outgoing | Incoming, reliability: Reliability, is_plain: bool) -> dict[str, Any]:
    audience = WITH_PLAIN if is_plain else WITH_NODES
    return {"topic": topic, "type": route.kind.name, "reliability": reliability.name, "with": audience}


def members(rosters: Rosters, bridge: Bridge, apart: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Who publishes and subscribes elsewhere, of topics that may cross here; and how many more there are. `apart`: of
    the document."""
    reasons = {one["endpoint"]: one["reason"] for one in apart if one["cause"] in ("type", "qos")}
    found = chain(rosters.members(), plain_members(bridge, Names(bridge.settings.ros2), reasons))
    concerned = (member for member in found if _concerns(member, bridge.settings))
    told = [asdict(member) for member in islice(concerned, _TOLD_MOST)]
    return told, sum(1 for _ in concerned)


def _concerns(member: Member, settings: Settings) -> bool:
    return settings.enters(member.topic) if member.publishes else settings.leaves(member.topic)


def _peer(peer: Peer, programs: list[Program], shortest_ns: int | None) -> dict[str, Any]:
    mine = (program for program in programs if (program.pid, program.domain) == (peer.pid, peer.domain))
    return {
        "node": peer.node,
        "host": peer.host,
        "pid": peer.pid,
        "domain": peer.domain,
        "address": next((program.address for program in mine), ""),
        "offset_ns": peer.offset_ns,
        "round_trip_ns": peer.round_trip_ns,
        "warning": disagreement(peer, shortest_ns),
    }
