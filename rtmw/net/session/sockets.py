"""Sockets of connections: how a place is reached, options, and what may be said before any state is made for a peer."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from asyncio.staggered import staggered_race
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import uvloop

from rtmw.addresses import place_to_reach, unix_path
from rtmw.net.security.names import user_name
from rtmw.net.session.errors import NotGreeted
from rtmw.net.session.hello import MAGIC

P = TypeVar("P", bound=asyncio.BaseProtocol)
NEXT_ADDRESS_S: Final = 0.25
"""Seconds after which the next address of a name is tried, too, while the one before has not answered (RFC 8305)."""
UNSENT: Final = 16384
"""Bytes that the kernel takes and has not sent yet: behind so many an urgent chunk waits."""
FIRST: Final = 6
"""Bytes that are looked at before any state is made."""
_TLS_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_MOST_RECORD: Final = 16384 + 256
_CREDENTIALS: Final = struct.Struct("iII")


async def reach(place: str) -> socket.socket:
    """A connection to this place: to the first of its addresses that answers. Raises OSError."""
    path, made = unix_path(place), list[socket.socket]()
    try:
        if path is not None:
            return await _connect(made, socket.AF_UNIX, path)
        host, port = place_to_reach(place)
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        tries = [partial(_connect, made, socket.AddressFamily(family), address) for family, *_, address in found]
        reached: socket.socket | None
        reached, _, errors = await staggered_race(tries, NEXT_ADDRESS_S)
        if reached is None:
            raise next((error for error in errors if error is not None), OSError(f"{place} has no address"))
        return reached
    except BaseException:  # cancelled, too, when one of them has just been reached
        for sock in made:
            sock.close()
        raise


async def _connect(made: list[socket.socket], family: socket.AddressFamily, address: object) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    made.append(sock)
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, address)  # type: ignore[arg-type]
    except BaseException:
        sock.close()
        raise
    return sock


async def carry(
    made: Callable[[], P],
    sock: socket.socket,
    tls: ssl.SSLContext | None = None,
    *,
    is_dialler: bool,
    patience: float | None = None,
) -> tuple[asyncio.Transport, P]:
    """A transport takes a connected socket over, whatever comes; nobody else closes it from then on.

    `patience`: seconds for the handshake of `tls`; None: a minute. Raises OSError, also SSLError.
    """
    loop = asyncio.get_running_loop()
    if not is_dialler:
        making = loop.connect_accepted_socket(made, sock, ssl=tls, ssl_handshake_timeout=patience)
    elif sock.family == socket.AF_UNIX:
        making = loop.create_unix_connection(made, sock=sock)
    else:
        name = None if tls is None else ""
        making = loop.create_connection(made, sock=sock, ssl=tls, server_hostname=name, ssl_handshake_timeout=patience)
    try:
        transport, protocol = await making
    finally:
        if isinstance(loop, uvloop.Loop):
            # A transport that closed while it was being made has closed the descriptor and left its number here
            # (uvloop 0.23): the socket would close it once more when it is collected, and it is another's by then.
            sock.detach()
    return transport, protocol


def tune(sock: socket.socket, lease: float, *, is_asked: bool = False) -> None:
    """A peer that acknowledges nothing for half the lease is cut by the kernel; little lies unsent in its buffer.
    `is_asked`: also where nothing is sent, for the kernel asks a peer that says nothing whether it is there."""
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, round(lease * 500)))
        with suppress(OSError):  # a kernel without it only has longer queues
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
        if is_asked:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, round(lease / 2)))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, round(lease / 6)))


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


async def ready(descriptor: int, what: str) -> None:
    """Wait until it can be read, or, if `what` is not "read", written."""
    loop = asyncio.get_running_loop()
    add, remove = (loop.add_reader, loop.remove_reader) if what == "read" else (loop.add_writer, loop.remove_writer)
    future: asyncio.Future[None] = loop.create_future()
    add(descriptor, _set, future)
    try:
        await future
    finally:
        remove(descriptor)


async def look(sock: socket.socket, *, tls: bool) -> None:
    """Wait for the first bytes, which stay in the socket. Raises NotGreeted unless they may be a node's; OSError."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, FIRST)  # readable with FIRST bytes, not with one
    await ready(sock.fileno(), "read")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    first = sock.recv(FIRST, socket.MSG_PEEK)
    if not first:
        raise NotGreeted("nothing said", "it said nothing")
    if len(first) < FIRST or not is_plausible(first, tls=tls):
        raise NotGreeted("no node", "what came is no TLS" if tls else "what came is no hello of rtmw")


def uid_of(sock: socket.socket) -> int:
    """The user at the other end of a Unix socket, as the kernel says."""
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])


def user_of(sock: socket.socket) -> str:
    """The name of the peer at the other end of a Unix socket: `uid:1000`."""
    return user_name(uid_of(sock))
