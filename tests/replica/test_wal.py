"""The log of a member does what the protocol expects of a `Wal`: beside that of simulated nodes, step by step."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from rtmw.errors import LogError, LogLocked
from rtmw.log import look_into, pack_labels
from rtmw.replica.requests import Batch, pack_batch, unpack_batch
from rtmw.replica.wal import LogWal, MarksFile
from rtmw.replica.words import Found, Kind, Marks
from rtmw.types import resolve
from tests.disks import Counting, Killed
from tests.replica.disk import Disk
from tests.replica.nodes import eventfds
from tests.whole import sample

UUID = b"replicas" * 2
BYTES = resolve(bytes).description


def new(path: Path) -> LogWal:
    return LogWal(path, UUID, BYTES)


def close(*wals: LogWal) -> None:
    for wal in wals:
        wal.close()
        wal.forget()


def id_of(number: int) -> bytes:
    return pack_labels(None, number) or b""


def packed(number: int, content: str) -> bytes:
    return pack_batch(id_of(number), [content.encode()] * (number % 3 + 1))


def batch(number: int, content: str) -> Batch:
    return unpack_batch(packed(number, content))


def retry(call: Callable[[], object]) -> None:
    for _ in range(1000):
        with suppress(TimeoutError):
            assert call()
            return
        time.sleep(0.01)
    pytest.fail("there is no room for ever")


class Twins:
    """A log and its model; a batch ends at the position of the same place in `ends` of each."""

    def __init__(self, path: Path) -> None:
        self.path, self.wal, self.disk = path, new(path), Disk(10_000)
        self.ends = [(0, 0)]
        self.epoch, self.number = 1, 0

    def append(self, chance: random.Random) -> None:
        self.epoch += chance.random() < 0.2
        self.number += 1
        kind = chance.choice([Kind.DATA, Kind.DATA, Kind.FENCE])
        data = packed(self.number, "x" * chance.randrange(200)) if kind is Kind.DATA else b""
        place = self.wal.append(self.epoch, id_of(self.number), kind, data and unpack_batch(data))
        modelled = self.disk.append(self.epoch, id_of(self.number), kind, data)
        assert place is not None
        assert modelled is not None
        assert place[0] == self.ends[-1][0]
        self.ends.append((place[1], modelled[1]))

    def cut(self, chance: random.Random) -> None:
        place = chance.randrange(len(self.ends))
        self.wal.truncate(self.ends[place][0])
        self.disk.truncate(self.ends[place][1])
        del self.ends[place + 1 :]

    def reopen(self, _: random.Random) -> None:
        close(self.wal)
        self.wal = new(self.path)
        self.disk.durable = self.disk.end

    def model_of(self, found: Found | None) -> Found | None:
        places = dict(self.ends)
        return found and found._replace(start=places[found.start], end=places[found.end])

    def compare(self, chance: random.Random) -> None:
        wal, disk, places = self.wal, self.disk, dict(self.ends)
        assert (places[wal.end], places[wal.earliest]) == (disk.end, disk.earliest)
        assert tuple((epoch, places[end]) for epoch, end in wal.epochs()) == disk.epochs()
        number = chance.randrange(self.number + 2)
        written = [one.data for one in disk.batches if one.id == id_of(number) and one.kind is Kind.DATA]
        for data in (packed(number, "another"), *written):
            found = wal.find(id_of(number), Kind.DATA, unpack_batch(data))
            assert self.model_of(found) == disk.find(id_of(number), Kind.DATA, data)
        wal.sync()
        wal._writer.wait(wal.end, None)
        start, end = sorted(chance.sample(self.ends, 2)) if len(self.ends) > 1 else (self.ends * 2)
        assert wal.whole(start[0], end[0] - start[0] + chance.randrange(8)) == end[0]
        if end > start:
            assert len(wal.raw(start[0], end[0], 1 << 20) or b"") == end[0] - start[0]


@pytest.mark.parametrize("seed", sample(range(200), 6))
# Proves G365.
def test_it_is_as_the_log_of_a_simulated_node(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    twins = Twins(tmp_path / "log")
    steps: list[Callable[[random.Random], None]] = [twins.append] * 12 + [twins.compare] * 4 + [twins.cut, twins.reopen]
    for _ in range(60):
        chance.choice(steps)(chance)
    twins.compare(chance)
    close(twins.wal)


# Proves S1.
def test_what_is_not_on_the_disk_yet_is_shipped_and_taken_as_it_is(tmp_path: Path) -> None:
    master, slave = new(tmp_path / "a"), new(tmp_path / "b")
    for number in range(20):
        master.append(1 + number // 10, id_of(number), Kind.DATA, batch(number, "content"))
        part = master.raw(slave.end, master.end, 1)
        assert part is not None
        assert slave.append_raw(part)
    assert (slave.end, slave.epochs()) == (master.end, master.epochs())
    assert slave.same(0, master.raw(0, master.end, 1 << 20) or b"") == master.end
    close(master, slave)


def test_a_batch_that_is_larger_than_a_segment_has_been_so_far_is_taken_once_there_is_room(tmp_path: Path) -> None:
    master, slave = new(tmp_path / "a"), new(tmp_path / "b")
    large = unpack_batch(pack_batch(id_of(1), [bytes(3 << 20)]))
    retry(lambda: master.append(1, id_of(1), Kind.DATA, large))
    part = master.raw(0, master.end, 1)
    assert part is not None
    retry(lambda: slave.append_raw(part))
    assert slave.end == master.end
    close(master, slave)


# Proves S8.
def test_batches_that_differ_are_found_and_those_before_them_are_not(tmp_path: Path) -> None:
    mine, theirs = new(tmp_path / "a"), new(tmp_path / "b")
    for number in range(3):
        mine.append(1, id_of(number), Kind.DATA, batch(number, "the same"))
    theirs.append_raw(mine.raw(0, mine.end, 1 << 20) or b"")
    begin = mine.end
    mine.append(1, id_of(4), Kind.DATA, batch(4, "mine"))
    theirs.append(2, id_of(4), Kind.DATA, batch(4, "theirs"))
    assert mine.same(0, theirs.raw(0, theirs.end, 1 << 20) or b"") == begin
    mine.truncate(begin)
    assert mine.same(0, theirs.raw(0, theirs.end, 1 << 20) or b"") == begin
    assert mine.append_raw(theirs.raw(begin, theirs.end, 1 << 20) or b"")
    assert mine.epochs() == theirs.epochs()
    close(mine, theirs)


def test_readers_of_the_folder_see_what_was_committed(tmp_path: Path) -> None:
    wal = new(tmp_path / "a")
    first = wal.append(1, id_of(1), Kind.DATA, batch(1, "first"))
    wal.append(1, id_of(2), Kind.DATA, batch(2, "second"))
    wal.sync()
    wal._writer.wait(wal.end, None)
    assert first is not None
    wal.commit(first[1])
    with look_into(tmp_path / "a") as folder:
        assert folder.bounds() == (0, first[1])
    close(wal)


def test_another_log_in_the_folder_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    close(new(tmp_path / "a"))
    with pytest.raises(LogError, match=r"a copy of another log.*move the folder away"):
        LogWal(tmp_path / "a", b"another " * 2, BYTES)
    with pytest.raises(LogError, match="a copy of another log"):
        LogWal(tmp_path / "a", UUID, resolve(str).description)


def test_a_log_that_cannot_be_opened_leaves_no_descriptor(tmp_path: Path) -> None:
    wal, before = new(tmp_path / "a"), eventfds()
    with pytest.raises(LogLocked):
        new(tmp_path / "a")
    assert eventfds() == before
    close(wal)


# ---- marks ----


def test_marks_are_as_they_were_kept_last(tmp_path: Path) -> None:
    path = tmp_path / "marks" / "a"
    for number in range(1, 5):
        marks = MarksFile(path)
        assert (marks.life, marks.marks.promise) == (number - 1, number - 1)
        marks.life, marks.others = number, frozenset({"b", "c"})
        marks.keep(Marks(number, 2, 3))
    assert MarksFile(path).marks == Marks(4, 2, 3)
    assert MarksFile(path).others == {"b", "c"}


@pytest.mark.parametrize("size", [0, 1, 8, 60])
def test_a_torn_write_leaves_the_marks_before_it(tmp_path: Path, size: int) -> None:
    path = tmp_path / "marks"
    marks = MarksFile(path)
    for number in range(1, 4):
        marks.keep(Marks(number))
    data = bytearray(path.read_bytes())
    at = 3 % 2 * MarksFile.ROOM + size
    data[at : at + 20] = os.urandom(20)
    path.write_bytes(data)
    assert MarksFile(path).marks == Marks(2)


# Proves G365.
def test_a_process_that_ends_in_a_write_leaves_one_of_both(tmp_path: Path) -> None:
    for call in range(2):
        path = tmp_path / str(call)
        MarksFile(path).keep(Marks(1))
        with pytest.raises(Killed):
            MarksFile(path, Counting(at=call)).keep(Marks(2))
        assert MarksFile(path).marks in (Marks(1), Marks(2))


def test_marks_of_which_neither_copy_is_whole_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    marks = MarksFile(path)
    for number in (1, 2):
        marks.keep(Marks(number))
    path.write_bytes(os.urandom(2 * MarksFile.ROOM))
    with pytest.raises(LogError, match=r"neither copy .* is whole.*rtmw log members"):
        MarksFile(path)
