"""What befalls disks and the control store of nodes; in the loop of a test, so that no rights are needed for it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from rtmw.replica import words as w
from rtmw.replica.member import Member
from rtmw.replica.words import Reply, Role
from tests.control.stores import Cluster, needs_etcd
from tests.replica.inside import Inside, appended, in_loop, numbers, until


def fill(monkeypatch: pytest.MonkeyPatch, member: Member) -> None:
    """The disk of a member is full, as its log says it."""

    def has_none(*_: object) -> bool:
        return False

    def appends(*_: object) -> None:
        return None

    monkeypatch.setattr(member.wal, "append", appends)
    monkeypatch.setattr(member.wal, "append_raw", has_none)
    monkeypatch.setattr(member.wal, "has_room", has_none)


@in_loop
# Proves G362.
async def test_a_slave_with_a_full_disk_leaves_the_set_and_returns_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Inside(tmp_path, lag="0.5s", sync_timeout="0.2s") as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.append(0, 10)
        await nodes.in_sync()
        master = await nodes.master()
        slave = nodes.member(next(name for name in "abc" if name != master.node))
        with monkeypatch.context() as full:
            fill(full, slave)
            await nodes.append(10, 10)
            await until(lambda: slave.node not in master.status().in_sync)
            said = nodes.servers[slave.node].operating.status_of(slave)["words"]
            assert f"the disk of {slave.node} is full" in said
        await nodes.append(20, 10)
        await nodes.in_sync()
        assert numbers(slave) == list(range(30))


@in_loop
# Proves G362.
async def test_a_master_with_a_full_disk_hands_over_and_the_log_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Inside(tmp_path, lag="0.5s", sync_timeout="0.2s") as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.append(0, 10)
        await nodes.in_sync()
        master = await nodes.master()
        with monkeypatch.context() as full:
            fill(full, master)
            assert (await master.ask(appended(10, 100))).reply is Reply.MOVED
            await until(lambda: master.replica.role is not Role.MASTER)
            await nodes.append(10, 10)
            assert (await nodes.master()).node != master.node
        await nodes.append(20, 10)
        await nodes.in_sync()
        assert numbers(master) == list(range(30))


@needs_etcd
# Proves G364.
def test_while_etcd_is_down_appends_and_following_readers_go_on_and_switches_wait_for_it(tmp_path: Path) -> None:
    etcd = Cluster(tmp_path)
    try:
        etcd.start()
        asyncio.run(_without_etcd(tmp_path, etcd))
    finally:
        etcd.close()


async def _without_etcd(path: Path, etcd: Cluster) -> None:
    store = json.dumps([one.endpoint for one in etcd.members])
    async with Inside(path, store=store, lag="0.5s", sync_timeout="0.2s") as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.append(0, 10)
        await nodes.in_sync()
        etcd.members[0].kill()
        await nodes.append(10, 10)
        etcd.members[1].kill()
        await nodes.append(20, 50)
        etcd.members[2].kill()
        await nodes.append(70, 50)
        master = await nodes.master()
        await until(lambda: all(nodes.member(node).committed == master.wal.end for node in "abc"))
        fresh = asyncio.create_task(master.ask(w.Fresh))
        await asyncio.wait([fresh], timeout=1)
        assert not fresh.done(), "a reader of the present end needs the store"
        await nodes.append(120, 10)
        for one in etcd.members[1:]:
            one.start()
        assert (await fresh).reply is Reply.DONE
        await nodes.stop(master.node)
        await nodes.append(130, 10)
        assert numbers(await nodes.master()) == list(range(140))
