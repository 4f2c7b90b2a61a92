"""Two ends of a line for tests: two domains of this process, and connections between them that pass through a wire."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import rtmw
from rtmw import Reliability
from rtmw.net.link.library import Bus, Connection, Context, Line, Route
from rtmw.net.neighbours import origin

PATIENCE = 30.0
"""Seconds after which something that has to happen has not."""
WINDOW = 1 << 20
BLOCK = 1 << 16


def wait_until(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Ask again until it is so; a test fails here if it never is."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it has not happened"
        time.sleep(0.002)


def as_it_is(_: int, data: bytes) -> bytes:
    return data


class Wire:
    """Passes bytes on in both directions, and keeps them; cuts both after so many bytes."""

    def __init__(self, cut_after: int | None = None, change: Callable[[int, bytes], bytes] | None = None) -> None:
        self.seen: list[bytearray] = [bytearray(), bytearray()]
        self.ends: list[socket.socket] = []
        self._inner: list[socket.socket] = []
        for _ in range(2):
            outer, inner = tcp_pair()
            self.ends.append(outer)
            self._inner.append(inner)
        self._left = cut_after
        self._change = change or as_it_is
        self._threads = [threading.Thread(target=self._copy, args=(way,), daemon=True) for way in range(2)]
        for thread in self._threads:
            thread.start()

    def cut(self) -> None:
        """Both directions end now, whatever is on its way."""
        for one in self._inner:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        for thread in self._threads:
            thread.join()
        for one in self._inner + self.ends:
            one.close()

    def _copy(self, way: int) -> None:
        source, target = self._inner[way], self._inner[1 - way]
        with suppress(OSError):
            while data := source.recv(BLOCK):
                at = len(self.seen[way])
                self.seen[way] += data
                data = self._change(at, data) if way == 0 else data
                if way == 0 and self._left is not None:
                    data, self._left = data[: self._left], self._left - len(data)
                target.sendall(data)
                if self._left is not None and self._left <= 0:
                    break
        self.cut()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]


def shake(one: Connection, other: Connection) -> None:
    """The handshake of both, step by step."""
    wanting = [one, other]
    until = time.monotonic() + PATIENCE
    while wanting:
        assert time.monotonic() < until
        wanting = [end for end in wanting if end.handshake() != "done"]


@dataclass
class End:
    """One side: a domain, and its line."""

    domain: rtmw.Domain
    contexts: tuple[Context, Context] | None = None
    """To connect, and to accept; None: without TLS."""
    zero_copy_most: int = 4 << 20
    carried: str | None = None
    """The file that says how far lanes were carried; None: nothing is told."""
    bus: Bus = field(init=False)
    line: Line = field(init=False)
    news: list[tuple[str, int, bytes]] = field(default_factory=list[tuple[str, int, bytes]])

    def __post_init__(self) -> None:
        self.bus = Bus(self.domain.id, self.carried)
        self.line = Line(self.bus, self.zero_copy_most)

    def look(self) -> list[tuple[str, int, bytes]]:
        self.news += self.line.events()
        return self.news

    def await_news(self, kind: str, count: int = 1) -> tuple[str, int, bytes]:
        """The last of so many of a kind."""
        until = time.monotonic() + PATIENCE
        while len(found := [one for one in self.look() if one[0] == kind]) < count:
            assert time.monotonic() < until, self.news
            select.select([self.line], [], [], 0.1)
        return found[-1]

    def close(self) -> None:
        self.line.close()
        self.bus.close()


class Ends:
    """Two ends, and what joins them."""

    def __init__(self, here: End, there: End) -> None:
        self.here, self.there = here, there
        self.routes: list[Route] = []
        self.wires: list[Wire] = []
        self._number = 0

    def join(self, urgent: Wire | None = None, bulk: Wire | None = None) -> None:
        """Two new connections, which both lines carry on with."""
        pairs = [self._connect(urgent), self._connect(bulk)]
        self.here.line.carry(pairs[0][0], pairs[1][0])
        self.there.line.carry(pairs[0][1], pairs[1][1])

    def twin(self, wire: Wire | None = None) -> None:
        """A third connection, which both lines have as their twin."""
        here, there = self._connect(wire)
        self.here.line.twin(here)
        self.there.line.twin(there)
        for end in (self.here, self.there):
            wait_until(lambda end=end: end.line.info()["twin"])  # type: ignore[misc]

    def up(self, count: int = 1) -> None:
        """Until both have resumed for the so-manieth time."""
        for end in (self.here, self.there):
            end.await_news("up", count)

    def _connect(self, wire: Wire | None) -> tuple[Connection, Connection]:
        if wire is not None:
            self.wires.append(wire)
        sockets = wire.ends if wire is not None else tcp_pair()
        contexts: list[Context | None] = [None, None]
        if self.here.contexts and self.there.contexts:
            contexts = [self.here.contexts[0], self.there.contexts[1]]
        one, other = (Connection(end.fileno(), context) for end, context in zip(sockets, contexts, strict=True))
        for end in sockets:
            end.close()
        shake(one, other)
        return one, other

    def route(
        self,
        topic: str,
        reliability: Reliability = Reliability.RELIABLE,
        *,
        back: bool = False,
        window: int = WINDOW,
        depth: int = 64,
        max_priority: int = 7,
        max_size: int = 0,
        max_rate: int = 0,
    ) -> tuple[Route, Route]:
        """A topic that crosses from here to there: the routes out of here and into there. `back`: the other way."""
        self._number += 1
        source, target = (self.there, self.here) if back else (self.here, self.there)
        kind = {Reliability.TIMELY: 0, Reliability.ADAPTIVE: 1, Reliability.RELIABLE: 2}[reliability]
        outbound = source.line.outbound(self._number, topic, None, kind, depth, 0, 0, 0)
        inbound = target.line.inbound(
            self._number, topic, None, kind, 0, depth, 0, origin(source.domain), True, window,
            max_priority, max_size, max_rate,
        )  # fmt: skip
        self.routes += [outbound, inbound]
        return outbound, inbound

    def close(self) -> None:
        for route in self.routes:
            route.close()
        self.here.close()
        self.there.close()
        for wire in self.wires:
            wire.close()
