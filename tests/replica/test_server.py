"""A node of replicated logs beside others that speak wrongly, disks that stand still, and logs that go."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from rtmw.clock import CLOCK
from rtmw.errors import SessionError
from rtmw.net.session import Carrier, Hello, Terms
from rtmw.replica import requests as r
from rtmw.replica import wire
from rtmw.replica import words as w
from rtmw.replica.control.settings import read_log
from rtmw.replica.guests import CURSORS
from rtmw.replica.member import Member
from rtmw.replica.server import Server
from tests.replica.inside import Inside, appended, in_loop, until


def framed(words: bytes) -> bytes:
    return r.RAW.pack(len(words), 0) + words


@in_loop
# Proves G359.
async def test_a_node_that_speaks_wrongly_loses_its_session_and_the_others_go_on(tmp_path: Path) -> None:
    async with Inside(tmp_path, "ab") as nodes:
        await nodes.start(*"ab")
        await nodes.create(members="ab")
        await nodes.in_sync("ab")
        master = await nodes.master()
        here, there = ("a", "b") if master.node == "b" else ("b", "a")
        log = json.dumps({"log": master.uuid.hex()}).encode()
        for purpose, words in (
            *((wire.COPY, line + b"\n") for line in (b"[]", b"7", b'{"log": 7}', b"{}", b"[" * 100_000, b"\xff")),
            *((wire.COPY, log + b"\n" + line + b"\n") for line in (b"7", b"[7]", b'[["x"]]', b'[[[], "1"]]')),
            *((CURSORS, framed(line)) for line in (b"[]", b'"x"', b'{"orders": 7}', b'{"orders": {"x": "y"}}')),
            (wire.BATCHES, b"\xff" * 100),
        ):
            await until(lambda: nodes.servers[here].session(there) is not None)
            session = nodes.servers[here].session(there)
            assert session is not None
            with suppress(SessionError):
                stream = session.open(purpose, priority=1)
                await stream.write(words)
                stream.end()
                async with asyncio.timeout(10):
                    while await stream.read():
                        pass
            assert not nodes._running[there].done(), words[:40]
        await nodes.append(0, 5)
        await nodes.in_sync("ab")


@in_loop
# Proves G366.
async def test_of_two_nodes_of_one_name_the_second_is_refused_in_words_and_the_first_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Inside(tmp_path, "ab") as nodes:
        await nodes.start(*"ab")
        await nodes.create(members="ab")
        await nodes.in_sync("ab")
        first, settings = nodes.servers["b"].session("a"), read_log(tmp_path / "a.toml")
        place = read_log(tmp_path / "b.toml").link.listen[0]
        link = replace(settings.link, listen=(), connect=(place,))
        twin = Server(tmp_path / "twin", "a", replace(settings, link=link))
        running = asyncio.create_task(twin.run())
        await until(lambda: "two nodes have the name 'a', and one of them is connected" in caplog.text)
        now = nodes.servers["b"].session("a")
        assert first is not None
        assert now is not None
        assert now.node == first.node
        await nodes.append(0, 5)
        twin.stopping.set()
        await running


@in_loop
# Proves G360.
async def test_a_slave_whose_disk_stands_still_holds_little_and_the_master_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Inside(tmp_path, lag="0.3s", sync_timeout="0.1s") as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.append(0, 5)
        await nodes.in_sync()
        master = await nodes.master()
        slave = nodes.member(next(node for node in "abc" if node != master.node))
        beats = list[int]()
        hear = Member.hear

        def heard(member: Member, node: str, copy: bytes, message: w.Message) -> None:
            if member is slave and isinstance(message, w.Beat):
                beats.append(message.end)
            hear(member, node, copy, message)

        def stands_still(data: bytes) -> bool:
            raise TimeoutError

        monkeypatch.setattr(Member, "hear", heard)
        append_raw = slave.wal.append_raw
        slave.wal.append_raw = stands_still  # type: ignore[method-assign]
        asked = [asyncio.create_task(master.ask(appended(100 + one, 100_000))) for one in range(60)]
        await asyncio.wait(asked)
        so_far = len(beats)
        await until(lambda: len(beats) >= so_far + 8)
        held = [one.message for one in slave._held if isinstance(one, w.Received)]
        assert 0 < sum(len(one.data) for one in held if isinstance(one, w.Batches)) < 3 << 20
        slave.wal.append_raw = append_raw  # type: ignore[method-assign]
        await nodes.in_sync()


@in_loop
# Proves G360.
async def test_a_log_that_is_dropped_while_its_disk_stands_still_holds_up_no_other(tmp_path: Path) -> None:
    def stands_still(data: bytes) -> bool:
        raise TimeoutError

    async with Inside(tmp_path, "ab") as nodes:
        await nodes.start(*"ab")
        for name in ("orders", "others"):
            await nodes.create(name, members="ab")
            await nodes.append(0, 1, name=name)
            await nodes.in_sync("ab", name)
            if (await nodes.master(name)).node != "a":
                await nodes.obey("b", ask="move", name=name, to="a")
        slave = nodes.member("b")
        slave.wal.append_raw = stands_still  # type: ignore[method-assign]
        appending = asyncio.create_task(nodes.member("a").ask(appended(1, 100)))
        await until(lambda: slave.holds)
        await nodes.obey("a", ask="drop", name="orders")
        await appending
        await nodes.append(1, 5, name="others")
        await nodes.in_sync("ab", "others")


@in_loop
async def test_who_reads_at_a_node_whose_copy_goes_is_woken(tmp_path: Path) -> None:
    async with Inside(tmp_path, "ab") as nodes:
        await nodes.start(*"ab")
        await nodes.create(members="ab", min_insync=1)
        slave = nodes.member("b" if (await nodes.master()).node == "a" else "a")
        await nodes.append(0, 5)
        await nodes.in_sync("ab")
        woken = asyncio.Event()
        slave.on_commit(woken.set)
        await nodes.obey("a", ask="members", name="orders", remove=slave.node)
        assert woken.is_set()


@in_loop
async def test_a_node_whose_control_store_cannot_be_says_so_when_it_begins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("this is no folder")
    async with Inside(tmp_path, "a", store='"sqlite:file/control.db"') as nodes:
        await nodes.start("a")
        await until(
            lambda: any("the control store: " in said and "file/control.db" in said for said in caplog.messages)
        )


@in_loop
async def test_a_node_that_allows_too_few_streams_is_told_and_leaves_no_session_behind(tmp_path: Path) -> None:
    async with Inside(tmp_path, "a") as nodes:
        await nodes.start("a")
        await until(lambda: (carrier := nodes.servers["a"].peers._carrier) is not None and bool(carrier._doors))
        host, port = read_log(tmp_path / "a.toml").link.listen[0].rsplit(":", 1)
        hello = Hello(uuid4(), CLOCK.wall_ns(), capabilities=frozenset({f"{wire.SPEAKS}{wire.VERSION}", "node=b"}))
        async with asyncio.timeout(10), Carrier(hello.node, terms=Terms(streams=1), hello=hello) as carrier:
            with pytest.raises(SessionError, match="1 streams are open, as many as the peer allows"):
                raise await (await carrier.connect(host, int(port))).closed()
        assert not nodes._running["a"].done()
