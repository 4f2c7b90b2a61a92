"""A cable between two linked nodes: the node that dials reaches the other one through a relay."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.net.hosts import PATIENCE
from tests.net.link.nodes import LinkedPair
from tests.net.session.relay import Relay


class Cable:
    """A relay in a thread of its own."""

    def __init__(self, port: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cable")
        self._thread.start()
        self.relay = Relay(port)
        self._run(self.relay.__aenter__())
        self.port = self.relay.port

    def _run(self, what: object) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(PATIENCE)  # type: ignore[arg-type]

    def cut(self, stays_down: bool) -> None:
        async def act() -> None:
            self.relay.is_down = stays_down
            self.relay.cut()

        self._run(act())

    def mend(self) -> None:
        self.relay.is_down = False

    def close(self) -> None:
        self._run(self.relay.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


Cabled = tuple[LinkedPair, Cable]


@contextmanager
def cabled_pair(folder: Path) -> Generator[Cabled]:
    """Two nodes, not started."""
    pair = LinkedPair(folder)
    cable = Cable(pair.port)
    pair.dial = cable.port
    try:
        yield pair, cable
    finally:
        pair.end()
        cable.close()
