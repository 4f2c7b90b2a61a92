"""A control store in a file that is damaged, locked, of somebody else, or not to be had: answers, and what to do."""

from __future__ import annotations

import asyncio
import errno
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from rtmw.disk import Disk
from rtmw.replica.control import sqlite
from rtmw.replica.control.sqlite import SqliteStore
from rtmw.replica.control.store import Outcome, Value
from tests.control.writer import LOG

TURNED = 60
FAILS = 2.0
"""Seconds for a request that is to fail."""


def run(path: Path, play: Callable[[SqliteStore], Awaitable[None]], timeout: float = 10.0) -> None:
    async def opened() -> None:
        store = SqliteStore(path, timeout)
        try:
            await play(store)
        finally:
            store.close()

    asyncio.run(opened())


def filled(path: Path) -> Value:
    """With one value, which stands in the file and in no log beside it."""
    value = Value(1, b"the state of the log", {0: b"x" * 5000, 5000: b"y" * 100})

    async def play(store: SqliteStore) -> None:
        assert (await store.change(LOG, 0, value.state, value.slices)).outcome is Outcome.APPLIED

    run(path, play)
    return value


async def gives_no_answer(store: SqliteStore, words: str) -> None:
    assert await store.read(LOG, slices=True) is None
    assert words in store.fault, store.fault
    assert str(store.where) in store.fault
    assert (await store.change(LOG, 1, b"another", {})).outcome is Outcome.UNKNOWN
    assert words in store.fault, store.fault


def test_a_file_that_is_no_database_is_an_answer_that_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    path.write_bytes(b"not what it should be" * 100)
    run(path, lambda store: gives_no_answer(store, "restore the file from a copy"))
    assert path.read_bytes() == b"not what it should be" * 100


def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE value (theirs TEXT)")
        other.commit()
    run(path, lambda store: gives_no_answer(store, "name another file as [control] store"))
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("value",)]


def test_a_folder_that_is_missing_is_named_and_once_it_is_there_the_store_works(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "control.db"

    async def play(store: SqliteStore) -> None:
        await gives_no_answer(store, "its folder has to be there")
        path.parent.mkdir()
        assert await store.read(LOG) == Value()
        assert store.fault == ""

    run(path, play)


def test_a_place_that_cannot_be_written_is_an_answer(tmp_path: Path) -> None:
    """A folder in the place of the file, since root may write everywhere."""
    (tmp_path / "control.db").mkdir()
    run(tmp_path / "control.db", lambda store: gives_no_answer(store, "must be able to write to both"))


def test_a_file_that_another_process_has_locked_is_an_answer_and_the_change_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    value = filled(path)

    async def play(store: SqliteStore) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert (await store.change(LOG, 1, b"another", {})).outcome is Outcome.UNKNOWN
            assert f"fuser {path}" in store.fault
            assert await store.read(LOG, slices=True) == value  # readers are not locked out
        assert await store.read(LOG, slices=True) == value
        assert (await store.change(LOG, 1, b"another", {})).outcome is Outcome.APPLIED

    run(path, play, FAILS)


class Looking(Disk):
    """At each sync it looks whether others may change the file meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path, self.may_change = path, list[bool]()

    def sync_data(self, descriptor: int) -> None:
        with closing(sqlite3.connect(self._path, timeout=0, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                self.may_change.append(False)
            else:
                self.may_change.append(True)
        super().sync_data(descriptor)


# Proves G344.
def test_a_change_is_synced_and_locks_nobody_out_while_the_disk_is_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "control.db"
    filled(path)
    disk = Looking(path)
    monkeypatch.setattr(sqlite, "DISK", disk)

    async def play(store: SqliteStore) -> None:
        for version in (1, 2):
            assert (await store.change(LOG, version, b"more", {0: None, 5000: b"z"})).outcome is Outcome.APPLIED
        assert disk.may_change == [True, True]

    run(path, play)


# Proves G344.
def test_what_another_process_has_changed_is_synced_before_it_is_shown_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "control.db"
    filled(path)
    disk = Looking(path)
    monkeypatch.setattr(sqlite, "DISK", disk)

    async def play(store: SqliteStore) -> None:
        for _ in range(3):
            assert await store.read(LOG)
        assert len(disk.may_change) == 1

    run(path, play)


HOLDER = """
import os, signal, sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_what_a_sync_that_failed_was_to_write_is_written_once_more_before_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells of a write that failed once: the next sync says that all is well."""

    class FailsOnce(Disk):
        fails = 1

        def sync_data(self, descriptor: int) -> None:
            if self.fails:
                self.fails -= 1
                raise OSError(errno.EIO, "the disk is away")
            super().sync_data(descriptor)

    async def play(store: SqliteStore) -> None:
        assert (await store.change(LOG, 0, b"one", {})).outcome is Outcome.APPLIED
        with closing(sqlite3.connect(path)) as another:  # its close is not the last one, which would write all
            another.execute("SELECT count(*) FROM value").fetchone()
            monkeypatch.setattr(sqlite, "DISK", FailsOnce())
            assert (await store.change(LOG, 1, b"two", {})).outcome is Outcome.UNKNOWN
            shown = await store.read(LOG)
            shutil.copy(path, rest)  # as after a power cut: what was never written to the file of changes is gone
        assert shown is not None
        assert shown.state == b"two"

    path, rest = tmp_path / "control.db", tmp_path / "rest.db"
    run(path, play)
    with closing(sqlite3.connect(rest)) as found:
        assert found.execute("SELECT state FROM value").fetchall() == [(b"two",)]


# Proves G344.
def test_a_stopped_process_that_has_the_lock_keeps_changes_out_and_no_reads_until_it_goes_on_or_ends(
    tmp_path: Path,
) -> None:
    path = tmp_path / "control.db"
    value = filled(path)

    async def play(store: SqliteStore) -> None:
        with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE) as holder:
            try:
                assert holder.stdout is not None
                holder.stdout.readline()
                assert (await store.change(LOG, 1, b"another", {})).outcome is Outcome.UNKNOWN
                assert f"fuser {path}" in store.fault
                assert await store.read(LOG, slices=True) == value
            finally:
                holder.kill()
        assert (await store.change(LOG, 1, b"another", {})).outcome is Outcome.APPLIED

    run(path, play, FAILS)


# Proves G342.
def test_a_change_that_came_too_late_for_its_caller_is_shown_by_the_next_read(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    filled(path)

    async def play(store: SqliteStore) -> None:
        assert await store.read(LOG)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            store.timeout = 0.5  # the caller goes, and its thread still waits for the lock, for 8 s at most
            assert (await store.change(LOG, 1, b"late", {})).outcome is Outcome.UNKNOWN
            store.timeout = 10.0
        assert await store.read(LOG) == (2, b"late", {})

    run(path, play)


def test_a_file_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    path, copy = tmp_path / "control.db", tmp_path / "copy.db"
    filled(path)
    filled(copy)

    async def play(store: SqliteStore) -> None:
        assert (await store.change(LOG, 1, b"two", {})).version == 2
        copy.rename(path)
        for left in ("-wal", "-shm"):
            path.with_name(path.name + left).unlink(missing_ok=True)
        found = await store.read(LOG)
        assert found is not None, store.fault
        assert found.version == 1

    run(path, play)


@pytest.mark.parametrize("seed", range(3))
# Proves G343.
def test_a_byte_that_rots_is_an_answer_or_harmless_and_never_another_value(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "control.db"
    value, chosen = filled(path), random.Random(seed)
    sound = path.read_bytes()

    async def play(store: SqliteStore) -> None:
        found = await store.read(LOG, slices=True)
        assert found in (value, None)

    for _ in range(TURNED):
        turned = bytearray(sound)
        turned[chosen.randrange(len(turned))] ^= 1 << chosen.randrange(8)
        path.write_bytes(turned)
        for left in ("-wal", "-shm"):
            path.with_name(path.name + left).unlink(missing_ok=True)
        run(path, play)
