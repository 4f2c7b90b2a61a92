"""A member that lacks what its master has no more, or whose disk has rotted, gets the log anew; in one process."""

from __future__ import annotations

import asyncio
import errno
import threading
from functools import partial
from pathlib import Path

import pytest

from rtmw.disk import Disk
from rtmw.errors import LogDamaged
from rtmw.log.copied import Copy, CopyFile
from rtmw.replica import copying, wal
from rtmw.replica import words as w
from rtmw.replica.member import Member
from rtmw.replica.words import Role
from tests.replica.inside import Inside, in_loop, numbers, until

SMALL = 64 << 10
pytestmark = pytest.mark.usefixtures("small_segments")


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hundred records fill many of them."""
    monkeypatch.setattr(wal, "SEGMENT", SMALL)
    monkeypatch.setattr(copying, "SEGMENT", SMALL)
    monkeypatch.setattr(copying, "PART", 10_000)


async def left_behind(nodes: Inside) -> int:
    """Node c is away while records are appended, and trimmed; so many were appended."""
    await nodes.start("a", "b", "c")
    await nodes.create()
    await nodes.append(0, 50, 4000)
    await nodes.in_sync()
    await nodes.stop("c")
    await nodes.append(50, 100, 4000)
    await until(lambda: all("c" not in one.members["orders"].status().in_sync for one in nodes.servers.values()))
    master = await nodes.master()
    await until(lambda: master.status().checkpoint == master.wal.end)
    master.step(w.TrimTo(master.wal.end - 200_000))
    await until(lambda: master.folder.bounds()[0] > 0 and master.earliest > 50 * 4000)
    return 150


def check_copy(nodes: Inside, node: str, appended: int) -> None:
    found = numbers(nodes.member(node))
    assert found == list(range(found[0], appended))
    assert 0 < found[0] < appended - 10
    assert not [path for path in nodes.member(node).path.parent.iterdir() if path.name.startswith(".")]


@in_loop
# Proves G353.
async def test_a_member_that_was_left_behind_gets_sealed_segments_and_then_the_rest(tmp_path: Path) -> None:
    async with Inside(tmp_path, lag="0.3s", sync_timeout="0.2s") as nodes:
        appended = await left_behind(nodes)
        await nodes.start("c")
        await nodes.append(appended, 10, 4000)
        await nodes.in_sync()
        check_copy(nodes, "c", appended + 10)
        assert nodes.member("c").wal.floor == (await nodes.master()).wal.floor == 0, (
            "it knows the ids of what was trimmed"
        )


@in_loop
# Proves G353.
async def test_rot_in_what_was_durable_sets_the_log_aside_and_it_is_copied_anew(tmp_path: Path) -> None:
    async with Inside(tmp_path, lag="0.3s") as nodes:
        await nodes.start("a", "b", "c")
        await nodes.create()
        await nodes.append(0, 50, 4000)
        await nodes.in_sync()
        master = await nodes.master()
        spoil(master.path)
        with pytest.raises(LogDamaged, match="no valid record"):
            read_all(master)
        await until(lambda: master.replica.role is not Role.MASTER)
        await nodes.append(50, 10, 4000)
        await nodes.in_sync()
        assert (await nodes.master()).node != master.node
        assert numbers(master) == list(range(60))


@in_loop
# Proves G353.
async def test_a_log_that_is_damaged_when_its_node_starts_is_copied_anew(tmp_path: Path) -> None:
    async with Inside(tmp_path, lag="0.3s") as nodes:
        await nodes.start("a", "b", "c")
        await nodes.create()
        await nodes.append(0, 50, 4000)
        await nodes.in_sync()
        path = nodes.member("c").path
        await nodes.stop("c")
        spoil(path, sorted(path.glob("*.seg"))[-1].name)
        await nodes.start("c")
        await nodes.append(50, 5, 4000)
        await nodes.in_sync()
        assert numbers(nodes.member("c")) == list(range(55))


def read_all(member: Member) -> None:
    position = 0
    while (data := member.read_raw(position, 1)) is not None:
        position += len(data)


def spoil(path: Path, name: str = f"{0:020}.seg") -> None:
    with open(path / name, "r+b") as file:
        file.seek(3 * 4096 + 4200)
        file.write(b"\xff" * 64)


class Full(Disk):
    """Full for the first calls that write."""

    def __init__(self) -> None:
        self.refused = 0

    def write_all(self, descriptor: int, parts: object, position: int) -> None:
        if self.refused < 12:
            self.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write_all(descriptor, parts, position)  # type: ignore[arg-type]


@in_loop
# Proves G353.
async def test_where_the_disk_is_full_the_copy_waits_for_room_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_AGAIN_S", 0.05)
    disk = Full()
    monkeypatch.setattr(copying, "Copy", partial(Copy, disk=disk))
    async with Inside(tmp_path, lag="0.3s", sync_timeout="0.2s") as nodes:
        appended = await left_behind(nodes)
        await nodes.start("c")
        said = set[str]()

        def has_said() -> bool:
            found = nodes.servers["c"].operating.status_of(nodes.member("c"))
            said.update(found["words"])
            return any("is full" in word for word in said)

        await until(lambda: "orders" in nodes.servers["c"].members)
        await until(has_said)
        await nodes.append(appended, 10, 4000)
        await nodes.in_sync()
        check_copy(nodes, "c", appended + 10)


@in_loop
# Proves G353.
async def test_a_copy_that_is_broken_off_goes_on_with_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = list[tuple[str, int]]()
    broken = 0
    async with Inside(tmp_path, lag="0.3s", sync_timeout="0.2s") as nodes:
        appended = await left_behind(nodes)
        write = Copy.write

        def written(copy: Copy, file: CopyFile, position: int, data: bytes) -> None:
            nonlocal broken
            write(copy, file, position, data)
            writes.append((file.name, position))
            if len(writes) in (4, 9):
                broken += 1
                session = nodes.servers["c"].session(nodes_master)
                assert session is not None
                loop.call_soon_threadsafe(session.close, "a break")

        loop, nodes_master = asyncio.get_running_loop(), (await nodes.master()).node
        monkeypatch.setattr(Copy, "write", written)
        await nodes.start("c")
        await nodes.append(appended, 10, 4000)
        await nodes.in_sync()
        check_copy(nodes, "c", appended + 10)
        segments = [one for one in writes if one[0].endswith(".seg")]
        assert broken == 2
        assert len(segments) <= len({*segments}) + 2, "what was there did not come again"


@in_loop
# Proves G358.
async def test_a_node_that_ends_waits_for_the_thread_that_puts_a_copy_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on = asyncio.Event(), threading.Event()
    loop, finish = asyncio.get_running_loop(), Copy.finish

    def finished(copy: Copy, uuid: bytes, description: bytes, segment: int) -> None:
        loop.call_soon_threadsafe(begun.set)
        may_go_on.wait(10)
        finish(copy, uuid, description, segment)

    async with Inside(tmp_path, lag="0.3s", sync_timeout="0.2s") as nodes:
        await left_behind(nodes)
        monkeypatch.setattr(Copy, "finish", finished)
        await nodes.start("c")
        await begun.wait()
        stopping = asyncio.create_task(nodes.stop("c"))
        try:
            await asyncio.wait([stopping], timeout=1.0)
            assert not stopping.done(), "a thread is at the disk"
        finally:
            may_go_on.set()
            await stopping
        assert [path.name for path in (tmp_path / "c" / "logs").iterdir()] == ["orders"]
