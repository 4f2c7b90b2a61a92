"""Programs at nodes whose logs come and go, that are cut off, or that do not take what they asked for."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import tomllib
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

import rtmw
from rtmw.clock import CLOCK
from rtmw.log import Folder, HeldCursor
from rtmw.net.session import Carrier, Hello, Terms
from rtmw.replica import guests
from rtmw.replica import requests as r
from tests.replica.inside import Inside, alone, in_loop, until


def places(nodes: Inside) -> list[str]:
    return [tomllib.loads((nodes.path / f"{node}.toml").read_text())["log"]["listen"] for node in nodes.servers]


def make_cursors(folder: Folder, count: int) -> None:
    for number in range(count):
        with HeldCursor(folder, f"{number:060}") as cursor:
            cursor.begin(0)


def _nothing(*_: object) -> None:
    return


class Program:
    """Follows a log from its beginning, in a thread, and appends to it."""

    def __init__(self, log: rtmw.Log[bytes]) -> None:
        self.log, self.read = log, list[bytes]()

    def follow(self) -> None:
        self.read.extend(record.data for record in self.log.read(follow=True))

    async def append(self, data: bytes) -> None:
        """And sees it."""
        assert (await self.log.append_async(data)).state in (rtmw.Durability.WRITTEN, rtmw.Durability.CACHED)
        await until(lambda: data in self.read[-2:])


@asynccontextmanager
async def program(nodes: Inside, names: str = "abc") -> AsyncGenerator[Program]:
    await nodes.start(*names)
    await nodes.create(members=names)
    await nodes.append(0, 1)
    await nodes.in_sync(names)
    one = Program(await asyncio.to_thread(rtmw.Log.connect, "orders", nodes=places(nodes), timeout=8.0))
    following = asyncio.ensure_future(asyncio.to_thread(one.follow))
    try:
        await one.append(b"first")
        yield one
    finally:
        await asyncio.to_thread(one.log.close)
        await following


@in_loop
# Proves G380.
async def test_a_program_goes_on_where_a_log_leaves_its_node_and_comes_back(tmp_path: Path) -> None:
    """Its reader leaves the node that has the log no more; its appends go to the new copy, once that is the master."""
    async with Inside(tmp_path) as nodes, program(nodes) as one:
        old = (await nodes.master()).node
        new = next(node for node in "abc" if node != old)
        await nodes.obey(old, ask="move", name="orders", to=new)
        await until(lambda: nodes.member(new).replica.role.value == "master")
        await nodes.obey(new, ask="members", name="orders", remove=old)
        await one.append(b"without it")
        await nodes.obey(new, ask="members", name="orders", add=old)
        await nodes.in_sync()
        await nodes.obey(new, ask="move", name="orders", to=old)
        await one.append(b"with its new copy")


@in_loop
# Proves G380.
async def test_a_reader_leaves_a_master_that_is_cut_off_from_the_others(tmp_path: Path) -> None:
    async with Inside(tmp_path, suspect=0.5) as nodes, program(nodes) as one:
        old = await nodes.master()
        server = cast("Any", nodes.servers[old.node])
        cast("Any", old).hear = server.send = server.ship = _nothing
        await until(
            lambda: any(nodes.member(node).replica.role.value == "master" for node in "abc" if node != old.node)
        )
        await one.append(b"at the new one")
        del cast("Any", old).hear, server.send, server.ship


@in_loop
# Proves G382.
async def test_cursors_of_many_logs_are_told_each_alone_and_again_where_they_were_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "TELL_S", 0.02)
    monkeypatch.setattr(guests, "CURSORS_MOST", 8)
    monkeypatch.setattr(r, "LONGEST_WORDS", 800)
    mirror, tried = guests.Guests._mirror, set[Any]()

    def fail_once(self: guests.Guests, folder: Any, told: dict[str, int]) -> None:
        if told and folder.path not in tried:
            tried.add(folder.path)
            raise OSError("the disk is away for a moment")
        mirror(self, folder, told)

    monkeypatch.setattr(guests.Guests, "_mirror", fail_once)
    async with Inside(tmp_path) as nodes:
        await nodes.start(*"abc")
        for name in ("orders", "other"):
            await nodes.create(name)
            await nodes.append(0, 1, name=name)
            await nodes.in_sync(name=name)
            master = await nodes.master(name)
            await asyncio.to_thread(make_cursors, master.folder, 8)  # the disk may be slow, and nodes wait for none
        sessions = [one.session(other) for one in nodes.servers.values() for other in "abc" if one.node != other]
        for name in ("orders", "other"):
            folders = [nodes.member(node, name).folder for node in "abc"]
            await until(lambda folders=folders: all(len(guests.cursor_names(one)) == 8 for one in folders))  # type: ignore[misc]
        assert all(session is not None and session.error is None for session in sessions)
        log = await asyncio.to_thread(rtmw.Log.connect, "orders", nodes=places(nodes))
        with pytest.raises(rtmw.LogError, match="has 8 cursors, and no more can be made; delete some"):
            await asyncio.to_thread(lambda: log.read(cursor="one more"))
        await asyncio.to_thread(log.close)


@in_loop
# Proves G381.
async def test_answers_that_a_program_does_not_take_are_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "OUT_BYTES", 1 << 16)
    desks, run, asked = list[Any](), guests._Desk.run, 800

    async def keep(self: guests._Desk) -> None:
        desks.append(self)
        await run(self)

    monkeypatch.setattr(guests._Desk, "run", keep)
    async with alone(tmp_path) as nodes:
        await asyncio.to_thread(make_cursors, nodes.member("a").folder, 40)
        hello = Hello(uuid4(), CLOCK.wall_ns(), capabilities=frozenset({r.CAPABILITY}))
        terms = Terms(stream_credit=1 << 16)
        async with Carrier(hello.node, insecure=True, hello=hello, terms=terms) as carrier:
            host, port = places(nodes)[0].split(":")
            stream = (await carrier.connect(host, int(port))).open(r.log_purpose("orders"))
            await stream.write(b"".join(r.pack_request(r.Ask.CURSORS, 1 + n, 0) for n in range(asked)))
            await until(lambda: bool(desks) and desks[0]._unwritten >= guests.OUT_BYTES)
            for _ in range(50):
                await asyncio.sleep(0.01)
                assert desks[0]._unwritten < 2 * guests.OUT_BYTES
            splitter, answers = r.answer_splitter(), set[int]()
            while len(answers) < 1 + asked:
                answers |= {heard.ticket for heard in r.answers_in(splitter, await stream.read())}
                assert desks[0]._unwritten < 2 * guests.OUT_BYTES


@in_loop
# Proves G377.
async def test_cursors_however_many_are_listed_and_counted_beside_the_loop_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing of 10,000 takes as long as a heartbeat may."""
    monkeypatch.setattr(guests, "TELL_S", 0.02)
    here, looked = threading.get_ident(), Counter[tuple[str, bool]]()

    def noting(look: Any, name: str) -> Any:
        def noted(*arguments: Any) -> Any:
            looked[name, threading.get_ident() == here] += 1
            return look(*arguments)

        return noted

    async with Inside(tmp_path, "ab") as nodes, program(nodes, "ab") as one:
        await asyncio.to_thread(make_cursors, (await nodes.master()).folder, 30)
        monkeypatch.setattr(os, "listdir", noting(os.listdir, "listdir"))
        monkeypatch.setattr(Folder, "cursor", noting(Folder.cursor, "cursor"))
        told = await asyncio.to_thread(one.log.cursors)
        assert len(told) == 30
        await asyncio.to_thread(one.log.stats)
        await asyncio.to_thread(one.log.trim, 0)
        await asyncio.to_thread(one.log.delete_cursor, next(iter(told)))
        with await asyncio.to_thread(partial(one.log.read, cursor="new")):
            looked["told before", False] = looked["cursor", False]
            await until(lambda: looked["cursor", False] > looked["told before", False] + 60)
        assert {name for name, is_in_loop in looked if is_in_loop} == set()
        monkeypatch.undo()


@in_loop
async def test_a_cursor_that_is_damaged_or_a_log_that_is_cut_while_cursors_are_listed_ends_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "TELL_S", 0.02)
    listed, cut, names = threading.Event(), threading.Event(), guests.cursor_names

    def slow(folder: Folder) -> list[str]:
        found = names(folder)
        if folder.path.endswith("orders") and not cut.is_set():
            listed.set()
            cut.wait(8)
        return found

    async with Inside(tmp_path, "ab") as nodes:
        await nodes.start(*"ab")
        for name in ("orders", "other"):
            await nodes.create(name, members="ab")
            await nodes.append(0, 1, name=name)
            await nodes.in_sync("ab", name)
        master = await nodes.master()
        await asyncio.to_thread(make_cursors, master.folder, 1)
        monkeypatch.setattr(guests, "cursor_names", slow)
        await asyncio.to_thread(listed.wait, 8)
        master.is_open = False
        await asyncio.to_thread(master.wal.truncate, master.wal.end)  # as of one that has just lost its epoch
        master.opened()
        cut.set()
        damaged = next(master.path.glob("*.cursor"))
        damaged.write_bytes(bytes(damaged.stat().st_size))
        other = await nodes.master("other")
        await asyncio.to_thread(make_cursors, other.folder, 2)
        folders = [nodes.member(node, "other").folder for node in "ab"]
        await until(lambda: all(len(names(folder)) == 2 for folder in folders))
        assert not any(server._failure() for server in nodes.servers.values())


@in_loop
# Proves G387.
async def test_a_log_that_is_cut_tells_its_size_and_the_place_of_a_time_when_it_is_open_again(tmp_path: Path) -> None:
    async with Inside(tmp_path, "a") as nodes:
        await nodes.start("a")
        await nodes.create(members="a", min_insync=1)
        await nodes.append(0, 5)
        member = nodes.member("a")
        log = await asyncio.to_thread(rtmw.Log.connect, "orders", nodes=places(nodes), timeout=8.0)
        with closing(log):
            begin = datetime.fromtimestamp(0, UTC)
            asks: list[Callable[[], Any]] = [log.stats, lambda: next(log.read(begin, follow=True)).position]
            listening = len(member._listeners)
            member.is_open = False
            await asyncio.to_thread(member.wal.close)
            asked = [asyncio.ensure_future(asyncio.to_thread(ask)) for ask in asks]
            await until(lambda: len(member._listeners) == listening + len(asks))
            await asyncio.to_thread(member.wal.open)
            member.opened()
            stats, position = await asyncio.gather(*asked)
            assert (stats.end, position) == (member.committed, stats.earliest)
            await asyncio.to_thread(log.close)


@in_loop
async def test_a_cursor_that_another_program_takes_while_it_is_to_be_deleted_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with alone(tmp_path) as nodes:
        await asyncio.to_thread(make_cursors, nodes.member("a").folder, 1)
        looks, goes_on, names = threading.Event(), threading.Event(), guests.cursor_names

        def slow(folder: Folder) -> list[str]:
            found = names(folder)
            looks.set()
            goes_on.wait(8)
            return found

        monkeypatch.setattr(guests, "cursor_names", slow)
        one, two = [await asyncio.to_thread(rtmw.Log.connect, "orders", nodes=places(nodes)) for _ in range(2)]
        (name,) = names(nodes.member("a").folder)
        deleting = asyncio.ensure_future(asyncio.to_thread(one.delete_cursor, name))
        await asyncio.to_thread(looks.wait, 8)
        await asyncio.to_thread(lambda: two.read(cursor=name))
        goes_on.set()
        with pytest.raises(rtmw.LogLocked):
            await deleting
        for log in (one, two):
            await asyncio.to_thread(log.close)


@in_loop
async def test_a_node_that_is_not_the_master_any_more_and_does_not_know_it_removes_no_cursor(tmp_path: Path) -> None:
    async with Inside(tmp_path, lag="6s", suspect="20s") as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.in_sync()
        master = await nodes.master()
        old, other = sorted({*"abc"} - {master.node})
        await asyncio.to_thread(make_cursors, master.folder, 1)
        folder = nodes.member(other).folder
        await until(lambda: len(guests.cursor_names(folder)) == 1)
        session = nodes.servers[old].session(other)
        assert session is not None
        stream, told = session.open(guests.CURSORS, priority=1), b""
        for words in (b'{"orders": {}}', b'{"orders": {"stale": 0}}'):
            told += r.RAW.pack(len(words), 0) + words
        await stream.write(told)
        await stream.reached(len(told))
        for _ in range(50):  # a thread of the node would have done it by then
            await asyncio.sleep(0.01)
            assert [f"{0:060}"] == guests.cursor_names(folder)


@in_loop
async def test_what_a_node_cannot_do_any_more_since_another_is_the_master_is_asked_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "LOOK_S", 1.0)
    monkeypatch.setattr(guests, "TELL_S", 60.0)
    listed, moved, names = threading.Event(), threading.Event(), guests.cursor_names

    def closed(folder: Folder) -> list[str]:
        if not moved.is_set():
            listed.set()
            moved.wait(8)
            raise OSError(errno.EBADF, "Bad file descriptor")
        return names(folder)

    async with Inside(tmp_path, "ab") as nodes:
        await nodes.start(*"ab")
        await nodes.create(members="ab")
        await nodes.in_sync("ab")
        log = await asyncio.to_thread(rtmw.Log.connect, "orders", nodes=places(nodes))
        await log.append_async(b"it knows the master")
        monkeypatch.setattr(guests, "cursor_names", closed)
        asked = asyncio.ensure_future(asyncio.to_thread(log.cursors))
        await asyncio.to_thread(listed.wait, 8)
        await nodes.obey((await nodes.master()).node, ask="move", name="orders")
        moved.set()
        assert await asked == {}
        await asyncio.to_thread(log.close)


@in_loop
async def test_a_program_that_leaves_while_its_cursor_is_opened_leaves_it_free(tmp_path: Path) -> None:
    async with alone(tmp_path) as nodes:
        log = await asyncio.to_thread(rtmw.Log.connect, "orders", nodes=places(nodes))
        member, there = nodes.member("a"), nodes.servers["a"].guests
        (guest,), opened = there._guests, partial(opened_at, member.path)
        before = opened()
        for _ in range(10):
            holding = asyncio.ensure_future(there.hold(guest, member, "c", r.NO_LIMIT))
            await asyncio.sleep(0)  # a thread is at it
            holding.cancel()
            with suppress(asyncio.CancelledError, rtmw.LogLocked):
                await holding
        await until(lambda: opened() == before)
        await there.hold(guest, member, "c", r.NO_LIMIT)
        await asyncio.to_thread(log.close)


def opened_at(path: Path) -> int:
    """How many descriptors of this folder, and of cursors in it, this process has."""
    found = (os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd"))
    return sum(name == str(path) or name.endswith(".cursor.lock") for name in found)
