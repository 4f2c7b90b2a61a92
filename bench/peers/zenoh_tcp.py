"""zenoh as between two hosts: peer to peer over TCP on loopback, with its shared memory off. It lends nothing."""

from __future__ import annotations

import socket
import time
from functools import cache
from pathlib import Path

from bench.peers import PATIENCE, Channel, Receiver, Sender
from bench.peers import zenoh as common

HOST = "127.0.0.1"


@cache
def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


def told_port(file: Path) -> int:
    """What the process that listens has written."""
    end = time.monotonic() + PATIENCE
    while not file.exists():
        if time.monotonic() > end:
            raise RuntimeError(f"the process that listens named no port within {PATIENCE:.0f} s")
        time.sleep(0.01)
    return int(file.read_text())


def endpoint(channel: Channel) -> str:
    file = Path(channel.place, "zenoh-port")
    if channel.listens:
        written = file.with_suffix(".part")
        written.write_text(str(free_port()))
        written.rename(file)  # seen whole, or not yet
    return f"tcp/{HOST}:{told_port(file)}"


TCP = common.Way(endpoint, shared_memory=False)


def sender(channel: Channel) -> Sender:
    publisher = common.copier(channel, TCP)
    return Sender(publisher.put, kept=publisher)


def receiver(channel: Channel) -> Receiver:
    return common.receiver(channel, TCP)
