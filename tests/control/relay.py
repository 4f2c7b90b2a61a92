"""A way to an endpoint of etcd on which answers are lost, and requests come late."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Way(enum.Enum):
    """What becomes of requests and answers."""

    OPEN = enum.auto()
    MUTE = enum.auto()
    """Answers are lost."""
    LATE = enum.auto()
    """Requests wait until the way is open again."""


class Proxy:
    """On a port of its own."""

    def __init__(self, endpoint: str) -> None:
        self._to, self.way, self._opened = urlsplit(endpoint), Way.OPEN, asyncio.Event()
        self.endpoint = ""
        self.answered = asyncio.Event()
        """etcd has answered since the way was opened."""
        self._serving = set[asyncio.Task[None]]()

    def open(self) -> None:
        self.way = Way.OPEN
        self.answered.clear()
        self._opened.set()

    def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.create_task(self._serve(reader, writer)))

    async def end(self) -> None:
        """No connection outlives the loop."""
        for one in self._serving:
            one.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._to.hostname, self._to.port)
        halves = [asyncio.create_task(half) for half in (self._requests(reader, back), self._answers(there, writer))]
        try:
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for half in halves:
                half.cancel()
            await asyncio.gather(*halves, return_exceptions=True)
            for one in (writer, back):
                one.close()
                with suppress(OSError):
                    await one.wait_closed()

    async def _requests(self, reader: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        was_late = False
        while data := await reader.read(1 << 16):
            if self.way is Way.LATE:
                was_late = True
                self._opened.clear()
                await self._opened.wait()
            back.write(data)
            await back.drain()
        if was_late:
            await self.answered.wait()  # etcd drops requests of a client that has gone

    async def _answers(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await there.read(1 << 16):
            self.answered.set()
            if self.way is not Way.MUTE:
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def proxy(endpoint: str) -> AsyncGenerator[Proxy]:
    made = Proxy(endpoint)
    server = await asyncio.start_server(made.begin, "127.0.0.1", 0)
    made.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        await made.end()
