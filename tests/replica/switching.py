"""Switches under load: masters are killed, stopped, cut off in one direction, or moved while programs append and read.

    python -m tests.replica.switching SEED SWITCHES [FAULT…]     prints what happened; status 1 if the history is wrong

What the programs saw is a history, in which the checker looks for anomalies (history.py). Nodes are processes; those
that know each other talk through relays of this process, which can lose what goes in one direction.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import rtmw
from rtmw.clock import CLOCK
from rtmw.errors import RtmwError
from rtmw.replica.operating import ask_node
from tests.ports import free_ports
from tests.replica.history import Anomaly, Entry, check
from tests.replica.nodes import Nodes, Processes, until

NAME: Final = "orders"
FAULTS: Final = ("kill", "stop", "cut", "move", "store")
_PACE_S: Final = 0.02


class Wires:
    """A relay for each node and each other one that it dials."""

    def __init__(self, nodes: Nodes) -> None:
        self._ways = [(a, b) for a in nodes.names for b in nodes.names if a != b]
        self._places = dict(zip(self._ways, free_ports(len(self._ways)), strict=True))
        self._ports = nodes.ports
        self.lost = set[tuple[str, str]]()
        """What goes from the first to the second is lost."""
        self._loop: asyncio.AbstractEventLoop
        self._ending: asyncio.Event
        self._begun = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        for name in nodes.names:
            text = nodes.file(name).read_text()
            for other in nodes.names:
                if other != name:
                    text = text.replace(f'"127.0.0.1:{nodes.ports[other]}"', f'"127.0.0.1:{self._places[name, other]}"')
            nodes.file(name).write_text(text)
        self._thread.start()
        self._begun.wait()

    async def _serve(self) -> None:
        servers = list[asyncio.Server]()
        for (a, b), port in self._places.items():

            async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, a: str = a, b: str = b) -> None:
                try:
                    there, back = await asyncio.open_connection("127.0.0.1", self._ports[b])
                except OSError:
                    writer.close()
                    return
                halves = [self._half(reader, back, (a, b)), self._half(there, writer, (b, a))]
                tasks = [asyncio.ensure_future(half) for half in halves]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for end in (writer, back):
                    end.transport.abort()

            servers.append(await asyncio.start_server(carry, "127.0.0.1", port))
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        self._begun.set()
        await self._ending.wait()
        for server in servers:
            server.close()

    async def _half(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: tuple[str, str]) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                while way in self.lost:  # TCP sends again: what is lost comes late, or its connection ends before
                    await asyncio.sleep(0.02)
                writer.write(data)
                await writer.drain()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()


class Wired(Processes):
    """Nodes whose ways to each other can be cut."""

    def __init__(self, folder: Path, names: str = "abc") -> None:
        Nodes.__init__(self, folder, names)
        self.wires = Wires(self)
        self.processes = dict[str, subprocess.Popen[bytes]]()
        for name in names:
            self.start(name)

    def close(self) -> None:
        self.wires.lost.clear()
        super().close()
        self.wires.close()


class Programs:
    """Programs that append and read, in threads; what they saw. `with`: until its end."""

    def __init__(self, places: list[str], writers: int = 8) -> None:
        self._places, self._writers = places, writers
        self.history = list[Entry]()
        self.failures = list[str]()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._append), threading.Thread(target=self._follow, daemon=True)]

    def __enter__(self) -> Programs:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._threads[0].join()

    @property
    def answered(self) -> int:
        return sum("position" in one for one in self.history)

    @property
    def pending(self) -> int:
        return sum(one.get("answer") == "pending" for one in self.history)

    def _append(self) -> None:
        async def work() -> None:
            with rtmw.Log.connect(NAME, nodes=self._places) as log:
                await asyncio.gather(*(self._write(log, f"w{number}") for number in range(self._writers)))

        asyncio.run(work())

    async def _write(self, log: rtmw.Log[bytes], client: str) -> None:
        for number in range(1 << 30):
            if self._stopping.is_set():
                return
            entry: Entry = {"op": "append", "client": client, "id": f"{client}-{number}", "asked": CLOCK.monotonic()}
            self.history.append(entry)
            try:
                done = await log.append_async(entry["id"].encode(), id=entry["id"])
                entry |= {"answered": CLOCK.monotonic(), "answer": done.state.value, "position": done.position}
                if done.state is rtmw.Durability.PENDING:
                    await self._resolve(done, entry)
            except RtmwError as error:  # the outcome is not known
                self.failures.append(f"{entry['id']}: {error}")
            await asyncio.sleep(_PACE_S)

    async def _resolve(self, done: Any, entry: Entry) -> None:
        told: Entry = {"op": "resolve", "client": entry["client"], "id": entry["id"], "asked": CLOCK.monotonic()}
        await done.resolve_async()
        told |= {"answered": CLOCK.monotonic(), "answer": done.state.value, "position": done.position}
        self.history.append(told)

    def _follow(self) -> None:
        with rtmw.Log.connect(NAME, nodes=self._places) as log, log.read(0, follow=True) as records:
            record: Any
            for record in records:
                if self._stopping.is_set():
                    return
                self.history.append(_seen("follower", record.position, record.end, [record], follows=True))

    def read_all(self) -> None:
        with rtmw.Log.connect(NAME, nodes=self._places) as log:
            end = log.end
            records = list[Any](log.read(0))
        self.history.append(_seen("final", 0, end, records, is_final=True, is_fresh=True))

    def anomalies(self) -> list[Anomaly]:
        resolved = {one["id"] for one in self.history if one["op"] == "resolve"}
        pending = {one["id"] for one in self.history if one.get("answer") == "pending"}
        untold = [Anomaly("untold", f"{id} was PENDING for ever") for id in pending - resolved]
        return check(self.history) + untold


def _seen(client: str, begin: int, end: int, records: list[Any], **more: Any) -> Entry:
    found = [[record.position, record.data.decode()] for record in records]
    now = CLOCK.monotonic()
    return {"op": "read", "client": client, "asked": now, "answered": now, "from": begin, "to": end,
            "records": found, **more}  # fmt: skip


def status(nodes: Nodes, but: str = "") -> dict[str, Any]:
    """As the master of the highest epoch says it; `but`: of nodes other than this one."""
    found = list[dict[str, Any]]()
    for node, port in nodes.ports.items():
        if node != but:
            with suppress(RtmwError, OSError):
                found.append(ask_node(f"127.0.0.1:{port}", name=NAME, ask="status", here=True))
    masters = [one for one in found if one["role"] == "master"]
    return max(masters, key=lambda one: int(one["epoch"])) if masters else {}


def moved(nodes: Nodes, off: str) -> bool:
    with suppress(RtmwError):  # a slave that has come back a moment ago may be behind
        ask_node(f"127.0.0.1:{nodes.ports[off]}", name=NAME, ask="move", off=off)
        return True
    return False


@contextmanager
def fault(nodes: Wired, kind: str, node: str) -> Generator[None]:
    """Something befalls a node, and is over at the end."""
    others = [other for other in nodes.names if other != node]
    held: sqlite3.Connection | None = None
    if kind == "kill":
        nodes.kill(node)
    elif kind == "stop":
        nodes.processes[node].send_signal(signal.SIGSTOP)
    elif kind == "cut":
        nodes.wires.lost |= {(node, other) for other in others}
    elif kind == "store":  # no switch: the store is held by another program, and a slave stands still
        nodes.processes[others[0]].send_signal(signal.SIGSTOP)
        held = sqlite3.connect(nodes.folder / "control.db", isolation_level=None, timeout=30)
        held.execute("BEGIN EXCLUSIVE")
    elif kind == "move":
        until(lambda: moved(nodes, node))
    try:
        yield
    finally:
        if held is not None:
            held.close()
    if kind == "kill":
        nodes.start(node)
    elif kind == "stop":
        nodes.processes[node].send_signal(signal.SIGCONT)
    elif kind == "store":
        nodes.processes[others[0]].send_signal(signal.SIGCONT)
    elif kind == "cut":
        nodes.wires.lost.clear()


def _told(nodes: Nodes, kind: str) -> str:
    """What the nodes say of themselves."""
    said = [kind]
    for port in nodes.ports.values():
        try:
            said.append(str(ask_node(f"127.0.0.1:{port}", name=NAME, ask="status", here=True)))
        except (RtmwError, OSError) as error:
            said.append(str(error))
    return "\n".join(said)


def _switch(nodes: Wired, programs: Programs, kind: str) -> None:
    """A fault, and what has to follow from it; then all is whole again."""
    told = partial(_told, nodes, kind)
    before = until(lambda: status(nodes), what=told)
    answered, pending = programs.answered, programs.pending
    with fault(nodes, kind, before["master"]):
        if kind == "store":
            until(lambda: programs.pending > pending, what=told)
        else:
            until(lambda: status(nodes, before["master"]).get("epoch", 0) > before["epoch"], what=told)
            until(lambda: programs.answered > answered + 4, what=told)
    until(lambda: len(status(nodes).get("in_sync", ())) == len(nodes.names), what=told)


def run(folder: Path, seed: int, switches: int, faults: tuple[str, ...] = FAULTS) -> tuple[Programs, Counter[str]]:
    """So many switches; each fault is over, and all nodes are in sync, before the next."""
    chance, done = random.Random(seed), Counter[str]()
    kinds = [faults[number % len(faults)] for number in range(switches)]
    chance.shuffle(kinds)
    with Wired(folder) as nodes:
        nodes.create(NAME)
        until(lambda: status(nodes))
        with Programs(nodes.places) as programs:
            for kind in kinds:
                _switch(nodes, programs, kind)
                done[kind] += 1
        programs.read_all()
    return programs, done


def main() -> int:
    seed, switches, *faults = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        programs, done = run(Path(folder), int(seed), int(switches), tuple(faults) or FAULTS)
    if path := os.environ.get("RTMW_HISTORY"):
        Path(path).write_text("".join(json.dumps(one) + "\n" for one in programs.history))
    found = programs.anomalies()
    states = Counter(one.get("answer", "none") for one in programs.history if one["op"] != "read")
    print(f"seed {seed}: {dict(done)} switches; answers {dict(states)}; {len(found)} anomalies")
    for one in [*found[:10], *programs.failures[:5]]:
        print(f"  {one}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
