"""zenoh as between two hosts: peer to peer over TCP, with its shared memory off. It lends nothing."""

from __future__ import annotations

import os
import socket
import time
from functools import cache
from pathlib import Path

from bench.peers import PATIENCE, Channel, Receiver, Sender
from bench.peers import zenoh as common
from bench.stage import ADDRESS


@cache
def free_place() -> str:
    """Address and port of this process."""
    with socket.create_server((os.environ[ADDRESS], 0)) as server:
        host, port = server.getsockname()
        return f"{host}:{port}"


def told_place(file: Path) -> str:
    """What the process that listens has written."""
    end = time.monotonic() + PATIENCE
    while not file.exists():
        if time.monotonic() > end:
            raise RuntimeError(f"the process that listens named no place within {PATIENCE:.0f} s")
        time.sleep(0.01)
    return file.read_text()


def endpoint(channel: Channel, protocol: str = "tcp") -> str:
    file = Path(channel.place, "zenoh-place")
    if channel.listens:
        written = file.with_suffix(".part")
        written.write_text(free_place())
        written.rename(file)  # seen whole, or not yet
    return f"{protocol}/{told_place(file)}"


TCP = common.Way(endpoint, shared_memory=False)


def sender(channel: Channel) -> Sender:
    publisher = common.copier(channel, TCP)
    return Sender(publisher.put, kept=publisher)


def receiver(channel: Channel) -> Receiver:
    return common.receiver(channel, TCP)
