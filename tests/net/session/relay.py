"""A cable between two carriers on loopback: it passes bytes on, keeps what it saw, and is cut or damaged on demand."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress


class Relay:
    """Listens, and passes each connection on to `port`. `keeps`: what it saw; else it is only counted."""

    def __init__(self, port: int, *, keeps: bool = True) -> None:
        self._target, self._keeps = port, keeps
        self.passed = 0
        """Bytes from the dialler that were passed on, over all connections."""
        self.port = 0
        self.forth = bytearray()
        """All that the dialler sent over the last connection."""
        self.back = bytearray()
        """All that the other side has sent, over all connections."""
        self.recorded: list[bytearray] = []
        """The same of each connection, the last one at the end."""
        self.connections = 0
        self.is_down = False
        """New connections are closed at once."""
        self.change: Callable[[bytes], bytes] = bytes
        """What becomes of bytes from the dialler."""
        self.ends_after: Callable[[int, bool], int | None] = lambda number, is_forth: None
        """After how many bytes a connection ends, by its number, from 1 on, and by the direction; None: never."""
        self._writers: list[asyncio.StreamWriter] = []
        self._closing: list[asyncio.StreamWriter] = []
        """Of all connections that there were: the relay ends when the last one is closed."""
        self._silent = {True: 0, False: 0}
        """Connections up to this one pass nothing on, and stay open; by whether the direction is forth."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server
        self._server.close()
        self.is_down = True
        self.cut()
        while self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            self.cut()
        for writer in self._closing:
            with suppress(OSError):
                await writer.wait_closed()

    def cut(self) -> None:
        """Every connection ends at once, whatever is on its way."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def reset(self) -> None:
        """As `cut`, and both ends are told by a RST, whatever they have sent."""
        for writer in self._writers:
            now = struct.pack("ii", 1, 0)
            writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
        self.cut()

    def silence(self, *directions: bool) -> None:
        """Every connection passes nothing on any more, and neither end is told. `directions`: True, what the dialler
        sends; False, what the other side does."""
        self._silent |= dict.fromkeys(directions or self._silent, self.connections)

    def _begin(self, task: asyncio.Task[None] | None) -> None:
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._begin(asyncio.current_task())
        self._closing.append(writer)
        if self.is_down:
            writer.transport.abort()
            return
        self.connections += 1
        self.forth = bytearray()
        self.recorded.append(self.forth)
        number, recording = self.connections, self.forth
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._closing.append(far_writer)
        self._writers += [writer, far_writer]
        for source, target, is_forth in ((reader, far_writer, True), (far_reader, writer, False)):
            self._begin(asyncio.create_task(self._copy(source, target, recording if is_forth else None, number)))

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, recording: bytearray | None, number: int
    ) -> None:
        try:
            is_forth, passed = recording is not None, 0
            most = self.ends_after(number, is_forth)
            while data := await reader.read(65536):
                if number <= self._silent[is_forth]:
                    continue
                if most is not None and passed + len(data) >= most:
                    writer.write(data[: most - passed])
                    break
                passed += len(data)
                if recording is not None:
                    self.passed += len(data)
                    recording += data if self._keeps else b""
                    data = self.change(data)
                else:
                    self.back += data if self._keeps else b""
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()
