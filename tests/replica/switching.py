"""Switches under load: masters are killed, stopped, cut off in one direction, moved, or told to end, while programs
append and read.

    python -m tests.replica.switching SEED NUMBER [FAULT…]     prints what happened; status 1: the history is wrong

What the programs saw is a history, in which the checker looks for anomalies (history.py). Nodes are processes; those
that know each other talk through relays of this process, which can lose what goes in one direction, or carry it slowly.
A fault with `+etcd` also kills a member of etcd.
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
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import rtmw
from rtmw.clock import CLOCK
from rtmw.errors import RtmwError
from rtmw.replica.operating import ask_node
from tests.control.stores import Cluster
from tests.ports import free_ports
from tests.replica.history import Anomaly, Entry, check
from tests.replica.nodes import Nodes, Processes, until

NAME: Final = "orders"
SWITCHES: Final = ("kill", "stop", "cut", "move", "end")
"""Each makes another node master."""
QUIET: Final = ("deaf", "store")
"""A master that hears no acknowledgements; the store held while a slave stands still. Appends have to be answered."""
PATIENCE_S: Final = 120.0
"""Seconds after which something that has to happen has not: the machine may be slow."""
_PACE_S: Final = 0.02
_WRITE_LOCK: Final = "120"
"""The byte of SQLite's file of locks that who changes the database has locked (wal-index format)."""


class Cuttable(Processes):
    """Nodes whose ways to each other can be cut. `etcd`: their control store, instead of a file."""

    etcd: Cluster | None = None

    def use_etcd(self, etcd: Cluster | None) -> None:
        """Before the nodes are started."""
        self.etcd = etcd
        for name in self.names if etcd else ():
            places = json.dumps([one.endpoint for one in etcd.members]) if etcd else ""
            self.file(name).write_text(self.file(name).read_text().replace('"sqlite:control.db"', places))

    def cut(self, ways: set[tuple[str, str]]) -> None:
        """From now on what goes from the first of these to the second is lost, and what goes elsewhere is not."""
        raise NotImplementedError


class Wires:
    """A relay for each node and each other one that it dials."""

    def __init__(self, nodes: Nodes) -> None:
        self._ways = [(a, b) for a in nodes.names for b in nodes.names if a != b]
        self._places = dict(zip(self._ways, free_ports(len(self._ways)), strict=True))
        self._ports = nodes.ports
        self.lost = set[tuple[str, str]]()
        """What goes from the first to the second is lost."""
        self.rates = dict[tuple[str, str], float]()
        """Bytes a second that this way carries, where it is slow."""
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
            while data := await reader.read(1 << (12 if way in self.rates else 16)):
                while way in self.lost:  # TCP sends again: what is lost comes late, or its connection ends before
                    await asyncio.sleep(0.02)
                if rate := self.rates.get(way):
                    await asyncio.sleep(len(data) / rate)
                writer.write(data)
                await writer.drain()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()


class Wired(Cuttable):
    """Their ways go through relays of this process."""

    def __init__(self, folder: Path, names: str = "abc", etcd: Cluster | None = None) -> None:
        Nodes.__init__(self, folder, names)
        self.wires = Wires(self)
        self.use_etcd(etcd)
        self.processes = dict[str, subprocess.Popen[bytes]]()
        for name in names:
            self.start(name)

    def cut(self, ways: set[tuple[str, str]]) -> None:
        self.wires.lost = ways

    def close(self) -> None:
        self.wires.lost.clear()
        super().close()
        self.wires.close()


class Programs:
    """Programs that append and read, in threads; what they saw. `with`: until its end."""

    def __init__(self, places: list[str], writers: int = 8, size: int = 0) -> None:
        """`size`: bytes of a record, at least."""
        self._places, self._writers, self._size = places, writers, size
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
                done = await log.append_async(entry["id"].encode().ljust(self._size), id=entry["id"])
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
    found = [[record.position, record.data.decode().rstrip()] for record in records]
    now = CLOCK.monotonic()
    return {"op": "read", "client": client, "asked": now, "answered": now, "from": begin, "to": end,
            "records": found, **more}  # fmt: skip


def status(nodes: Nodes, *but: str) -> dict[str, Any]:
    """As the master of the highest epoch says it; `but`: of nodes other than these."""
    found = list[dict[str, Any]]()
    for node in nodes.names:
        if node not in but:
            with suppress(RtmwError, OSError):
                found.append(ask_node(nodes.place(node), name=NAME, ask="status", here=True))
    masters = [one for one in found if one["role"] == "master"]
    return max(masters, key=lambda one: int(one["epoch"])) if masters else {}


def is_whole(nodes: Nodes) -> bool:
    """All nodes are in sync."""
    return len(status(nodes).get("in_sync", ())) == len(nodes.names)


def moved(nodes: Nodes, off: str = "", to: str = "") -> bool:
    question: dict[str, Any] = {"ask": "move", "name": NAME} | ({"off": off} if off else {"to": to})
    with suppress(RtmwError):  # a slave that has come back a moment ago may be behind
        ask_node(nodes.place(off or to), **question)
        return True
    return False


def stop(nodes: Processes, node: str) -> None:
    """It stands still, at a moment in which it does not have the lock of a SQLite store: who waits for that lock waits
    for this node (docs/replication.md)."""
    process = nodes.processes[node]

    def stands() -> bool:
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        if _has_lock(process.pid, nodes.folder / "control.db-shm"):
            process.send_signal(signal.SIGCONT)
            return False
        return True

    until(stands, PATIENCE_S)


def _has_lock(process: int, path: Path) -> bool:
    if not path.exists():
        return False
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    number = str(path.stat().st_ino)
    mine = [one for one in locks if one[1] == "POSIX" and one[3:5] == ["WRITE", str(process)]]
    return any(one[5].split(":")[-1] == number and _WRITE_LOCK in one[6:] for one in mine)


@contextmanager
def fault(nodes: Cuttable, kind: str, node: str) -> Generator[None]:
    """Something befalls a node, and is over at the end."""
    others = [other for other in nodes.names if other != node]
    if kind == "kill":
        nodes.kill(node)
    elif kind == "stop":
        stop(nodes, node)
    elif kind == "end":
        nodes.end(node)
    elif kind == "cut":
        nodes.cut({(node, other) for other in others})
    elif kind == "deaf":
        nodes.cut({(other, node) for other in others})
    elif kind == "move":
        until(lambda: moved(nodes, off=node), PATIENCE_S)
    with _store_held(nodes) if kind == "store" else nullcontext():
        if kind == "store":  # in this order: a slave that leaves the set is not waited for
            stop(nodes, others[0])
        yield
    if kind in ("kill", "end"):
        nodes.start(node)
    elif kind in ("stop", "store"):
        nodes.processes[node if kind == "stop" else others[0]].send_signal(signal.SIGCONT)
    nodes.cut(set())


@contextmanager
def _store_held(nodes: Cuttable) -> Generator[None]:
    """The control store takes no changes."""
    if nodes.etcd is not None:
        for one in nodes.etcd.members[1:]:
            one.signal(signal.SIGSTOP)
        yield
        for one in nodes.etcd.members[1:]:
            one.signal(signal.SIGCONT)
        return
    with closing(sqlite3.connect(nodes.folder / "control.db", isolation_level=None, timeout=30)) as held:
        held.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def _without_one(etcd: Cluster | None, number: int) -> Generator[None]:
    """A member of etcd is killed, each in its turn, so that it is the leader now and then; it comes back at the end."""
    if etcd is None:
        yield
        return
    one = etcd.members[number % len(etcd.members)]
    one.kill()
    yield
    one.start()
    until(one.is_healthy, PATIENCE_S)


def _told(nodes: Cuttable, kind: str) -> str:
    """What the nodes say of themselves."""
    said = [kind]
    for node in nodes.names:
        try:
            said.append(str(ask_node(nodes.place(node), name=NAME, ask="status", here=True)))
        except (RtmwError, OSError) as error:
            said.append(str(error))
    holders = [name for name, one in nodes.processes.items() if _has_lock(one.pid, nodes.folder / "control.db-shm")]
    return "\n".join([*said, f"the lock of the store has {holders or 'nobody here'}", nodes.said()])


def _switch(nodes: Cuttable, programs: Programs, kind: str, number: int) -> None:
    """A fault, and what has to follow from it; then all is whole again."""
    kind, with_etcd, _ = kind.partition("+")
    told = partial(_told, nodes, kind)
    before = until(lambda: status(nodes), PATIENCE_S, told)
    answered, pending = programs.answered, programs.pending
    with _without_one(nodes.etcd if with_etcd else None, number), fault(nodes, kind, before["master"]):
        if kind == "store":
            until(lambda: programs.pending > pending, PATIENCE_S, told)
        else:
            if kind in SWITCHES:
                until(lambda: status(nodes, before["master"]).get("epoch", 0) > before["epoch"], PATIENCE_S, told)
            until(lambda: programs.answered > answered + 4, PATIENCE_S, told)
    until(lambda: is_whole(nodes), PATIENCE_S, told)


def switch_and_strike(nodes: Cuttable, programs: Programs, step: int, number: signal.Signals) -> None:
    """The master is killed, and who takes its place is struck by a signal at a step of the switch."""
    told, struck = partial(_told, nodes, f"strike {step}"), nodes.folder / "struck"
    before, answered = until(lambda: status(nodes), PATIENCE_S, told), programs.answered
    (nodes.folder / "strike").write_text(f"{step} {number.value}")
    nodes.kill(before["master"])
    until(struck.exists, PATIENCE_S, told)
    gone = (before["master"], struck.read_text())
    struck.unlink()
    third = ({*nodes.names} - {*gone}).pop()

    def has_gone_on() -> bool:
        with suppress(RtmwError):
            said = ask_node(nodes.place(third), name=NAME, ask="status", here=True)
            return third == said["master"] or third not in said["in_sync"]  # else it may not be master
        return False

    until(has_gone_on, PATIENCE_S, told)
    if number is signal.SIGSTOP:
        nodes.processes[gone[1]].send_signal(signal.SIGCONT)
    else:
        nodes.kill(gone[1])
        nodes.start(gone[1])
    until(lambda: programs.answered > answered + 4, PATIENCE_S, told)
    nodes.start(gone[0])
    until(lambda: is_whole(nodes), PATIENCE_S, told)


def kinds_of(switches: int, ending: str = "") -> list[str]:
    """So many switches, each kind as often as another, and some faults that are none. `ending`: +etcd."""
    some = [SWITCHES[number % len(SWITCHES)] for number in range(switches)]
    return [kind + ending for kind in (*some, *QUIET * -(-switches // 20))]


def run(nodes: Cuttable, seed: int, kinds: list[str], **load: int) -> tuple[Programs, Counter[str]]:
    """These faults in any order; each is over, and all nodes are in sync, before the next. `load`: of Programs."""
    chance, done = random.Random(seed), Counter[str]()
    chance.shuffle(kinds)
    nodes.create(NAME, suspect=0.5, lag=1.0)
    until(lambda: is_whole(nodes), PATIENCE_S)
    with Programs(nodes.places, **load) as programs:
        for number, kind in enumerate(kinds):
            _switch(nodes, programs, kind, number)
            done[kind] += 1
    programs.read_all()
    return programs, done


def main() -> int:
    seed, switches, *faults = sys.argv[1:]
    kinds = faults * int(switches) if faults else kinds_of(int(switches))
    with tempfile.TemporaryDirectory() as folder, Wired(Path(folder)) as nodes:
        programs, done = run(nodes, int(seed), kinds)
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
