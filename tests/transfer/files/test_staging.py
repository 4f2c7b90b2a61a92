"""FILE and COMPOSITE (T4): killed at any system call, all files are visible and whole, or none is; nothing is left."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from rtmw import disk
from rtmw.disk import Disk
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.files import Folder, StagedFiles
from tests.disks import Counting, Killed, full

FILE = {"in/run,1.mcap": b"a file of some bytes"}
COMPOSITE = {"a.bin": b"first", "b/c/d.bin": b"second", "b/empty": b""}
CONTENTS = {"file": (FILE, False), "composite": (COMPOSITE, True)}


def arrive(folder: Path, what: str, disk: Disk, name: str = "n.1.1") -> tuple[Path, ...]:
    """A whole transfer, from its first byte on."""
    files, is_composite = CONTENTS[what]
    with Folder(folder, disk) as inbox, StagedFiles(inbox, name, list(files), is_composite=is_composite) as staged:
        for index, data in enumerate(files.values()):
            staged.write(index, 0, data[:3])
            staged.write(index, 3, data[3:])
        staged.sync()
        assert staged.make_visible()
        return staged.paths()


def finish(folder: Path, what: str, name: str = "n.1.1") -> bool:
    """After a crash behind which the log says that all is whole."""
    files, is_composite = CONTENTS[what]
    with Folder(folder) as inbox, StagedFiles(inbox, name, list(files), is_composite=is_composite) as staged:
        return staged.make_visible()


def visible(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and ".rtmw" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def expected(what: str, name: str = "n.1.1") -> dict[str, bytes]:
    files, is_composite = CONTENTS[what]
    return {f"{name}/{path}" if is_composite else path: data for path, data in files.items()}


@pytest.mark.parametrize("what", CONTENTS)
def test_t4_whole_files_are_where_their_destinations_say(what: str, tmp_path: Path) -> None:
    paths = arrive(tmp_path, what, Disk())
    assert visible(tmp_path) == expected(what)
    assert {str(path.relative_to(tmp_path)) for path in paths} == expected(what).keys()
    assert list((tmp_path / ".rtmw").iterdir()) == []


def calls(what: str, folder: Path) -> list[str]:
    """The system calls of a whole transfer."""
    disk = Counting()
    folder.mkdir()
    arrive(folder, what, disk)
    return [call for call, _ in disk.calls]


@pytest.mark.parametrize("what", CONTENTS)
# Proves G202, T4.
def test_t4_killed_at_each_call_all_is_visible_or_nothing_and_it_can_be_finished(what: str, tmp_path: Path) -> None:
    whole = calls(what, tmp_path / "whole")
    rename = whole.index("rename")
    for at in range(len(whole)):
        folder = tmp_path / str(at)
        folder.mkdir()
        with pytest.raises(Killed):
            arrive(folder, what, Counting(at))
        assert visible(folder) == (expected(what) if at > rename else {})
        if at < rename:
            arrive(folder, what, Disk())
        else:  # the log says that all is whole
            assert finish(folder, what) == (at == rename)
        assert visible(folder) == expected(what)
        with Folder(folder) as inbox:
            assert inbox.sweep(set()) == 0


@pytest.mark.parametrize("what", CONTENTS)
def test_before_the_rename_each_file_and_each_name_is_durable(what: str, tmp_path: Path) -> None:
    disk = Counting()
    arrive(tmp_path, what, disk)
    at = [call for call, _ in disk.calls].index("rename")
    before, after = disk.calls[:at], disk.calls[at + 1 :]
    written = {about for call, about in before if call == "write"}
    for path in written:
        last = max(number for number, call in enumerate(before) if call == ("write", path))
        assert ("sync", path) in before[last:]
    staging = tmp_path / ".rtmw"
    folders = {str(Path(path).parent) for path in written} | {str(staging)}
    assert folders <= {about for call, about in before if call == "sync"}
    parents = {str(tmp_path)} if what == "composite" else {str(tmp_path / "in")}
    assert parents | {str(staging)} <= {about for call, about in after if call == "sync"}


@pytest.mark.parametrize("what", CONTENTS)
def test_on_a_full_disk_nothing_is_visible_and_it_goes_on_when_there_is_room(what: str, tmp_path: Path) -> None:
    for at in range(len(calls(what, tmp_path / "whole"))):
        folder = tmp_path / str(at)
        folder.mkdir()
        with pytest.raises(OSError, match="No space"):
            arrive(folder, what, Counting(at, full()))
        assert visible(folder) in ({}, expected(what))
        if not visible(folder):
            arrive(folder, what, Disk())
        assert visible(folder) == expected(what)


@pytest.mark.parametrize("what", CONTENTS)
def test_what_is_given_up_leaves_nothing_behind(what: str, tmp_path: Path) -> None:
    files, is_composite = CONTENTS[what]
    with Folder(tmp_path) as inbox, StagedFiles(inbox, "n.1.1", list(files), is_composite=is_composite) as staged:
        for index, data in enumerate(files.values()):
            staged.write(index, 0, data)
        staged.discard()
    assert visible(tmp_path) == {}
    assert list((tmp_path / ".rtmw").iterdir()) == []


def test_what_a_crash_has_left_is_swept_and_what_is_needed_stays(tmp_path: Path) -> None:
    for what, name in (("file", "a.1.1"), ("composite", "a.1.2"), ("file", "a.1.3")):
        files, is_composite = CONTENTS[what]
        with Folder(tmp_path) as inbox, StagedFiles(inbox, name, list(files), is_composite=is_composite) as staged:
            staged.write(0, 0, b"some")
    with Folder(tmp_path) as inbox:
        assert inbox.sweep({"a.1.3"}) == 2
    assert [path.name for path in (tmp_path / ".rtmw").iterdir()] == ["a.1.3.part"]


# Proves G206.
def test_t4_of_two_senders_to_one_destination_the_second_is_refused_and_the_file_of_the_first_stays(
    tmp_path: Path,
) -> None:
    with (
        Folder(tmp_path) as inbox,
        StagedFiles(inbox, "a.1.1", ["x"], is_composite=False) as one,
        StagedFiles(inbox, "b.1.1", ["x"], is_composite=False) as other,
    ):
        for position, (first, second) in enumerate(zip(b"first file", b"other file", strict=True)):
            one.write(0, position, bytes([first]))
            other.write(0, position, bytes([second]))
        assert one.make_visible()
        assert visible(tmp_path) == {"x": b"first file"}
        with pytest.raises(TransferRefused, match=r"'x' is in .* already, with other bytes, and is not replaced"):
            other.make_visible()
        other.discard()
    assert visible(tmp_path) == {"x": b"first file"}
    assert list((tmp_path / ".rtmw").iterdir()) == []


def test_without_a_call_for_it_a_file_that_is_there_is_not_replaced_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_renamed_new", lambda *_: False)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "run,1.mcap").write_bytes(b"there before")
    with pytest.raises(TransferRefused, match="is not replaced"):
        arrive(tmp_path, "file", Disk())
    assert visible(tmp_path) == {"in/run,1.mcap": b"there before"}
    (tmp_path / "in" / "run,1.mcap").unlink()
    assert finish(tmp_path, "file")
    assert not finish(tmp_path, "file")
    assert visible(tmp_path) == expected("file")


def test_the_same_bytes_may_come_to_a_destination_again(tmp_path: Path) -> None:
    for name in ("a.1.1", "b.1.1"):
        arrive(tmp_path, "file", Disk(), name)
    assert visible(tmp_path) == expected("file")


@pytest.mark.parametrize(("there", "size"), [(b"longer than that", 4), (None, 0)])
def test_what_cannot_be_put_at_its_destination_is_refused_before_any_byte_comes(
    there: bytes | None, size: int, tmp_path: Path
) -> None:
    if there is None:
        (tmp_path / "x").mkdir()
    else:
        (tmp_path / "x").write_bytes(there)
    with Folder(tmp_path) as inbox, StagedFiles(inbox, "a.1.1", ["x"], is_composite=False) as staged:
        with pytest.raises(TransferRefused, match="is not replaced"):
            staged.check_free(size)
        if there is not None:
            staged.check_free(len(there))
    with Folder(tmp_path) as inbox, StagedFiles(inbox, "a.1.2", ["new/y"], is_composite=False) as staged:
        staged.check_free(size)


def test_a_folder_in_the_place_of_a_destination_is_refused_and_stays(tmp_path: Path) -> None:
    (tmp_path / "in" / "run,1.mcap" / "more").mkdir(parents=True)
    with pytest.raises(TransferRefused, match="choose another destination"):
        arrive(tmp_path, "file", Disk())
    assert (tmp_path / "in" / "run,1.mcap" / "more").is_dir()


def test_a_symbolic_link_in_the_place_of_a_destination_is_refused_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"kept")
    inbox = tmp_path / "inbox"
    (inbox / "in").mkdir(parents=True)
    (inbox / "in" / "run,1.mcap").symlink_to("../../secret")
    with pytest.raises(TransferRefused, match="is not replaced"):
        arrive(inbox, "file", Disk())
    assert (tmp_path / "secret").read_bytes() == b"kept"
    assert (inbox / "in" / "run,1.mcap").is_symlink()


def test_a_staging_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / ".rtmw").symlink_to("..")
    with pytest.raises(TransferRefused, match="symbolic link"):
        arrive(tmp_path / "inbox", "file", Disk())
    assert sorted(os.listdir(tmp_path)) == ["inbox"]


@pytest.mark.parametrize("destinations", [["a", "a"], ["a", "a/b"], ["x/a/b", "x/a"]])
def test_two_parts_of_one_destination_are_refused(destinations: list[str], tmp_path: Path) -> None:
    with Folder(tmp_path) as inbox, pytest.raises(TransferRefused, match="two parts"):
        StagedFiles(inbox, "n", destinations, is_composite=True)


def test_an_arrival_that_goes_on_is_cut_to_what_was_durable(tmp_path: Path) -> None:
    with Folder(tmp_path) as inbox:
        with StagedFiles(inbox, "n", ["x"], is_composite=False) as staged:
            staged.write(0, 0, b"durable, and not")
        with StagedFiles(inbox, "n", ["x"], is_composite=False) as staged:
            assert staged.read(0, 0, 7) == b"durable"
            staged.cut(0, 7)
            staged.write(0, 7, b" again")
            assert staged.make_visible()
    assert visible(tmp_path) == {"x": b"durable again"}


def test_a_folder_that_cannot_be_opened_now_is_not_refused_for_ever(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(tmp_path, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            Folder(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    for path, why in ((tmp_path / "none", "No such file"), (Path(__file__), "Not a directory")):
        with pytest.raises(TransferRefused, match=why):
            Folder(path)


def test_what_is_large_is_written_bit_by_bit_and_is_whole(tmp_path: Path) -> None:
    disk, data = Counting(), os.urandom((1 << 20) + 1)
    with Folder(tmp_path, disk) as inbox, StagedFiles(inbox, "n.1.1", ["run"], is_composite=False) as staged:
        staged.write(0, 0, b"head")
        disk.calls.clear()
        staged.write(0, 4, data)
        assert [what for what, _ in disk.calls] == ["write"] * 5
        staged.make_visible()
    assert (tmp_path / "run").read_bytes() == b"head" + data


def test_files_whose_close_fails_are_not_closed_again(tmp_path: Path) -> None:
    with Folder(tmp_path) as inbox:
        staged = StagedFiles(inbox, "n.1.1", ["a"], is_composite=False)
        staged.write(0, 0, b"x")
        (written,) = staged.written()
        os.close(written)  # as a close that fails leaves it: closed
        with pytest.raises(OSError, match="Bad file descriptor"):
            staged.close()
        with (tmp_path / "other").open("wb") as other:
            staged.close()
            other.write(b"the number may be its own now")
