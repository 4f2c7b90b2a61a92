"""A connection in asyncio, from the first byte until a line has it: TLS, and the words of the greeting."""

from __future__ import annotations

import asyncio
import socket
from collections import deque

from rtmw.errors import RtmwError, SessionError
from rtmw.net.link.library import Connection, Context
from rtmw.net.link.messages import Bye, Message, pack, read
from rtmw.net.session.errors import Violation
from rtmw.net.session.sockets import user_of


class Talk:
    """Errors of `shake`, `say` and `hear`: OSError, TlsError, SessionError for what the peer said or broke."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, context: Context | None) -> None:
        """`sock` is closed; the connection has its own descriptor. `context`: for TLS; a Unix socket needs none."""
        self._loop = loop
        is_unix = sock.family == socket.AF_UNIX
        try:
            self.user = user_of(sock) if is_unix else ""
            """The user at the other end, as the kernel says; empty: it does not."""
            self.connection = Connection(sock.fileno(), None if is_unix else context)
        finally:
            sock.close()
        self._heard: deque[bytes] = deque()

    async def shake(self) -> None:
        """TLS; without, nothing."""
        while (what := self.connection.handshake()) != "done":
            await self._ready(what)

    async def say(self, message: Message) -> None:
        """Give it to the kernel."""
        self.connection.say(pack(message))
        while (what := self.connection.flush()) != "done":
            await self._ready(what)

    async def hear(self) -> Message:
        """The next message that is known here. Raises SessionError for Bye, and for what is no message."""
        while True:
            while not self._heard:
                found = self.connection.heard()
                if found is None:
                    raise ConnectionResetError("the peer closed the connection")
                self._heard += found
                if not found:
                    await self._ready("read")
            try:
                message = read(self._heard.popleft())
            except Violation as error:
                raise SessionError(f"the peer broke the protocol: {error}", error.code) from None
            if isinstance(message, Bye):
                raise SessionError(f"the peer refuses: {message.why}", message.code)
            if message is not None:
                return message

    async def bye(self, code: int, why: str) -> None:
        """Say why, as far as the socket takes it, and close."""
        try:
            self.connection.say(pack(Bye(code, why)))
            self.connection.flush()
        except (OSError, RtmwError):
            pass
        self.close()

    def close(self) -> None:
        """Idempotent; does nothing to a connection that a line has."""
        self.connection.close()

    async def _ready(self, what: str) -> None:
        """Wait until the connection can be read or written."""
        future, descriptor = self._loop.create_future(), self.connection.fileno()
        add, remove = (
            (self._loop.add_reader, self._loop.remove_reader)
            if what == "read"
            else (self._loop.add_writer, self._loop.remove_writer)
        )
        add(descriptor, _set, future)
        try:
            await future
        finally:
            remove(descriptor)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
