"""zenoh, peer to peer over a Unix socket, with its shared memory on: bodies of 3 KiB and more go through its pool.

No scouting and no multicast: one side listens on a path, the other connects to it. `loan` writes into a buffer of an
explicit shared-memory provider; the receiver gets a copy either way, its interface gives no more.
"""

from __future__ import annotations

import atexit
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import zenoh

from bench.peers import STAMP, Channel, Receiver, Sender, read_stamp

POOL = 64 << 20
DEEP = 4096


@dataclass(frozen=True)
class Way:
    """How the two processes reach each other."""

    endpoint: Callable[[Channel], str]
    shared_memory: bool
    settings: Callable[[], dict[str, object]] = dict
    """More of zenoh's settings."""


UNIX = Way(lambda channel: f"unixsock-stream/{channel.place}/zenoh", shared_memory=True)


def session(channel: Channel, way: Way) -> Any:
    config = zenoh.Config()
    where = [way.endpoint(channel)]
    settings: dict[str, Any] = {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "transport/shared_memory/enabled": way.shared_memory,
        "listen/endpoints": where if channel.listens else [],
        "connect/endpoints": [] if channel.listens else where,
    }
    for key, value in (settings | way.settings()).items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


_sessions: dict[str, Any] = {}


def shared_session(channel: Channel, way: Way) -> Any:
    """One session a process, for both directions."""
    if channel.place not in _sessions:
        _sessions[channel.place] = opened = session(channel, way)
        atexit.register(opened.close)
    return _sessions[channel.place]


def copier(channel: Channel, way: Way) -> Any:
    """A publisher, which is given whole bodies."""
    full = zenoh.CongestionControl.BLOCK if channel.reliable or channel.readers == 1 else zenoh.CongestionControl.DROP
    return shared_session(channel, way).declare_publisher(channel.name, congestion_control=full)


def sender(channel: Channel) -> Sender:
    publisher = copier(channel, UNIX)
    provider = zenoh.shm.ShmProvider.default_backend(max(POOL // 4, 4 * channel.size))
    policy = zenoh.shm.BlockOn(zenoh.shm.GarbageCollect())
    put, size, pack = publisher.put, channel.size, STAMP.pack

    def loan(stamp: int) -> None:
        block = provider.alloc(size, policy)
        block[:8] = pack(stamp)
        put(block)

    return Sender(put, loan, kept=publisher)


def receiver(channel: Channel, way: Way = UNIX) -> Receiver:
    opened = shared_session(channel, way)
    kind = zenoh.handlers.FifoChannel if channel.reliable or channel.readers == 1 else zenoh.handlers.RingChannel
    subscriber = opened.declare_subscriber(channel.name, kind(DEEP if channel.reliable else 64))

    def read(sample: Any) -> tuple[int, ...]:
        return read_stamp(sample.payload.to_bytes())

    return Receiver(subscriber.try_recv, subscriber.recv, read, kept=subscriber)
