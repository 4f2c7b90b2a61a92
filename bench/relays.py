"""A relay that a node serves, for as long as a block lasts, and agents that speak its frames as bare protocols."""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from bench.domain import domain
from bench.log_peers.server import answers, free_port, server
from rtmw.relay import Frame, Splitter

SIZE = 200
"""Bytes of a whole frame."""
BODY = bytes(range(ord("0"), ord("0") + 64)) * 3
ROUND_ABOUT = 37
"""Bytes of a frame without data."""
START_S = 30.0

_stamps = itertools.count(time.time_ns())


def stamp() -> bytes:
    return b"%022d" % next(_stamps)


def settings(agents: Iterable[str], rules: str, port: int, more: str = "", of_each: str = "") -> str:
    """`more`: of `[relay]`. `of_each`: of each agent."""
    listed = "".join(f'[[agent]]\nname = "{name}"\nfrom = "127.0.0.1"\n{of_each}' for name in agents)
    return f'serve = ["relay"]\ndata = "data"\n[relay]\nlisten = ["127.0.0.1:{port}"]\n{more}{listed}{rules}'


@contextmanager
def serving(folder: Path, agents: Iterable[str], rules: str, more: str = "", of_each: str = "") -> Generator[int]:
    """The port at which agents connect. What is in `folder/data` already is the relay's record."""
    port, file = free_port(), folder / "node.toml"
    file.write_text(settings(agents, rules, port, more, of_each))
    with domain("8M") as number:
        command = [sys.executable, "-m", "rtmw", "node", "--domain", str(number), "--config", str(file)]
        with server(command, folder, answers(socket.AF_INET, ("127.0.0.1", port)), start_s=START_S):
            yield port


class Line(asyncio.Protocol):
    """The connection of one agent. It confirms each order, and gives each answer to `answered`."""

    def __init__(self, address: str, answered: Callable[[Frame], object] = lambda _: None) -> None:
        self.address, self.answered = address.ljust(4).encode(), answered
        self.may_write = asyncio.Event()
        self._splitter = Splitter()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It says who it is, by a receipt for nothing."""
        self._transport = cast("asyncio.Transport", transport)
        self.may_write.set()
        self.write(Frame(self.address, b"none", stamp(), b"A", b"I", bytes(25)).encode())

    def write(self, frames: bytes) -> None:
        assert self._transport is not None
        self._transport.write(frames)

    def pause_writing(self) -> None:
        self.may_write.clear()

    def resume_writing(self) -> None:
        self.may_write.set()

    def order(self, to: str) -> bytes:
        """Encoded, and of SIZE."""
        return Frame(self.address, to.ljust(4).encode(), stamp(), b"O", b"I", BODY[: SIZE - ROUND_ABOUT]).encode()

    def data_received(self, data: bytes) -> None:
        receipts = list[bytes]()
        for frame in self._splitter.feed(data):
            if frame.type == b"O":
                receipts.append(frame.receipt(stamp()).encode())
            else:
                self.answered(frame)
        if receipts:
            self.write(b"".join(receipts))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connected(port: int, address: str, answered: Callable[[Frame], object] = lambda _: None) -> Line:
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(lambda: Line(address, answered), "127.0.0.1", port)
    return line
