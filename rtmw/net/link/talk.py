"""A connection in asyncio, from the first byte until a line has it: TLS, and the words of the greeting.

Where neither end sees the connection leave the host, and both run on one kernel, its bytes are copied from memory to
memory, as on a bus: a line then sends them without a CRC. With only one of the two, they may pass a tunnel.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from contextlib import suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from rtmw.errors import RtmwError, SessionError
from rtmw.net.link.library import Connection, Context
from rtmw.net.link.messages import Bye, Hello, Message, pack, read
from rtmw.net.session.errors import Violation
from rtmw.net.session.sockets import ready, user_of

LEAVE_S: Final = 1.0
UNREAD_MOST: Final = 1 << 16
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


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
        self._kernel = _kernel() if self.connection.is_within_host else ""
        self._is_from_memory = False

    def introduced(self, mine: Hello) -> Hello:
        """The hello of this node, as it is said here."""
        return replace(mine, kernel=self._kernel)

    def meet(self, peer: Hello) -> None:
        """The peer has said hello."""
        self._is_from_memory = bool(self._kernel) and peer.kernel == self._kernel

    def for_line(self) -> Connection:
        """The connection, when the last message was said and heard."""
        if self._is_from_memory:
            self.connection.omit_crc()
        return self.connection

    async def shake(self) -> None:
        """TLS; without, nothing."""
        while (what := self.connection.handshake()) != "done":
            await ready(self.connection.fileno(), what)

    async def say(self, message: Message) -> None:
        """Give it to the kernel."""
        self.connection.say(pack(message))
        while (what := self.connection.flush()) != "done":
            await ready(self.connection.fileno(), what)

    async def hear(self) -> Message:
        """The next message that is known here. Raises SessionError for Bye, and for what is no message."""
        while True:
            while not self._heard:
                found = self.connection.heard()
                if found is None:
                    raise ConnectionResetError("the peer closed the connection")
                self._heard += found
                if not found:
                    await ready(self.connection.fileno(), "read")
            try:
                message = read(self._heard.popleft())
            except Violation as error:
                raise SessionError(f"the peer broke the protocol: {error}", error.code) from None
            if isinstance(message, Bye):
                raise SessionError(f"the peer refuses: {message.why}", message.code)
            if message is not None:
                return message

    async def bye(self, code: int, why: str) -> None:
        """Say why, as far as the socket takes it, and leave."""
        with suppress(OSError, RtmwError):
            self.connection.say(pack(Bye(code, why)))
            self.connection.flush()
        await self.leave()

    async def leave(self) -> None:
        """Close, so that the peer hears what was said last: a BYE, or an alert of TLS.

        The kernel resets a connection that is closed with unread bytes, and the peer may lose what it has not read yet.
        So those of the peer are read until it closes, too, UNREAD_MOST bytes and LEAVE_S at most.
        """
        left = UNREAD_MOST
        with suppress(OSError, RtmwError), socket.socket(fileno=os.dup(self.connection.fileno())) as sock:
            sock.setblocking(False)
            self.close()
            sock.shutdown(socket.SHUT_WR)
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    while left > 0 and (got := len(await self._loop.sock_recv(sock, left))):
                        left -= got

    def close(self) -> None:
        """Idempotent; does nothing to a connection that a line has."""
        self.connection.close()


@cache
def _kernel() -> str:
    """Which kernel this is since it was started; empty: it does not say."""
    try:
        return sha256(_BOOT_ID.read_bytes()).hexdigest()
    except OSError:
        return ""
