"""An agent's connection to its relay: made anew until it is closed, by either side, with or without TLS.

There is one at a time, the newest. Whoever has a line says packets and hears packets; what is said while there is no
connection is lost, and `welcomed` is the moment to say again what has no answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from rtmw.errors import RtmwError
from rtmw.net.link.places import Listening
from rtmw.net.session.errors import in_words
from rtmw.net.session.sockets import LONGEST, Accepting, Backoff, carry, reach, tune
from rtmw.relay.frame import (
    LEASE_S,
    LINGER_S,
    LONGEST_DATA,
    MAGIC,
    SIZE_OF_WELCOME,
    FrameError,
    Hello,
    Kind,
    OwnSplitter,
    Packet,
    Welcome,
    readable,
)
from rtmw.relay.frame import encode as encoded
from rtmw.text.addresses import UNIX, is_loopback, place_to_reach, unix_path

log = logging.getLogger("rtmw.relay")

UNSENT: Final = 1 << 20
"""Bytes that the connection has not taken, from which on `is_clear` is False."""
GUESTS: Final = 8
"""Connections to an agent that listens, with those that prove to be of no relay."""
GREETING_S: Final = 10.0
"""Seconds that a connection may take until the welcome."""


def place_of(server: str) -> str:
    """Where the relay listens. A path of a Unix socket begins at the folder of this process. Raises ValueError."""
    if not isinstance(server, str):
        raise TypeError(f"server={server!r} is not possible; it is text, such as '127.0.0.1:7460' or 'unix:relay.sock'")
    if server.startswith(UNIX) and server != UNIX:
        server = f"{UNIX}{Path(server.removeprefix(UNIX)).absolute()}"
    if unix_path(server) is None:
        try:
            place_to_reach(server)
        except ValueError:
            forms = "neither HOST:PORT, such as 127.0.0.1:7460, nor unix:PATH, such as unix:relay.sock"
            raise ValueError(f"server={server!r} is {forms}") from None
    return server


class Heard(NamedTuple):
    """Whom a line tells, in the thread of its loop."""

    welcomed: Callable[[Welcome], None]
    packet: Callable[[Packet], None]
    counted: Callable[[str], None]
    alert: Callable[[str], None]
    """Why there is no relay, where that is no matter of the network."""


class Line:
    """An agent's connection to its relay. It belongs to the thread of its loop."""

    def __init__(
        self, hello: Hello, heard: Heard, server: str | None, listen: str | None, keys: str | os.PathLike[str] | None
    ) -> None:
        """`server`: where the relay listens; `listen`: where the agent does; there is one of them, or both. Raises
        ValueError, TypeError, KeysError, NodeError."""
        self.longest = LONGEST_DATA
        """Bytes of data that the relay takes."""
        self.socket: socket.socket | None = None
        self._hello, self._heard = hello, heard
        self._place, self._identity = None if server is None else place_of(server), None
        if keys is not None:
            from rtmw.net.security.identity import Identity  # a program without TLS needs no package for it

            self._identity = Identity.load(Path(keys))
        self._listening = None if listen is None else Listening(listen, "listen")
        self._writer: asyncio.StreamWriter | None = None
        """The stream of the newest connection that was welcomed."""
        self._crc, self._said = False, ""
        self._lost = asyncio.Event()
        self._accepting: Accepting | None = None
        self._guests: set[asyncio.Task[None]] = set()

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """What is to run until the end; then `close`."""
        if self._listening is not None:
            missed = partial(self._heard.counted, "not accepted")
            self._accepting = Accepting(asyncio.get_running_loop(), self._listening.socket, self._come, missed)
        return [] if self._place is None else [self._dial(self._place)]

    async def close(self, works: list[asyncio.Task[Any]]) -> None:
        """What was said leaves, if the relay reads it soon."""
        writer = self._writer
        if self._accepting is not None:
            self._accepting.close()
            await asyncio.sleep(0)  # who has just come has begun then, and closes its socket
        for task in (*works, *self._guests):
            task.cancel()
        await asyncio.gather(*works, *self._guests, return_exceptions=True)
        self.unlisten()
        if writer is not None:
            with suppress(OSError):  # also TimeoutError
                async with asyncio.timeout(LINGER_S):
                    await writer.wait_closed()

    def unlisten(self) -> None:
        if self._listening is not None:
            self._listening.close()

    def leave(self) -> None:
        """Closes the sockets in a child of fork(), which would hold them open longer than its parent."""
        for one in (self.socket, self._listening.socket if self._listening is not None else None):
            if one is not None:
                one.close()

    @property
    def is_clear(self) -> bool:
        """What is said now leaves soon."""
        return self._writer is not None and self._writer.transport.get_write_buffer_size() < UNSENT

    def say(self, packet: Packet) -> None:
        """Lost without a connection."""
        if self._writer is not None:
            self._writer.write(encoded(packet, self._crc))

    async def _dial(self, place: str) -> None:
        loop, backoff = asyncio.get_running_loop(), Backoff()
        async for _ in backoff:
            while self._writer is not None:  # the relay has connected to this agent
                self._lost.clear()
                await self._lost.wait()
            began = loop.time()
            await self._converse(place)
            if loop.time() - began > LONGEST:  # else two programs with one address would take over by turns
                backoff.reset()

    def _come(self, sock: socket.socket, _: object) -> bool:
        if len(self._guests) >= GUESTS:
            sock.close()
            self._heard.counted("too many connections at a time")
            return False
        task = asyncio.get_running_loop().create_task(self._converse(sock))
        self._guests.add(task)
        task.add_done_callback(self._guests.discard)
        return len(self._guests) < GUESTS

    async def _converse(self, to: str | socket.socket) -> None:
        """One connection, up to its end. Why it ends is counted, and logged if it is another fault than before."""
        words = "the relay has closed it"
        try:
            async with asyncio.timeout(GREETING_S):
                sock = await reach(to) if isinstance(to, str) else to
                reader, writer, splitter = await self._greet(sock, is_dialler=isinstance(to, str))
            try:
                while data := await reader.read(UNSENT):
                    for packet in splitter.feed(data):
                        if packet.kind is Kind.ALERT and not any(packet.frame.answers[0]):  # it is about no order
                            raise FrameError(f"the relay refuses: {words_of(packet)}")
                        self._heard.packet(packet)
            finally:
                self._part(writer)
        except (OSError, EOFError, RtmwError) as error:  # also of TLS, and TimeoutError
            words = "it has closed the connection" if isinstance(error, EOFError) else in_words(error, "")[1]
            if self._said != words and isinstance(error, RtmwError | ssl.SSLError):
                self._heard.alert(f"no relay: {words}")
        self._heard.counted(f"connection ended: {words}")
        if self._said != (said := words):
            log.warning("agent %s has no relay now: %s", readable(self._hello.address), said)
            self._said = said

    async def _greet(
        self, sock: socket.socket, *, is_dialler: bool
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, OwnSplitter]:
        """Greets the relay up to its welcome, and returns the streams. Raises OSError, EOFError, FrameError,
        KeysError."""
        writer = None
        try:
            tune(sock, LEASE_S, is_asked=True)
            is_unix = sock.family == socket.AF_UNIX
            is_here = is_unix or is_loopback(sock.getpeername()[0])
            context, reader = None, asyncio.StreamReader()
            if self._identity is not None and not is_unix:
                context = self._identity.client_context() if is_dialler else self._identity.server_context()
            protocol = asyncio.StreamReaderProtocol(reader)
            transport, _ = await carry(lambda: protocol, sock, context, is_dialler=is_dialler)
            writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
            is_plain = writer.get_extra_info("ssl_object") is None
            writer.write(self._hello._replace(crc=is_plain and not is_here).encode())
            opening = await reader.readexactly(len(MAGIC))
            if opening != MAGIC:
                refused = OwnSplitter().feed(opening + await reader.read(UNSENT))
                raise FrameError(f"the relay refuses: {words_of(refused[0])}" if refused else "it is no relay of rtmw")
            welcome = Welcome.decode(opening + await reader.readexactly(SIZE_OF_WELCOME - len(MAGIC)))
            self._welcomed(writer, sock, welcome)
        except BaseException:
            if writer is not None:
                writer.transport.abort()
            sock.close()
            raise
        return reader, writer, OwnSplitter(crc=welcome.crc)

    def _welcomed(self, writer: asyncio.StreamWriter, sock: socket.socket, welcome: Welcome) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer, self.socket, self._said = writer, sock, ""
        self._crc, self.longest = welcome.crc, welcome.longest
        self._heard.counted("connected")
        self._heard.welcomed(welcome)

    def _part(self, writer: asyncio.StreamWriter) -> None:
        """What was sent leaves, if the relay reads it soon."""
        if writer is self._writer:
            self._writer = self.socket = None
            self._lost.set()
        writer.close()
        asyncio.get_running_loop().call_later(LINGER_S, writer.transport.abort)


def words_of(packet: Packet) -> str:
    """What an alert or a notice says, behind the bytes that name its order."""
    return packet.frame.body.decode("utf-8", "replace")
