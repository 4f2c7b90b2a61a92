"""A replica that was left behind, or damaged, is made anew from the files of another one; killed, full, spoiled."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from rtmw.disk import DISK, Disk
from rtmw.errors import LogDamaged, LogError
from rtmw.log import STARTED, Folder, HeldCursor, look_into
from rtmw.log import _log as core
from rtmw.log.copied import Copied, Copy, CopyFile, copy_files, make_room, set_aside, settle
from tests.disks import Counting, Killed, full
from tests.log.replica import BASE, SEGMENT, UUID, automatic, make_replica, writer_of

PART = 50_000
STEP = 32 + 32 + 8000
"""Bytes of a record with its head and labels."""


def master(path: Path, base: int = BASE) -> Folder:
    """A replica with three sealed segments, two epochs, ids, and a cursor; all of it is final."""
    folder = make_replica(path, base)
    with writer_of(folder) as writer:
        end = base
        for sequence in range(30):
            writer.set_epoch(1 + sequence // 10)
            _, end = writer.append(bytes([sequence]) * 8000, automatic(sequence), STARTED, None)
        writer.wait(end, None)
        writer.commit(end)
    with HeldCursor(folder, "reader") as cursor:
        cursor.begin(base)
    return folder


def bring(source: Folder, copy: Copy) -> None:
    """What is not there yet, in parts."""
    for file in copy.copied.files:
        with open(Path(source.path) / file.name, "rb") as there:
            while (at := copy.has(file)) < file.size:
                there.seek(at)
                copy.write(file, at, there.read(min(PART, file.size - at)))


def copy_to(path: Path, source: Folder, disk: Disk = DISK) -> Copied:
    copied = copy_files(source, source.bounds()[1])
    copy = Copy(path, copied, disk)
    bring(source, copy)
    copy.finish(UUID, source.description, SEGMENT)
    return copied


def raw(folder: Folder, start: int, end: int) -> bytes:
    found = bytearray()
    reader = folder.reader(start, begins=True)
    while (part := reader.raw(end, 1 << 20)) is not None:
        found += part
    reader.close()
    return bytes(found)


def test_a_copy_of_sealed_segments_opens_and_takes_what_follows(tmp_path: Path) -> None:
    with master(tmp_path / "a") as source:
        end = source.bounds()[1]
        copied = copy_to(tmp_path / "b", source)
        assert BASE == copied.start < copied.end < end
        with look_into(tmp_path / "b") as folder:
            assert folder.bounds() == (BASE, BASE), "nothing is shown before a master says that it is final"
            with writer_of(folder) as writer:
                assert writer.next == writer.durable == copied.end
                assert writer.find_id(automatic(1))[0] == (BASE + STEP, BASE + 2 * STEP, 1)
                assert writer.find_id(automatic(0))[1] == BASE, "all ids are known"
                assert writer.append_raw(raw(source, copied.end, end), 3, None) == end
                writer.wait(end, None)
                writer.commit(end)
            assert raw(folder, BASE, end) == raw(source, BASE, end)
            assert folder.epochs(end) == source.epochs(end)
            assert folder.cursor("reader") == source.cursor("reader")


def test_a_copy_of_a_trimmed_log_keeps_the_ids_of_what_was_trimmed(tmp_path: Path) -> None:
    with master(tmp_path / "a", 0) as source:
        with writer_of(source) as writer:
            start = writer.trim(70_000)
        assert start > 0
        copy_to(tmp_path / "b", source)
        with look_into(tmp_path / "b") as folder, writer_of(folder) as writer:
            assert folder.bounds()[0] == start
            entry, floor = writer.find_id(automatic(1))
            assert entry is not None
            assert floor == 0


def test_where_nothing_is_sealed_a_copy_is_an_empty_log_that_begins_where_the_other_does(tmp_path: Path) -> None:
    with make_replica(tmp_path / "a", BASE) as source:
        assert copy_to(tmp_path / "b", source) == Copied(BASE, BASE, ())
        with look_into(tmp_path / "b") as folder, writer_of(folder) as writer:
            assert writer.next == BASE


def test_only_what_is_final_is_copied(tmp_path: Path) -> None:
    with master(tmp_path / "a") as source:
        all = copy_files(source, source.bounds()[1])
        assert copy_files(source, all.end - 8).end < all.end
        assert copy_files(source, 0)[:2] == (BASE, BASE)


# Proves G350.
def test_a_copy_that_is_spoiled_is_no_log_and_the_next_try_begins_anew(tmp_path: Path) -> None:
    with master(tmp_path / "a") as source:
        copied = copy_files(source, source.bounds()[1])
        copy = Copy(tmp_path / "b", copied)
        bring(source, copy)
        with open(tmp_path / ".b.copy" / copied.files[1].name, "r+b") as file:
            file.seek(core.SEGMENT_DATA + 5000)
            file.write(b"\xff")
        with pytest.raises(LogDamaged, match="no valid record is there in the copied segment"):
            copy.finish(UUID, source.description, SEGMENT)
        assert not (tmp_path / "b").exists()
        assert not (tmp_path / ".b.copy").exists()
        copy_to(tmp_path / "b", source)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_copy_without_one_of_its_segments_is_no_log(tmp_path: Path, missing: int) -> None:
    with master(tmp_path / "a") as source:
        copied = copy_files(source, source.bounds()[1])
        segments = [file for file in copied.files if file.name.endswith(".seg")]
        copy = Copy(tmp_path / "b", copied._replace(files=tuple(one for one in segments if one != segments[missing])))
        bring(source, copy)
        with pytest.raises(LogDamaged):
            copy.finish(UUID, source.description, SEGMENT)


@pytest.mark.parametrize("name", ["../x.seg", "log", "start", "truncated", "end", "00000000000000000800.seg/x"])
def test_a_list_with_other_files_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LogError, match="list of files is none"):
        Copy(tmp_path / "b", Copied(0, 0, (CopyFile(name, 1, 1),)))


def test_a_log_begins_only_where_a_record_may_lie(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no log can begin there"):
        make_replica(tmp_path / "b", 801)


def test_a_copy_that_was_broken_off_goes_on_where_it_was(tmp_path: Path) -> None:
    with master(tmp_path / "a") as source:
        copied = copy_files(source, source.bounds()[1])
        first, second = copied.files[:2]
        whole = (Path(source.path) / first.name).read_bytes()
        copy = Copy(tmp_path / "b", copied)
        copy.write(first, 0, whole[: first.size])
        copy.write(second, 0, b"x" * 100)
        again = Copy(tmp_path / "b", copied)
        assert (again.has(first), again.has(second)) == (first.size, 100)


# Proves G350.
def test_killed_at_any_call_leaves_the_old_log_or_none_or_the_copy(tmp_path: Path) -> None:
    with master(tmp_path / "a") as source, make_replica(tmp_path / "old") as old:
        end, at = source.bounds()[1], 0
        while True:
            path = tmp_path / "logs" / "b"
            shutil.copytree(old.path, path)
            disk = Counting(at)
            try:
                set_aside(path, disk)
                copy_to(path, source, disk)
                break
            except Killed:
                at += 1
            settle(path)
            if path.exists():
                with look_into(path) as folder, writer_of(folder) as writer:
                    assert writer.next in (0, copy_files(source, end).end)
            set_aside(path)
            copied = copy_to(path, source)
            with look_into(path) as folder, writer_of(folder) as writer:
                assert writer.next == copied.end
            assert os.listdir(path.parent) == ["b"], "nothing is left beside it"
            shutil.rmtree(path.parent)
        assert at > 20


# Proves G358.
def test_what_was_set_aside_stays_until_a_copy_is_in_place_or_the_log_has_records(tmp_path: Path) -> None:
    path, aside = tmp_path / "b", tmp_path / ".b.aside"
    with master(tmp_path / "a") as source:
        for completed in ("copied", "shipped"):
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(source.path, path)
            set_aside(path)
            make_replica(path, 0).close()
            settle(path)
            assert aside.exists(), "it was killed while a copy came"
            if completed == "copied":
                copy_to(path, source)
            else:
                with look_into(path) as folder, writer_of(folder) as writer:
                    writer.set_epoch(1)
                    _, end = writer.append(b"one", automatic(1), STARTED, None)
                    writer.wait(end, None)
                    writer.commit(end)
                settle(path)
            assert not aside.exists()


# Proves G358.
def test_a_copy_that_cannot_be_put_in_place_does_not_replace_what_the_log_has_later(tmp_path: Path) -> None:
    class Failing(Disk):
        def rename(self, old: str, old_folder: int | None, new: str, new_folder: int | None) -> None:
            raise OSError(errno.EIO, "Input/output error")

    with master(tmp_path / "a") as source:
        with pytest.raises(OSError, match="Input/output error"):
            copy_to(tmp_path / "b", source, Failing())
        make_replica(tmp_path / "b", 0).close()
        settle(tmp_path / "b")
        with look_into(tmp_path / "b") as folder, writer_of(folder) as writer:
            assert writer.next == 0


def test_where_the_disk_is_full_a_copy_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with master(tmp_path / "a") as source, make_replica(tmp_path / "b") as old:
        path, at = Path(old.path), 0
        set_aside(path)
        while True:
            disk = Counting(at, full())
            try:
                copied = copy_to(path, source, disk)
                break
            except OSError:
                at += 3
        with look_into(path) as folder, writer_of(folder) as writer:
            assert writer.next == copied.end
            assert at > 15


def test_what_was_set_aside_goes_where_the_disk_is_full(tmp_path: Path) -> None:
    with master(tmp_path / "a") as source, make_replica(tmp_path / "b"):
        set_aside(tmp_path / "b")
        copy_to(tmp_path / "c", source)
        assert make_room(tmp_path / "b")
        assert not make_room(tmp_path / "b")


# Proves G351.
def test_a_reader_waits_while_what_it_has_not_read_is_truncated_and_comes_again(tmp_path: Path) -> None:
    with master(tmp_path / "a") as source:
        end = source.bounds()[1]
        all = raw(source, BASE, end)
        for to in (BASE + 3 * STEP, copy_files(source, end).end):  # in an early segment, and at a bound
            with source.hold():
                reader = source.reader(BASE, begins=True)
                met = reader.take(BASE + 2 * STEP, Taken, None, 1)
                late = source.reader(end - STEP, begins=True)
                source.truncate(to)
                assert source.bounds()[1] == to
                assert late.take(end, Taken, None, 1) == [], "no damage: it comes again"
                while met[-1].end < to:
                    met += reader.take(end, Taken, None, 1)
                assert reader.take(end, Taken, None, 1) == []
            with writer_of(source) as writer:
                assert writer.append_raw(all[to - BASE :], 3, None) == end
                writer.wait(end, None)
                writer.commit(end)
            while met[-1].end < end:
                met += reader.take(end, Taken, None, 1)
            assert len(met) == 30
            assert [one.position for one in late.take(end, Taken, None, 1)] == [end - STEP]


# Proves G351.
def test_a_reader_of_a_log_that_was_truncated_once_still_finds_damage(tmp_path: Path) -> None:
    with master(tmp_path / "a") as source:
        end = source.bounds()[1]
        all = raw(source, BASE, end)
        with source.hold():
            source.truncate(BASE + 3 * STEP)
        with writer_of(source) as writer:
            writer.append_raw(all[3 * STEP :], 3, None)
            writer.wait(end, None)
            writer.commit(end)
        with open(tmp_path / "a" / f"{BASE:020}.seg", "r+b") as file:
            file.seek(core.SEGMENT_DATA + 4 * STEP + 100)
            file.write(b"\xff" * 8)
        reader = source.reader(BASE + 4 * STEP, begins=True)
        with pytest.raises(LogDamaged):
            reader.take(end, Taken, None, 1)
        with pytest.raises(LogDamaged):
            source.reader(BASE + 4 * STEP, begins=True).raw(end, 1 << 20)


class Taken(core.Record):
    __slots__ = ()
