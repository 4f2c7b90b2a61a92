"""Nodes of replicated logs in the loop of a test: servers, sessions over loopback, a store in a SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from rtmw.log import AutomaticId, pack_labels
from rtmw.replica import requests as r
from rtmw.replica import words as w
from rtmw.replica.control.settings import read_log
from rtmw.replica.member import Member
from rtmw.replica.server import Server
from rtmw.types import resolve
from tests.ports import free_ports

P = ParamSpec("P")
PRODUCER = b"producer" * 2
WITHIN_S = 12.0


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that runs in a loop of its own."""

    @wraps(test)
    def run(*arguments: P.args, **others: P.kwargs) -> None:
        asyncio.run(test(*arguments, **others))

    return run


class Inside:
    """`async with`: all are stopped at the end. Each node has a folder of its own below `path`."""

    def __init__(
        self, path: Path, names: str = "abc", *, store: str = '"sqlite:control.db"', **settings: object
    ) -> None:
        """`store`: of `[control]`, as TOML has it; `settings`: of `[log]`."""
        self.path = path
        self.servers = dict[str, Server]()
        self._running = dict[str, asyncio.Task[None]]()
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        for name, port in ports.items():
            others = [f"127.0.0.1:{other}" for other in ports.values() if other != port]
            told = {"listen": f"127.0.0.1:{port}", "connect": others, "insecure": True} | settings
            lines = [f'name = "{name}"', 'serve = ["log"]', f'data = "{name}"', "[log]"]
            lines += [f"{key} = {value!r}".replace("True", "true") for key, value in told.items()]
            (path / f"{name}.toml").write_text("\n".join([*lines, "[control]", f"store = {store}", ""]))

    async def start(self, *names: str) -> None:
        for name in names:
            server = self.servers[name] = Server(self.path / name, name, read_log(self.path / f"{name}.toml"))
            self._running[name] = asyncio.create_task(server.run())

    async def stop(self, *names: str) -> None:
        """Hands over first, as SIGTERM does."""
        for name in names:
            self.servers.pop(name).stopping.set()
            await self._running.pop(name)

    async def kill(self, name: str) -> None:
        """At once: it hands nothing over."""
        del self.servers[name]
        self._running[name].cancel()
        await asyncio.wait([self._running.pop(name)])

    async def obey(self, at: str, **question: Any) -> dict[str, Any]:
        return await self.servers[at].operating.obey(question, is_node=False)

    async def create(self, name: str = "orders", members: str = "abc", **settings: object) -> None:
        node = members[0]
        others = [one for one in members if one != node]
        await until(lambda: all(self.servers[node].session(one) for one in others))
        await self.obey(
            node, ask="create", name=name, members=[*members], description=resolve(bytes).description.hex(),
            settings=settings,
        )  # fmt: skip

    def member(self, node: str, name: str = "orders") -> Member:
        return self.servers[node].members[name]

    async def master(self, name: str = "orders") -> Member:
        """The master, as soon as there is one."""

        def found() -> list[Member]:
            members = [one.members[name] for one in self.servers.values() if name in one.members]
            masters = [one for one in members if one.replica.role is w.Role.MASTER]
            return sorted(masters, key=lambda one: one.replica.epoch)[-1:]

        await until(lambda: bool(found()))
        return found()[0]

    async def append(self, first: int, count: int, size: int = 100, name: str = "orders") -> None:
        """Messages with ids, each until it is written; asked again elsewhere if another is master."""
        left = set(range(first, first + count))
        while left:
            master = await self.master(name)
            answers = await asyncio.gather(*(master.ask(appended(one, size)) for one in sorted(left)))
            done = (w.Reply.WRITTEN, w.Reply.CACHED)
            left -= {one for one, answer in zip(sorted(left), answers, strict=True) if answer.reply in done}
            await asyncio.sleep(0.01 if left else 0)

    async def in_sync(self, members: str = "abc", name: str = "orders") -> None:
        """Until all are in the in-sync set, and have what is committed."""

        def are() -> bool:
            found = [one.members[name] for node, one in self.servers.items() if node in members and name in one.members]
            masters = [one for one in found if one.replica.role is w.Role.MASTER]
            return len(found) == len(members) and any(  # a node that has just begun has no member yet
                one.status().in_sync == frozenset(members) and all(other.committed == one.wal.end for other in found)
                for one in masters
            )

        try:
            await until(are)
        except TimeoutError:
            told = [one.operating.status_of(one.members[name]) for one in self.servers.values() if name in one.members]
            raise AssertionError(f"not all are in sync: {told}") from None

    async def __aenter__(self) -> Inside:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(self.stop(name) for name in list(self.servers)))


@asynccontextmanager
async def alone(path: Path) -> AsyncGenerator[Inside]:
    """Node "a" keeps a log by itself, which has one record."""
    async with Inside(path, "a", min_insync=1) as nodes:
        await nodes.start("a")
        await nodes.create(members="a")
        await nodes.append(0, 1)
        yield nodes


def appended(number: int, size: int) -> Callable[[int], w.Append]:
    labels = pack_labels(None, AutomaticId(PRODUCER, number)) or b""
    data = r.unpack_batch(r.pack_batch(labels, [number.to_bytes(8, "big").ljust(size, b".")]))
    return lambda ticket: w.Append(ticket, labels, 0, data)


async def until(condition: Callable[[], bool], within: float = WITHIN_S) -> None:
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.01)


def numbers(member: Member) -> list[int]:
    """Of the messages of a member's log that are committed."""
    found, reader = list[int](), member.folder.reader(member.earliest, begins=True)
    while (record := reader.next(member.committed)) is not None:
        if record[4] == 1:
            found.append(int.from_bytes(record[6][:8], "big"))
    reader.close()
    return found
