"""Which files are meant by a path; what is none is refused in words, and never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rtmw.errors import RecordingError
from rtmw.recording import Recording
from rtmw.recording.files import find_recording, find_recordings, recovered_of
from rtmw.recording.tools.check import check
from rtmw.recording.tools.recover import recover
from rtmw.spark.options import recordings_of
from tests.recordings import numbered


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two recordings, and something else."""
    (tmp_path / "notes.txt").write_text("notes")
    return numbered(tmp_path / "b.mcap", ["t"], 1).parent


def test_a_folder_stands_for_its_recordings_and_each_is_meant_once(folder: Path) -> None:
    one, two = numbered(folder / "a.mcap", ["t"], 1), folder / "b.mcap"
    assert find_recordings(folder) == [one, two]
    assert find_recordings([two, folder, folder / "?.mcap"]) == [two, one]
    assert find_recordings(folder / "notes.txt") == [folder / "notes.txt"]


def test_a_folder_stands_for_what_lies_deeper_too(folder: Path) -> None:
    (folder / "sub" / "deeper").mkdir(parents=True)
    deep = [numbered(folder / name, ["t"], 1) for name in ("sub/a.mcap", "sub/deeper/c.mcap")]
    assert find_recordings(folder) == [folder / "b.mcap", *deep]
    assert find_recordings(folder / "**" / "?.mcap") == [folder / "b.mcap", *deep]
    assert find_recordings(folder / "s*") == deep
    assert recordings_of([str(folder)]) == find_recordings(folder)


def test_a_file_with_several_names_is_meant_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "b.mcap"
    (folder / "link.mcap").symlink_to(file)
    os.link(file, folder / "other.mcap")
    assert find_recordings(folder) == [file]
    assert find_recordings([folder / "link.mcap", file, folder]) == [folder / "link.mcap"]
    monkeypatch.chdir(folder)
    assert find_recordings(["b.mcap", "./b.mcap", file]) == [Path("b.mcap")]
    assert recordings_of(["b.mcap", str(file), f"file://{file}"]) == [file]


def test_a_link_to_nothing_is_named_and_does_not_hide_the_others(folder: Path) -> None:
    (folder / "gone.mcap").symlink_to(folder / "nowhere")
    assert find_recordings(folder) == [folder / "b.mcap", folder / "gone.mcap"]
    assert check(folder / "gone.mcap").problems == [f"{folder / 'gone.mcap'} is a link to a file that is not there"]


def test_files_of_a_folder_come_by_their_numbers(tmp_path: Path) -> None:
    paths = [numbered(tmp_path / f"run_{number}.mcap", ["t"], 1) for number in (0, 1, 2, 10, 11)]
    assert find_recordings(tmp_path) == paths
    assert find_recordings(tmp_path / "run_*") == paths


def test_a_recovered_recording_stands_for_the_damaged_one_in_its_folder(folder: Path) -> None:
    damaged = folder / "b.mcap"
    recovered = recover(damaged, recovered_of(damaged)).target
    assert find_recordings(folder) == find_recordings(folder / "*.mcap") == [recovered]
    assert find_recordings([damaged, recovered]) == [damaged, recovered]
    os.utime(damaged, ns=(0, recovered.stat().st_mtime_ns + 1))
    assert find_recordings(folder) == [damaged, recovered], "it was written after that"


def test_where_one_is_wanted_a_folder_with_one_will_do(folder: Path) -> None:
    assert find_recording(folder) == folder / "b.mcap"
    numbered(folder / "a.mcap", ["t"], 1)
    with pytest.raises(RecordingError, match=r"has 2 recordings: name one of them, such as .*a\.mcap"):
        find_recording(folder)


def test_a_folder_without_a_recording_says_what_it_has_instead(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no recording: no file whose name ends in \.mcap"):
        find_recordings(tmp_path)
    (tmp_path / "bag_0.mcap.zstd").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"bag_0\.mcap\.zstd is compressed as a whole; decompress it first"):
        find_recordings(tmp_path)


def test_a_bag_in_sqlite_is_told_how_to_be_converted(tmp_path: Path) -> None:
    bag = tmp_path / "bag_0.db3"
    bag.write_bytes(b"SQLite format 3\0")
    convert = "is a bag of ROS 2 in SQLite. Convert it: rtmw recording convert BAG -o NEW.mcap"
    with pytest.raises(FileNotFoundError, match=f"has no recording: bag_0.db3 {convert}"):
        find_recordings(tmp_path)
    with pytest.raises(RecordingError, match=convert):
        Recording(bag)


def test_a_folder_a_pipe_and_a_device_are_no_recordings(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path, "a folder"), (tmp_path / "pipe", "a pipe"), (Path("/dev/null"), "a pipe or device")):
        with pytest.raises(RecordingError, match=f"{path} is no recording: it is no file, but {what}"):
            Recording(path)


def test_a_folder_that_is_opened_as_a_recording_is_answered_with_what_reads_folders(tmp_path: Path) -> None:
    with pytest.raises(RecordingError) as error:
        Recording(tmp_path)
    for reader in (f'rtmw.Replay("{tmp_path}")', f'rtmw.spark.read("{tmp_path}")', f"`rtmw recording info {tmp_path}`"):
        assert reader in str(error.value)
