"""Sockets of connections: options, and what may be said before any state is made for a peer."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Final

from rtmw.net.security.names import user_name
from rtmw.net.session.hello import MAGIC

UNSENT: Final = 16384
"""Bytes that the kernel takes and has not sent yet: behind so many an urgent chunk waits."""
FIRST: Final = 6
"""Bytes that are looked at before any state is made."""
_TLS_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_MOST_RECORD: Final = 16384 + 256
_CREDENTIALS: Final = struct.Struct("iII")


def tune(sock: socket.socket, lease: float) -> None:
    """A peer that acknowledges nothing for half the lease is cut by the kernel; little lies unsent in its buffer."""
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, round(lease * 500)))
        with suppress(OSError):  # a kernel without it only has longer queues
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)


def is_plausible(first: bytes, *, tls: bool) -> bool:
    """May a connection that begins with these FIRST bytes be a node? With TLS: the record of a ClientHello."""
    if not tls:
        return first == MAGIC[:FIRST]
    kind, major, _, length, message = struct.unpack(">BBBHB", first)
    is_handshake: bool = kind == _TLS_HANDSHAKE and message == _CLIENT_HELLO
    return is_handshake and major == 3 and 0 < length <= _MOST_RECORD


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def first_bytes(sock: socket.socket) -> bytes:
    """The first bytes that came, which stay in the socket; fewer than FIRST if the peer closed. Raises OSError."""
    loop = asyncio.get_running_loop()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, FIRST)  # readable with FIRST bytes, not with one
    readable: asyncio.Future[None] = loop.create_future()
    descriptor = sock.fileno()
    loop.add_reader(descriptor, _set, readable)
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    return sock.recv(FIRST, socket.MSG_PEEK)


def user_of(sock: socket.socket) -> str:
    """The user at the other end of a Unix socket, as the kernel says: `uid:1000`."""
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return user_name(_CREDENTIALS.unpack(found)[1])
