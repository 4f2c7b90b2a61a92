"""Sockets of connections, before a peer is known: how a place is reached and tried again, options, what the first bytes
may be, and the listening side.

Everything that comes to the listening side is hostile until its hello. A connection costs a socket and a task until its
guest says that it is through. Beyond the caps the oldest one that is not through gives way: a slow peer cannot keep
others out, and a good one needs milliseconds. Each has PATIENCE.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import struct
from abc import ABC, abstractmethod
from asyncio.staggered import staggered_race
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, Self, TypeVar

import uvloop

from rtmw.errors import RtmwError, SessionError
from rtmw.net.security.names import user_name
from rtmw.net.session.errors import Code, NotGreeted, Violation
from rtmw.net.session.hello import MAGIC
from rtmw.net.session.meetings import PATIENCE
from rtmw.text.addresses import place_to_reach, unix_path

SHORTEST: Final = 0.05
LONGEST: Final = 2.0
"""Seconds between two tries; they double, and each is drawn from half of it to all of it."""


class Backoff:
    """`async for _ in Backoff()` is a loop of tries: the first comes at once, each later one after its wait.

    Many that lose their peer at the same moment do not come back at the same moment.
    """

    def __init__(self, shortest: float = SHORTEST, longest: float = LONGEST) -> None:
        self._wait = self._shortest = shortest
        self._longest = longest
        self._has_tried = False

    def seconds(self) -> float:
        """Seconds to wait before the next try; they are about twice as long each time."""
        drawn = self._wait * random.uniform(0.5, 1.0)
        self._wait = min(2 * self._wait, self._longest)
        return drawn

    def reset(self) -> None:
        """A try has succeeded."""
        self._wait = self._shortest

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> None:
        if self._has_tried:
            await asyncio.sleep(self.seconds())
        self._has_tried = True


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


BACKLOG: Final = 4096
"""Connections that the kernel keeps until they are accepted. One that finds no room tries again after a second."""
PENDING: Final = 64
"""Connections that are not through, in all."""
PENDING_OF_ONE: Final = 8
"""Connections of one address or user that are not through."""
REST: Final = 0.1
"""Seconds without accepting after the process ran out of descriptors."""


class Guest(Protocol):
    """A connection that was accepted."""

    async def greet(self) -> None:
        """Greets the peer, from the first bytes until it is through or has failed. Cancelled when it has to give
        way."""
        ...

    def over(self) -> None:
        """`greet` is over, or was never begun."""
        ...


class NodeGuest(ABC):
    """A connection that should be another node's: it is through, or refused and counted, within PATIENCE."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    async def greet(self) -> None:
        """Lets the connection in within PATIENCE, or refuses it."""
        try:
            async with asyncio.timeout(PATIENCE):
                self.socket.setblocking(False)
                await self.let_in()
        except TimeoutError:
            await self.refuse("too slow", NotGreeted("too slow", "it took too long to say who it is", Code.SILENT))
        except (RtmwError, Violation) as error:  # also TlsError
            said = SessionError(str(error), error.code) if isinstance(error, Violation) else error
            await self.refuse("refused", said)
        except OSError as error:
            await self.refuse("connection lost", error)

    @abstractmethod
    async def let_in(self) -> None:
        """Returns once it is through. Raises OSError, RtmwError, Violation; then it is refused."""

    @abstractmethod
    async def refuse(self, cause: str, error: Exception) -> None:
        """Count it, once, and say why where that can be said. `cause`: of what says nothing better."""


class Accepting:
    """Accepts the connections of a listening socket. No coroutine: one that is cancelled when a connection has just
    come loses it, open."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        come: Callable[[socket.socket, Any], bool],
        failed: Callable[[], None],
    ) -> None:
        """`come`: told of a connection, and of the address of its other end. False: the next one comes in the next turn
        of the loop, for whoever has come is to have had a turn by then, and may be through. `failed`: there was one,
        and it could not be had."""
        self._loop, self._socket, self._come, self._failed = loop, listening, come, failed
        self._resting: asyncio.TimerHandle | None = None
        self._listen()

    def close(self) -> None:
        """Idempotent. The listening socket stays open."""
        if self._resting is not None:
            self._resting.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())

    def _listen(self) -> None:
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        goes_on = True
        while goes_on:
            try:
                sock, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptor is left, or the peer has gone again
                self._failed()
                self._loop.remove_reader(self._socket.fileno())
                self._resting = self._loop.call_later(REST, self._listen)
                return
            sock.setblocking(False)
            goes_on = self._come(sock, address)


class Door:
    """Accepts connections of one listening socket."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        refused: Counter[str],
        guest: Callable[[socket.socket, str], Guest],
        of_one: int = PENDING_OF_ONE,
    ) -> None:
        """`guest`: of a connection, and of the address that it came from: that of a host, or a user, `uid:1000`.
        `of_one`: connections of one address that may be pending."""
        self._loop, self._socket, self._refused, self._guest = loop, listening, refused, guest
        self._of_one = of_one
        self._pending: dict[asyncio.Task[None], str] = {}
        self._accepting = Accepting(loop, listening, self._come, lambda: refused.update(["not accepted"]))

    def close(self) -> None:
        """Idempotent."""
        self._accepting.close()
        for task in self._pending:
            task.cancel()
        self._socket.close()

    def _come(self, sock: socket.socket, address: Any) -> bool:
        """Is half of the room free, so that nobody who has just come has to give way?"""
        self._admit(sock, user_of(sock) if sock.family == socket.AF_UNIX else address[0])
        return len(self._pending) < min(PENDING, self._of_one) // 2

    def _admit(self, sock: socket.socket, address: str) -> None:
        same = [task for task, other in self._pending.items() if other == address]
        if len(same) >= self._of_one:
            self._give_way(same[0], "too many of one address")
        elif len(self._pending) >= PENDING:
            self._give_way(next(iter(self._pending)), "too many")
        guest = self._guest(sock, address)
        task = self._loop.create_task(guest.greet())
        self._pending[task] = address
        task.add_done_callback(lambda done: self._over(done, guest))

    def _over(self, task: asyncio.Task[None], guest: Guest) -> None:
        self._pending.pop(task, None)
        guest.over()

    def _give_way(self, task: asyncio.Task[None], cause: str) -> None:
        self._refused[cause] += 1
        del self._pending[task]
        task.cancel()
