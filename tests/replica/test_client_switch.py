"""A program while masters are killed and stopped: what it was told stays true, and its readers miss nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from itertools import count
from pathlib import Path
from typing import Any

import rtmw
from rtmw.clock import CLOCK
from tests.replica.history import check
from tests.replica.nodes import Processes

ROUNDS = 12 if os.environ.get("RTMW_TORTURE") else 1
TASKS = 6


class Program:
    """Appends and reads, and writes down what it sees as tests/replica/history.py has it."""

    def __init__(self, log: rtmw.Log[bytes]) -> None:
        self.log, self.history = log, list[dict[str, Any]]()
        self.is_over, self.answered = False, 0
        self._numbers = count()

    async def append(self, client: int) -> None:
        while not self.is_over:
            id = str(next(self._numbers))
            entry: dict[str, Any] = {"op": "append", "client": f"a{client}", "id": id, "asked": CLOCK.monotonic()}
            self.history.append(entry)
            found = await self.log.append_async(id.encode(), id=id)
            self.answered += 1
            entry |= {"answered": CLOCK.monotonic(), "answer": found.state.value, "position": found.position}
            if found.state is rtmw.Durability.PENDING:
                asked = CLOCK.monotonic()
                await found.resolve_async()
                resolved = {"op": "resolve", "client": f"a{client}", "id": id, "asked": asked}
                self.history.append(resolved | {"answered": CLOCK.monotonic(), "answer": found.state.value})

    async def follow(self) -> None:
        records = self.log.read(follow=True)
        asked, begin = CLOCK.monotonic(), 0
        async for record in records:
            self._saw("r", asked, begin, record.end, [[record.position, record.data.decode()]])
            asked, begin = CLOCK.monotonic(), record.end
            if record.data == b"last":
                break
        records.close()

    def _saw(self, client: str, asked: float, begin: int, end: int, records: list[Any], **more: bool) -> None:
        answered = CLOCK.monotonic()
        entry = {"op": "read", "client": client, "asked": asked, "answered": answered, "from": begin, "to": end}
        self.history.append(entry | {"records": records} | more)

    def read_all(self, **more: bool) -> None:
        asked, found, end = CLOCK.monotonic(), list[Any](), 0
        for record in self.log.read():
            found.append([record.position, record.data.decode()])
            end = record.end
        self._saw("f", asked, 0, end, found, is_fresh=True, **more)

    async def more(self) -> None:
        """Some more appends have been answered since."""
        least = self.answered + 3 * TASKS
        while self.answered < least:
            await asyncio.sleep(0.02)


async def _under_load(program: Program, nodes: Processes) -> None:
    following = asyncio.ensure_future(program.follow())
    appending = [asyncio.ensure_future(program.append(client)) for client in range(TASKS)]
    for _ in range(ROUNDS):
        for number in (signal.SIGKILL, signal.SIGSTOP):
            await program.more()
            master = await asyncio.to_thread(nodes.master, "orders", next(iter(nodes.processes)))
            if number == signal.SIGKILL:
                nodes.kill(master)
            else:
                nodes.processes[master].send_signal(signal.SIGSTOP)
            await program.more()
            await asyncio.to_thread(program.read_all)
            if number == signal.SIGKILL:
                nodes.start(master)
            else:
                nodes.processes[master].send_signal(signal.SIGCONT)
            await program.more()
    program.is_over = True
    await asyncio.gather(*appending)
    asked = {"op": "append", "client": "end", "id": "last", "asked": CLOCK.monotonic()}
    found = await program.log.append_async(b"last")
    program.history.append(asked | {"answered": CLOCK.monotonic(), "answer": "pending", "position": found.position})
    await following


# Proves G378.
def test_masters_that_are_killed_and_stopped_lose_double_and_reorder_nothing(tmp_path: Path) -> None:
    with Processes(tmp_path) as nodes:
        nodes.create("orders")
        with rtmw.Log.connect("orders", nodes=nodes.places) as log:
            program = Program(log)
            asyncio.run(_under_load(program, nodes))
            program.read_all(is_final=True)
    assert check(program.history) == []
    assert program.answered > 15 * TASKS


# Proves G357.
def test_services_take_as_little_memory_whatever_the_log_and_the_lag(tmp_path: Path) -> None:
    """A slave that stands still lacks 64 MiB of records: no queue has them."""
    with Processes(tmp_path) as nodes:
        nodes.create("orders")
        with rtmw.Log.connect("orders", nodes=nodes.places) as log:
            log.append_many([bytes(1 << 20)])
            before = {name: peak(process.pid) for name, process in nodes.processes.items()}
            slow = next(name for name in "abc" if name != nodes.status("orders", "a")["master"])
            nodes.processes[slow].send_signal(signal.SIGSTOP)
            while log.append_many([bytes(1 << 20)])[-1].position < 64 << 20:
                pass
            peaks = {name: peak(process.pid) for name, process in nodes.processes.items()}
            assert max(peaks.values()) < 150 << 20, peaks
            assert all(peaks[name] < before[name] + (40 << 20) for name in peaks), (before, peaks)


def peak(pid: int) -> int:
    """The most memory that a process has had at a time."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
