"""What the kernel takes for the way between two hosts: bare sockets, flat out, from one process to another."""

from __future__ import annotations

import os
import socket
import time
from typing import Final

from bench.role import Role
from bench.stage import ADDRESS

UDP_SOCKET, TCP_SOCKET = "UDP socket", "TCP socket"
DATAGRAM: Final = 65_000
"""Bytes: as large as those of a node."""
SILENCE_S: Final = 0.4
BUFFER: Final = 8 << 20


def socket_source(role: Role) -> float:
    """Processor time in nanoseconds a byte that was sent."""
    host, _, port = role.hear().rpartition(":")
    kind = socket.SOCK_DGRAM if role.peer == UDP_SOCKET else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as line:
        line.connect((host, int(port)))
        body, sent, end = bytes(DATAGRAM), 0, time.monotonic() + role.options["seconds"]
        before = time.process_time_ns()
        while time.monotonic() < end:
            sent += line.send(body)
        return (time.process_time_ns() - before) / sent


def socket_sink(role: Role) -> tuple[float, float]:
    """MiB/s that arrived, and processor time in nanoseconds a byte."""
    kind = socket.SOCK_DGRAM if role.peer == UDP_SOCKET else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as place:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        place.bind((os.environ[ADDRESS], 0))
        if kind == socket.SOCK_STREAM:
            place.listen()
        role.tell(":".join(map(str, place.getsockname())))
        line = place if kind == socket.SOCK_DGRAM else place.accept()[0]
        with line:
            return drained(line)


def drained(line: socket.socket) -> tuple[float, float]:
    buffer = bytearray(1 << 20)
    line.recv_into(buffer)
    line.settimeout(SILENCE_S)
    seen, first, before = 0, time.monotonic(), time.process_time_ns()
    last = first
    try:
        while count := line.recv_into(buffer):
            seen, last = seen + count, time.monotonic()
    except TimeoutError:
        pass
    if not seen:
        raise RuntimeError("nothing arrived")
    return seen / (last - first) / 2**20, (time.process_time_ns() - before) / seen
