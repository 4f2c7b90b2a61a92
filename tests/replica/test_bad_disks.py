"""Nodes that are processes, of which one has a disk or a session that is slow, or a disk that is full."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from errno import EIO, ENOSPC
from pathlib import Path

import pytest

from rtmw.replica.operating import ask_node
from tests import namespaces
from tests.replica.bad_disk import SMALL, BadDisk
from tests.replica.nodes import until
from tests.replica.switching import NAME, PATIENCE_S, Programs, Wired, is_whole, moved, status
from tests.transfer.kill_at_call import killed_at_call
from tests.whole import sample

pytestmark = pytest.mark.timeout(400)
BAD = "c"
"""The node that something befalls."""


class Harmed(Wired):
    """`before_bad`: what stands before the command of node c."""

    def __init__(self, folder: Path, before_bad: list[str]) -> None:
        self.before_bad = before_bad
        super().__init__(folder)

    def before(self, name: str) -> list[str]:
        return ["env", *SMALL, *(self.before_bad if name == BAD else [])]

    def moved(self, *, is_master: bool) -> None:
        """Node c is master, or it is not, and all are in sync."""

        def is_so() -> bool:
            found = status(self)
            if found and (found["master"] == BAD) != is_master:
                moved(self, **({"to": BAD} if is_master else {"off": BAD}))
                return False
            return len(found.get("in_sync", ())) == len(self.names)

        until(is_so, PATIENCE_S, self.said)


@contextmanager
def under_load(nodes: Harmed, size: int = 0, lag: float = 0.5, suspect: float = 1.0) -> Generator[Programs]:
    """Programs append and read; what they saw is right in the end, and all nodes are in sync."""
    nodes.create(NAME, lag=lag, sync_timeout=0.2, suspect=suspect)
    with Programs(nodes.places, size=size) as programs:
        yield programs
        until(lambda: is_whole(nodes), PATIENCE_S, nodes.said)
    programs.read_all()
    assert programs.anomalies() == []


def go_on(programs: Programs, count: int) -> Counter[str]:
    """So many appends are answered from now on: how."""
    begin = len(programs.history)
    until(lambda: sum("position" in one for one in programs.history[begin:]) >= count, PATIENCE_S)
    return Counter(one["answer"] for one in programs.history[begin:] if one["op"] == "append" and "answer" in one)


def is_out(nodes: Harmed) -> bool:
    found = status(nodes)
    return bool(found) and found["master"] != BAD and BAD not in found["in_sync"]


@pytest.mark.parametrize("what", sample(["its disk", "its session"], 1))
# Proves G363.
def test_where_one_of_three_slaves_crawls_appends_go_on_at_the_speed_of_the_others_and_it_comes_back(
    what: str, tmp_path: Path
) -> None:
    disk = BadDisk(tmp_path) if what == "its disk" else None
    with Harmed(tmp_path, disk.before if disk else []) as nodes, under_load(nodes) as programs:
        nodes.moved(is_master=False)
        if disk:
            disk.slow_down()
        else:
            nodes.wires.rates = {(other, BAD): 5000.0 for other in "ab"}
        until(lambda: is_out(nodes), PATIENCE_S, nodes.said)
        answers = go_on(programs, 600)
        assert answers["written"] > 0.9 * answers.total(), answers
        nodes.wires.rates.clear()
        if disk:
            disk.speed_up()


class SmallDisk:
    """A tmpfs of its own, seen by node c alone."""

    def __init__(self, folder: Path) -> None:
        (folder / BAD).mkdir()
        mount = f"mount -t tmpfs -o size=24m tmpfs {folder / BAD}"
        namespaces.require("unshare", "--mount", "sh", "-c", mount)
        self.before = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh"]
        self.folder = folder

    def fill(self, process: int) -> None:
        """All that is left."""
        self._rest = Path(f"/proc/{process}/root{self.folder / BAD}/rest")
        with self._rest.open("wb") as rest:
            found = os.fstatvfs(rest.fileno())
            os.posix_fallocate(rest.fileno(), 0, found.f_bavail * found.f_frsize)

    def make_room(self) -> None:
        self._rest.unlink()


def says(nodes: Harmed, words: str) -> bool:
    """Node c says so of itself."""
    return words in ask_node(nodes.place(BAD), name=NAME, ask="status", here=True)["words"]


@pytest.mark.parametrize("disk", sample([SmallDisk, BadDisk], 1))
# Proves G362.
def test_a_master_with_a_full_disk_hands_over_a_full_slave_leaves_and_both_come_back_when_there_is_room(
    disk: type[SmallDisk | BadDisk], tmp_path: Path
) -> None:
    """A real disk that is full, and, under torture, one whose calls say so."""
    small = disk(tmp_path)
    with Harmed(tmp_path, small.before) as nodes, under_load(nodes, size=4000) as programs:
        for is_master in (True, False):
            nodes.moved(is_master=is_master)
            small.fill(nodes.processes[BAD].pid)
            until(lambda: says(nodes, "the disk of c is full"), PATIENCE_S, nodes.said)
            until(lambda: is_out(nodes), PATIENCE_S, nodes.said)
            go_on(programs, 100)
            small.make_room()
            until(lambda: is_whole(nodes), PATIENCE_S, nodes.said)


def test_a_master_whose_disk_crawls_says_so_and_how_to_move_the_log_after_which_appends_are_fast_again(
    tmp_path: Path,
) -> None:
    """Its loop stands still for the first sync, since the disk was fast before: no `suspect` for that."""
    disk = BadDisk(tmp_path)
    with Harmed(tmp_path, disk.before) as nodes, under_load(nodes, lag=1.2, suspect=4.0) as programs:
        nodes.moved(is_master=True)
        disk.slow_down()

        def told() -> list[str]:
            risks = ask_node(nodes.place(BAD), name=NAME, ask="status").get("risks", [])
            return [advice for words, advice, _ in risks if words.startswith("the disk of c, the master, takes 1.")]

        until(told, PATIENCE_S, nodes.said)
        assert told()[0].startswith(f"rtmw log move {NAME}; ")
        until(lambda: moved(nodes, off=BAD), PATIENCE_S, nodes.said)
        until(lambda: is_out(nodes), PATIENCE_S, nodes.said)
        answers = go_on(programs, 300)
        assert answers["written"] > 0.9 * answers.total(), answers
        disk.speed_up()


@pytest.mark.parametrize(("call", "error"), sample([(n, e) for n in range(200, 800, 50) for e in (EIO, 0, ENOSPC)], 1))
# Proves G370.
def test_a_node_whose_call_of_the_system_fails_ends_or_goes_on_and_nothing_is_lost(
    call: int, error: int, tmp_path: Path
) -> None:
    """0: it is killed there. A node that has failed ends, and `rtmw node` starts it again."""
    with Harmed(tmp_path, killed_at_call(tmp_path, call, error)) as nodes, under_load(nodes) as programs:
        process = nodes.processes[BAD]
        until(lambda: process.poll() is not None or programs.answered > 4 * call, PATIENCE_S, nodes.said)
        nodes.kill(BAD)
        nodes.before_bad.clear()
        nodes.start(BAD)
