"""Nodes of replicated logs for tests: real ones, in a thread of this process, or each a process of its own."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.errors import RtmwError
from rtmw.replica import copying, member, wal
from rtmw.replica.control.settings import read_log
from rtmw.replica.member import Member
from rtmw.replica.operating import ask_node
from rtmw.replica.server import Server
from rtmw.replica.words import Role
from rtmw.types import resolve
from tests.ports import free_ports

T = TypeVar("T")
SEGMENT = "RTMW_TEST_SEGMENT"
"""Bytes of a segment, so that a few records fill some of them."""


def until(met: Callable[[], T], seconds: float = 30.0, what: Callable[[], str] = str) -> T:
    """What it gives once that is true."""
    end = CLOCK.monotonic() + seconds
    while not (found := met()):
        assert CLOCK.monotonic() < end, f"not within {seconds} s: {what()}"
        threading.Event().wait(0.02)
    return found


class Nodes(Closing):
    """The settings of nodes that know each other, and operators' questions to them."""

    def __init__(self, folder: Path, names: str = "abc", *, log: str = "", rest: str = "", listen: str = "") -> None:
        """`log`, `rest`: more lines of `[log]`, and behind all. `listen`: another place to listen at."""
        self.folder, self.names = folder, names
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            others = [f"127.0.0.1:{port}" for other, port in self.ports.items() if other != name]
            text = (
                f'name = "{name}"\nserve = ["log"]\ndata = "{name}"\n[log]\n'
                f"listen = {json.dumps([f'127.0.0.1:{self.ports[name]}', listen][: 1 + bool(listen)])}\n"
                f"connect = {json.dumps(others)}\nsuspect = 1.0\nlag = 2.0\nsync_timeout = 0.3\n{log}\n"
                f'[control]\nstore = "sqlite:control.db"\n{rest}\n'
            )
            self.file(name).write_text(text)

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.toml"

    def place(self, name: str) -> str:
        """Where programs and operators connect."""
        return f"127.0.0.1:{self.ports[name]}"

    @property
    def places(self) -> list[str]:
        return [self.place(name) for name in self.names]

    def create(self, log: str, keys: Path | None = None, *, type: Any = bytes, **settings: Any) -> None:
        if len(self.names) == 1:
            settings["min_insync"] = 1
        question = {"members": list(self.names), "description": resolve(type).description.hex(), "settings": settings}
        self._obeyed(keys, name=log, ask="create", **question)  # not while the nodes have not met yet

    def move(self, log: str, to: str) -> None:
        self._obeyed(name=log, ask="move", to=to)  # on a busy machine another one may become master

    def _obeyed(self, keys: Path | None = None, **question: Any) -> None:
        """Asks the first node until it has done it."""
        why = ""

        def done() -> bool:
            nonlocal why
            try:
                ask_node(self.places[0], keys, **question)
            except RtmwError as error:
                why = str(error)
                return False
            return True

        until(done, what=lambda: why)

    def status(self, log: str, node: str) -> dict[str, Any]:
        return ask_node(self.place(node), name=log, ask="status")

    def master(self, log: str, node: str) -> str:
        """Once there is one, as this node sees it."""
        return str(until(lambda: self.status(log, node)["master"]))


class Here(Nodes):
    """In one thread of this process."""

    def __init__(self, folder: Path, names: str = "abc", **more: str) -> None:
        super().__init__(folder, names, **more)
        self.servers = dict[str, Server]()
        self._running = dict[str, asyncio.Task[None]]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        for name in names:
            self.start(name)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def start(self, name: str) -> None:
        async def begin() -> None:
            server = self.servers[name] = Server(self.folder / name, name, read_log(self.file(name)))
            self._running[name] = asyncio.get_running_loop().create_task(server.run())

        self.call(begin())

    def stop(self, name: str) -> None:
        """At once: it hands nothing over."""
        task = self._running.pop(name)

        async def end() -> None:
            task.cancel()
            await asyncio.wait([task])

        self.call(end())

    def close(self) -> None:
        for name in list(self._running):
            self.stop(name)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Processes(Nodes):
    """Each a process, as `rtmw node` starts it."""

    def __init__(self, folder: Path, names: str = "abc", **more: str) -> None:
        super().__init__(folder, names, **more)
        self.processes = dict[str, subprocess.Popen[bytes]]()
        for name in names:
            self.start(name)

    def before(self, name: str) -> list[str]:
        """What stands before the command of a node: where it runs, and with what faults."""
        return []

    def start(self, name: str) -> None:
        arguments = [*self.before(name), sys.executable, "-m", "tests.replica.nodes", name, str(self.file(name))]
        with open(self.folder / f"{name}.out", "ab") as out:
            self.processes[name] = subprocess.Popen(arguments, stdout=out, stderr=out, env=dict(os.environ))

    def said(self) -> str:
        """The last words of each node."""
        return "\n".join(
            f"{name}: {(self.folder / f'{name}.out').read_text(errors='replace')[-2000:]}" for name in self.names
        )

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def end(self, name: str) -> None:
        """It hands over first."""
        process = self.processes.pop(name)
        process.terminate()
        process.wait()

    def close(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes.values():
            process.wait(20)

    def __enter__(self) -> Self:
        return self


def strike(path: Path, struck: Path) -> None:
    """Whoever makes itself master is struck by a signal before it carries out one of its effects. The file `path` says
    how many come before that one, and which signal; then `struck` says who it was."""

    def is_struck(node: str) -> int:
        with suppress(FileNotFoundError), path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # two may stand at once
            if len(words := file.read().split()) == 2:  # else the other one is struck
                left, number = map(int, words)
                os.ftruncate(file.fileno(), os.lseek(file.fileno(), 0, os.SEEK_SET))
                os.write(file.fileno(), f"{left - 1} {number}".encode() if left else node.encode())
                if not left:
                    path.rename(struck)
                    return number
        return 0

    def carried(carry: Callable[[Any, Any], None], one: Member, effect: Any) -> None:
        if one.replica.role in (Role.CANDIDATE, Role.MASTER) and (number := is_struck(one.node)):
            os.kill(os.getpid(), number)
        carry(one, effect)

    member._CARRIED.update({kind: partial(carried, carry) for kind, carry in member._CARRIED.items()})


def main(name: str, file: str) -> None:
    strike(Path(file).parent / "strike", Path(file).parent / "struck")
    if SEGMENT in os.environ:
        wal.SEGMENT = copying.SEGMENT = int(os.environ[SEGMENT])  # type: ignore[attr-defined, misc]

    async def run() -> None:
        server = Server(Path(file).parent / name, name, read_log(Path(file)))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.stopping.set)
        await server.run()

    asyncio.run(run())


if __name__ == "__main__":
    main(*sys.argv[1:])


def eventfds() -> int:
    """How many eventfds this process has open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the list itself, or of another thread
            found += os.readlink(f"/proc/self/fd/{name}") == "anon_inode:[eventfd]"
    return found
