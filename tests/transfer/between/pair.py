"""Two nodes for tests of transfers: real cores on loopback, with TLS, and a cable between them that can be cut."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import rtmw
from rtmw.transfer.client.waiting import Pending
from rtmw.transfer.messages import Show, Shown
from tests.net.security.site import Site
from tests.net.session.relay import Relay
from tests.ports import free_port
from tests.transfer.core_process import PATIENCE, CoreProcess

T = TypeVar("T")

MIB = 1 << 20
LEASE_S = 2
ANY = '[[allow]]\npeer = "*"\nsend = ["*"]\n'
ALL = '[[allow]]\npeer = "rtmw://plant/*"\nsend = ["*"]\n'


def until(met: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < end, f"{what}, within {PATIENCE} s"
        time.sleep(0.005)


class Cable:
    """A `Relay` in a thread of its own."""

    def __init__(self, port: int, keeps: bool = True) -> None:
        self._keeps = keeps
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._relay: Future[Relay] = Future()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(port),))
        self._thread.start()
        self.relay = self._relay.result(PATIENCE)

    async def _run(self, port: int) -> None:
        async with Relay(port, keeps=self._keeps) as relay:
            self._relay.set_result(relay)
            await self._over.wait()

    @property
    def port(self) -> int:
        return self.relay.port

    def do(self, what: Callable[[], None]) -> None:
        """In the thread of the relay."""
        done: Future[None] = Future()
        self._loop.call_soon_threadsafe(lambda: (what(), done.set_result(None)))
        done.result(PATIENCE)

    def cut(self) -> None:
        self.do(self.relay.cut)

    def reset(self) -> None:
        self.do(self.relay.reset)

    def silence(self) -> None:
        """Neither end is told."""
        self.do(self.relay.silence)

    def take_down(self) -> None:
        """Cut, and nobody gets through until `put_up`."""
        self.relay.is_down = True
        self.cut()

    def put_up(self) -> None:
        self.relay.is_down = False

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE)
        self._loop.close()


class Pair:
    """`station` dials `centre` over the cable. Each has a folder: settings, keys, and what its core keeps. `tls`: else
    over TCP, without keys. `keeps`: as of `Relay`."""

    def __init__(self, folder: Path, domains: tuple[int, int], *, tls: bool = True, keeps: bool = True) -> None:
        self.folder, self._site, self.inbox = folder, Site(folder / "keys") if tls else None, folder / "inbox"
        rules = ALL if tls else ANY
        self.inbox.mkdir()
        self._settings: dict[str, str] = {}
        self.port = free_port()
        self.cable = Cable(self.port, keeps)
        self.centre = self._core("centre", domains[1], f'listen = "127.0.0.1:{self.port}"', rules)
        self.station = self._core("station", domains[0], f'connect = ["127.0.0.1:{self.cable.port}"]', rules)

    def _core(self, node: str, domain: int, where: str, rules: str) -> CoreProcess:
        path = self.folder / f"{node}.toml"
        keys = "" if self._site is None else f'keys = "{self._site.keys(f"rtmw://plant/{node}")}"\n'
        self._settings[node] = f"[transfer]\n{keys}lease = {LEASE_S}\n{where}\n"
        path.write_text(self._settings[node] + rules)
        return CoreProcess(domain, self.folder / node, node, path)

    def rule(self, core: CoreProcess, rules: str) -> None:
        """Other rules from now on."""
        (self.folder / f"{core.node}.toml").write_text(self._settings[core.node] + rules)
        core.process.send_signal(signal.SIGHUP)

    def start(self) -> None:
        for core in (self.centre, self.station):
            core.start()
        for core in (self.centre, self.station):
            core.wait_until_ready()

    def end(self) -> None:
        for core in (self.station, self.centre):
            said = core.end()
            print(f"--- {core.node}:\n{said}")
        self.cable.close()


def opened(make: Callable[[], T]) -> T:
    """The core may be dying."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return make()
        except rtmw.CoreNotRunning:
            assert time.monotonic() < end


def arrived(pair: Pair) -> int:
    """Bytes that the centre has of files that are on their way."""
    staging = pair.inbox / ".rtmw"
    return sum(path.stat().st_size for path in staging.iterdir()) if staging.exists() else 0


def shown(sender: rtmw.Sender, what: str = "transfers") -> list[dict[str, Any]]:
    """The transfers that its core has, or what is `arriving`."""
    pending = sender._line.requests.begin(Pending(sender._life, Show("transfers")))
    sender._line.wait(pending, PATIENCE)
    data = b"".join(one.data for one in pending.first if isinstance(one, Shown))
    found: list[dict[str, Any]] = json.loads(data)[what]
    return found


def cause(sender: rtmw.Sender) -> str:
    """Why its only transfer waits."""
    rows = shown(sender)
    return str(rows[0]["cause"]) if rows else ""


def take(inbox: rtmw.Inbox) -> rtmw.Letter:
    letter = inbox.take(PATIENCE)
    assert letter is not None
    return letter


def written(path: Path, size: int) -> bytes:
    data = random.Random(size).randbytes(size)
    path.write_bytes(data)
    return data
