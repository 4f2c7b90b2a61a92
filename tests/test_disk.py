"""Files are written whole, and durably, whatever call of the disk fails or is the last one of the process."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from rtmw.disk import DISK, Disk
from tests.disks import Counting, Forgetful, Killed, Short, full

OLD, NEW = b"what was there before", b"what is to be there" * 1000
Written = Callable[[Disk, Path], None]


def replaced(disk: Disk, folder: Path) -> None:
    disk.replace(folder / "file", NEW, 0o600)


def new(disk: Disk, folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        disk.write_new("file", descriptor, NEW)
    finally:
        os.close(descriptor)


def before(folder: Path, write: Written) -> None:
    for path in folder.iterdir():
        path.unlink()
    if write is replaced:
        (folder / "file").write_bytes(OLD)


def content(folder: Path) -> bytes | None:
    path = folder / "file"
    return path.read_bytes() if path.exists() else None


def calls(folder: Path, write: Written) -> int:
    disk = Counting()
    before(folder, write)
    write(disk, folder)
    return len(disk.calls)


WAYS = pytest.mark.parametrize("write", [replaced, new])


@WAYS
@pytest.mark.parametrize("most", [1, 7, 1 << 20])
def test_a_disk_that_writes_short_gets_all_of_it(write: Written, most: int, tmp_path: Path) -> None:
    before(tmp_path, write)
    write(Short(most), tmp_path)
    assert content(tmp_path) == NEW


@pytest.mark.parametrize("most", [1, 5, 1 << 20])
def test_parts_are_written_one_behind_the_other_however_short_the_writes_are(most: int, tmp_path: Path) -> None:
    parts = [b"", b"0", memoryview(b"1234567"), b"", b"89", *(b"%d" % (number % 10) for number in range(3000))]
    with (tmp_path / "file").open("wb") as file:
        (DISK if most > 100 else Short(most)).write_all(file.fileno(), parts, 5)
    assert content(tmp_path) == bytes(5) + b"".join(parts)


@WAYS
# Proves G151.
def test_a_disk_that_is_full_at_any_call_leaves_what_was_there_and_nothing_else(write: Written, tmp_path: Path) -> None:
    last = calls(tmp_path, write) - 1
    for call in range(last + 1):
        before(tmp_path, write)
        found = {path.name for path in tmp_path.iterdir()}
        with pytest.raises(OSError, match="No space"):
            write(Counting(call, full()), tmp_path)
        if write is replaced and call == last:
            assert content(tmp_path) == NEW, "its name is there, and may not be durable: that is told"
        else:
            assert {path.name for path in tmp_path.iterdir()} == found
            assert content(tmp_path) == (OLD if write is replaced else None)


@pytest.mark.parametrize(("lost_content", "lost_names"), [*product([False, True], repeat=2)])
# Proves G151.
def test_a_power_cut_at_any_call_leaves_the_old_content_or_the_new_one(
    lost_content: bool, lost_names: bool, tmp_path: Path
) -> None:
    for call in range(calls(tmp_path, replaced)):
        before(tmp_path, replaced)
        disk = Forgetful(tmp_path, call)
        with pytest.raises(Killed):
            replaced(disk, tmp_path)
        disk.cut_power(content=lost_content, names=lost_names)
        assert content(tmp_path) in (OLD, NEW), f"at call {call}"
        replaced(DISK, tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]
        assert content(tmp_path) == NEW


@WAYS
def test_what_is_written_is_there_after_a_power_cut(write: Written, tmp_path: Path) -> None:
    before(tmp_path, write)
    disk = Forgetful(tmp_path)
    write(disk, tmp_path)
    disk.cut_power(content=True, names=True)
    assert content(tmp_path) == NEW


@WAYS
@pytest.mark.parametrize("deaf", ["file", "folder"])
def test_the_power_cut_sees_a_sync_that_is_missing(write: Written, deaf: str, tmp_path: Path) -> None:
    before(tmp_path, write)
    disk = Forgetful(tmp_path, deaf=deaf)
    write(disk, tmp_path)
    disk.cut_power(content=True, names=True)
    assert content(tmp_path) != NEW


def test_a_file_that_is_there_is_not_new(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(OLD)
    with pytest.raises(FileExistsError):
        new(DISK, tmp_path)
    assert content(tmp_path) == OLD


def test_a_replaced_file_has_the_mode_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(OLD)
    replaced(DISK, tmp_path)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_the_name_of_each_folder_that_is_made_is_synced_in_the_one_above_it(tmp_path: Path) -> None:
    disk = Counting()
    disk.make_folders(tmp_path / "a" / "b")
    assert disk.calls == [
        ("make_folder", str(tmp_path / "a")),
        ("sync", str(tmp_path)),
        ("make_folder", str(tmp_path / "a" / "b")),
        ("sync", str(tmp_path / "a")),
    ]
    disk.make_folders(tmp_path / "a" / "b")
    assert len(disk.calls) == 4
