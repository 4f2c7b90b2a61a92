"""zenoh, peer to peer over a Unix socket, with its shared memory on: bodies of 3 KiB and more go through its pool.

No scouting and no multicast: one side listens on a path, the other connects to it. `loan` writes into a buffer of an
explicit shared-memory provider; the receiver gets a copy either way, its interface gives no more.
"""

from __future__ import annotations

import atexit
import json
from typing import Any

import zenoh

from bench.peers import STAMP, Channel, Receiver, Sender, read_stamp

POOL = 64 << 20
DEEP = 4096


def session(channel: Channel) -> Any:
    config = zenoh.Config()
    where = [f"unixsock-stream/{channel.place}/zenoh"]
    settings: dict[str, Any] = {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "transport/shared_memory/enabled": True,
        "listen/endpoints": where if channel.listens else [],
        "connect/endpoints": [] if channel.listens else where,
    }
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


_sessions: dict[str, Any] = {}


def shared_session(channel: Channel) -> Any:
    """One session a process, for both directions."""
    if channel.place not in _sessions:
        _sessions[channel.place] = opened = session(channel)
        atexit.register(opened.close)
    return _sessions[channel.place]


def sender(channel: Channel) -> Sender:
    opened = shared_session(channel)
    full = zenoh.CongestionControl.BLOCK if channel.reliable or channel.readers == 1 else zenoh.CongestionControl.DROP
    publisher = opened.declare_publisher(channel.name, congestion_control=full)
    provider = zenoh.shm.ShmProvider.default_backend(max(POOL // 4, 4 * channel.size))
    policy = zenoh.shm.BlockOn(zenoh.shm.GarbageCollect())
    put, size, pack = publisher.put, channel.size, STAMP.pack

    def loan(stamp: int) -> None:
        block = provider.alloc(size, policy)
        block[:8] = pack(stamp)
        put(block)

    return Sender(put, loan, kept=publisher)


def receiver(channel: Channel) -> Receiver:
    opened = shared_session(channel)
    kind = zenoh.handlers.FifoChannel if channel.reliable or channel.readers == 1 else zenoh.handlers.RingChannel
    subscriber = opened.declare_subscriber(channel.name, kind(DEEP if channel.reliable else 64))

    def read(sample: Any) -> tuple[int, ...]:
        return read_stamp(sample.payload.to_bytes())

    return Receiver(subscriber.try_recv, subscriber.recv, read, kept=subscriber)
