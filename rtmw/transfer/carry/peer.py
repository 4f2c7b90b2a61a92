"""A peer: transfers with one node, in both directions, over the sessions that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from rtmw.errors import SessionError, StreamError
from rtmw.net.session import Code, Session
from rtmw.transfer.carry.half import Desk, log
from rtmw.transfer.carry.inbound import Inbound
from rtmw.transfer.carry.journal import Journal
from rtmw.transfer.carry.outbound import Outbound
from rtmw.transfer.wire.frames import PURPOSE, Terms

__all__ = ["KNOWS_SEEN", "Peer", "sweep"]

KNOWS_SEEN: Final = "seen"
"""Capability that the hello of a node has, if the node knows the frame SEEN."""
_AGAIN_S: Final = 0.2
"""Seconds until a stream that was reset is opened again."""


def sweep(bodies: Path, journal: Journal) -> int:
    """Remove bodies that a crash has left, and return how many. Call it before any peer runs."""
    needed = journal.arriving_names()
    old = [path for path in bodies.iterdir() if path.name not in needed]
    for path in old:
        path.unlink()
    return len(old)


class Peer:
    """Carries transfers to and from the node `node`. `bodies`: an existing folder for bodies that have not come
    whole."""

    def __init__(self, node: str, desk: Desk, journal: Journal, bodies: Path, terms: Terms | None = None) -> None:
        self.node = node
        self.outbound = Outbound(node, desk, journal, terms)
        self.inbound = Inbound(node, desk, journal, bodies, terms)
        self._failed: BaseException | None = None

    async def run(self, session: Session) -> None:
        """Carry transfers until the session is over. Call it again for the next session."""
        self.inbound.tells_seen = KNOWS_SEEN in session.peer.capabilities
        tasks = [asyncio.ensure_future(self._send(session)), asyncio.ensure_future(self._receive(session))]
        over = asyncio.ensure_future(session.over())
        try:
            await asyncio.wait([over, *tasks], return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in (over, *tasks):
                task.cancel()
            ended = await asyncio.gather(over, *tasks, return_exceptions=True)
            self._keep_failure(ended)

    @property
    def failed(self) -> BaseException | None:
        """An unexpected error; the core has to end with it."""
        return self._failed or self.outbound.turns.failed or self.inbound.failed

    def _keep_failure(self, ended: Iterable[object]) -> None:
        for one in ended:
            if isinstance(one, Exception) and self._failed is None:
                self._failed = one
                log.error("transfers with node %s: %r", self.node, one, exc_info=one)

    async def _send(self, session: Session) -> None:
        with suppress(SessionError):
            while True:
                await self.outbound.run(session.open(PURPOSE))
                await asyncio.sleep(_AGAIN_S)

    async def _receive(self, session: Session) -> None:
        """Receive from the newest stream: the sender opens another one when it has left the one before."""
        running: asyncio.Future[None] | None = None
        try:
            async for stream in session:
                if stream.purpose != PURPOSE:
                    stream.reset(f"{stream.purpose!r} is nothing of transfers", Code.REFUSED)
                    continue
                if running is not None:
                    running.cancel()
                    self._keep_failure(await asyncio.gather(running, return_exceptions=True))
                with suppress(StreamError):  # it may have ended before anybody looked at it
                    stream.accept()
                    running = asyncio.ensure_future(self.inbound.run(stream))
        finally:
            if running is not None:
                running.cancel()
                self._keep_failure(await asyncio.gather(running, return_exceptions=True))

    async def close(self) -> None:
        await self.outbound.close()
        await self.inbound.close()
