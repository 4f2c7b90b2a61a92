"""The dialling side: the first connection is tried once, and later ones again and again while the session lives."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from rtmw.errors import RtmwError, SessionError
from rtmw.net.security.tls_errors import in_words
from rtmw.net.session.backoff import Backoff
from rtmw.net.session.errors import Code
from rtmw.net.session.meetings import PATIENCE
from rtmw.net.session.pipe import Pipe

if TYPE_CHECKING:
    from rtmw.net.session.carrier import Carrier
    from rtmw.net.session.session import Session

LONGEST: Final = 0.1
"""Seconds between two tries, at most, while the session lives: its lease bounds their number, and what is on its way
waits for the next one."""


class Dialling:
    """Keeps one session connected."""

    def __init__(
        self,
        carrier: Carrier,
        place: tuple[str, int],
        connect: Callable[[], Awaitable[tuple[asyncio.BaseTransport, Pipe]]],
    ) -> None:
        self._carrier = carrier
        self._place = f"{place[0]}:{place[1]}" if place[1] else place[0]
        self._connect = connect
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
        pipe: Pipe | None = None
        try:
            async with asyncio.timeout(PATIENCE):
                _, pipe = await self._connect()
                return await asyncio.shield(pipe.joined)
        except TimeoutError:
            raise SessionError(f"{self._place}: no session within {PATIENCE:g} s", Code.SILENT) from None
        except SessionError as error:
            raise SessionError(f"{self._place}: {error}", error.code) from error
        except (ssl.SSLError, OSError) as error:
            is_of_tls = isinstance(error, ssl.SSLError) or not str(error)
            words = in_words(error)[1] if is_of_tls else error.strerror or str(error)
            raise SessionError(f"{self._place}: {words}", Code.REFUSED) from error
        finally:
            if pipe is not None and not (pipe.joined.done() and not pipe.joined.exception()):
                self._carrier.abort(pipe)

    async def _keep(self, session: Session) -> None:
        """Whichever connection carries the session: that of the other side, too."""
        backoff = Backoff(longest=LONGEST)
        while session.error is None:
            await session.cut()
            await asyncio.sleep(backoff.seconds())
            if session.is_connected:
                backoff.reset()
            elif session.error is None:
                try:
                    await self._try()
                    backoff.reset()
                except RtmwError:
                    continue
