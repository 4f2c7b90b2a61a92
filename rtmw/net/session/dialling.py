"""The dialling side: the first connection is tried once, and later ones again and again while the session lives."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

from rtmw.errors import RtmwError, SessionError
from rtmw.net.session.backoff import Backoff
from rtmw.net.session.errors import Code, in_words
from rtmw.net.session.meetings import PATIENCE
from rtmw.net.session.pipe import Pipe
from rtmw.net.session.sockets import reach

if TYPE_CHECKING:
    from rtmw.net.session.carrier import Carrier
    from rtmw.net.session.session import Session

LONGEST: Final = 0.1
"""Seconds between two tries, at most, while the session lives: its lease bounds their number, and what is on its way
waits for the next one."""


class Dialling:
    """Keeps one session connected."""

    def __init__(self, carrier: Carrier, place: str) -> None:
        self._carrier, self._place = carrier, place
        self._task: asyncio.Task[None] | None = None

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def first(self) -> int:
        """The session of the first connection. Raises SessionError."""
        session = await self._try()
        found = self._carrier.session(session)
        if found is None:
            raise SessionError(f"{self._place}: the session was over at once", Code.CLOSED)
        self._task = self._carrier.loop.create_task(self._keep(found))
        return session

    async def _try(self) -> int:
        """One connection, up to the session that it carries. Raises SessionError."""
        pipe = Pipe(self._carrier, is_dialler=True)
        try:
            async with asyncio.timeout(PATIENCE):
                await self._connect(pipe)
                return await asyncio.shield(pipe.joined)
        except TimeoutError:
            raise SessionError(f"{self._place}: no session within {PATIENCE:g} s", Code.SILENT) from None
        except SessionError as error:
            raise SessionError(f"{self._place}: {error}", error.code) from error
        except OSError as error:  # also SSLError
            raise SessionError(f"{self._place}: {in_words(error, '')[1]}", Code.REFUSED) from error
        finally:
            if not (pipe.joined.done() and not pipe.joined.exception()):
                self._carrier.abort(pipe)

    async def _connect(self, pipe: Pipe) -> None:
        loop, identity, sock = self._carrier.loop, self._carrier.identity, await reach(self._place)
        if sock.family == socket.AF_UNIX:
            await loop.create_unix_connection(lambda: pipe, sock=sock)
        else:
            context = identity.client_context() if identity else None
            await loop.create_connection(lambda: pipe, sock=sock, ssl=context, server_hostname="" if context else None)

    async def _keep(self, session: Session) -> None:
        """Whichever connection carries the session: that of the other side, too."""
        backoff = Backoff(longest=LONGEST)
        async for _ in backoff:
            if session.error is not None:
                return
            if not session.is_connected:
                try:
                    await self._try()
                except RtmwError:
                    continue
            backoff.reset()
            await session.cut()
