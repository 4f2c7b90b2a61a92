"""Positions in recordings that grow."""

from __future__ import annotations

from pathlib import Path

import pytest

import rtmw
from rtmw.recording.tools.recover import recover
from rtmw.spark.stream import Budget, Follower, Position, from_json, to_json
from tests.spark.recorded import Recorder, record

ALL = Budget()


def read(follower: Follower, start: dict[str, Position], end: dict[str, Position]) -> list[tuple[str, int]]:
    """Which chunks a batch has: file and number."""
    return [(step.path.name, step.chunk.number) for step in follower.between(start, end)]


def chunk_count(path: Path) -> int:
    with rtmw.recording.Recording(path) as recording:
        return len(recording.chunks)


def test_a_position_is_the_same_after_it_was_text() -> None:
    positions = {"b_*": Position(3, 0), "a": Position(0, 17)}
    assert from_json(to_json(positions)) == positions
    assert [*to_json(positions)] == ["a", "b_*"]


def test_each_chunk_is_in_exactly_one_batch_however_the_file_grows(tmp_path: Path) -> None:
    recorder, follower = Recorder(tmp_path / "a_0.mcap"), Follower((str(tmp_path),))
    at: dict[str, Position] = {}
    seen: list[tuple[str, int]] = []
    for turn in range(5):
        recorder.write(turn * 30, turn * 30 + 30)
        then = follower.latest(at, ALL)
        assert then != at
        seen += read(follower, at, then)
        at = then
    recorder.writer.close()
    last = follower.latest(at, ALL)
    seen += read(follower, at, last)
    assert seen == [("a_0.mcap", number) for number in range(chunk_count(tmp_path / "a_0.mcap"))]


def test_without_anything_new_the_position_stays(tmp_path: Path) -> None:
    recorder, follower = Recorder(tmp_path / "a_0.mcap"), Follower((str(tmp_path),))
    recorder.write(0, 30)
    at = follower.latest({}, ALL)
    assert follower.latest(at, ALL) == at
    assert read(follower, at, at) == []


def test_files_of_a_series_follow_by_number_and_not_by_name(tmp_path: Path) -> None:
    for number in (9, 10, 11):
        record(tmp_path / f"a_{number}.mcap", number, number + 1)
    follower = Follower((str(tmp_path),))
    at = follower.latest({}, ALL)
    assert read(follower, {}, at) == [("a_9.mcap", 0), ("a_10.mcap", 0), ("a_11.mcap", 0)]
    assert at == {str(tmp_path / "a_*"): Position(12, 0)}


def test_two_recorders_in_one_folder_are_followed_each_by_itself(tmp_path: Path) -> None:
    first, second = Recorder(tmp_path / "a_0.mcap"), Recorder(tmp_path / "b_0.mcap")
    follower = Follower((str(tmp_path),))
    first.write(0, 30)
    at = follower.latest({}, ALL)
    second.write(0, 30)
    assert {name for name, _ in read(follower, at, follower.latest(at, ALL))} == {"b_0.mcap"}


def test_what_was_recovered_of_a_file_that_is_followed_is_not_read_again(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a_0.mcap")
    recorder.write(0, 30)
    follower = Follower((str(tmp_path),))
    at = follower.latest({}, ALL)
    recover(tmp_path / "a_0.mcap", tmp_path / "a_0.recovered.mcap")
    assert follower.latest(at, ALL) == at


def test_another_follower_goes_on_where_the_first_one_was(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a_0.mcap")
    recorder.write(0, 60)
    at = Follower((str(tmp_path),)).latest({}, Budget(rows=1))
    rest = Follower((str(tmp_path),)).latest(from_json(to_json(at)), ALL)
    count = chunk_count(tmp_path / "a_0.mcap")
    assert read(Follower((str(tmp_path),)), {}, at) == [("a_0.mcap", 0)]
    assert read(Follower((str(tmp_path),)), at, rest) == [("a_0.mcap", number) for number in range(1, count)]


@pytest.mark.parametrize("budget", [Budget(rows=25), Budget(bytes=1500), Budget(files=1)])
def test_a_budget_divides_into_batches_and_loses_nothing(tmp_path: Path, budget: Budget) -> None:
    for number in range(4):
        record(tmp_path / f"a_{number}.mcap", number * 50, number * 50 + 50)
    follower = Follower((str(tmp_path),))
    at: dict[str, Position] = {}
    batches: list[list[tuple[str, int]]] = []
    while (then := follower.latest(at, budget)) != at:
        batches.append(read(follower, at, then))
        at = then
    everything = read(follower, {}, follower.latest({}, ALL))
    assert len(batches) >= 4
    assert [step for batch in batches for step in batch] == everything


def test_a_budget_that_is_smaller_than_a_chunk_still_takes_one(tmp_path: Path) -> None:
    record(tmp_path / "a_0.mcap", 0, 100)
    follower = Follower((str(tmp_path),))
    assert read(follower, {}, follower.latest({}, Budget(rows=1))) == [("a_0.mcap", 0)]


def test_what_comes_after_the_end_that_was_agreed_on_is_left_for_later(tmp_path: Path) -> None:
    recorder, follower = Recorder(tmp_path / "a_0.mcap"), Follower((str(tmp_path),))
    recorder.write(0, 30)
    until = follower.ends()
    recorder.write(30, 60)
    record(tmp_path / "b_0.mcap", 0, 10)
    at = follower.latest({}, ALL, until)
    assert at == until
    assert follower.latest(at, ALL, until) == at


def test_a_file_that_has_only_been_created_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a_0.mcap").write_bytes(b"\x89MC")
    follower = Follower((str(tmp_path),))
    assert follower.latest({}, ALL) == {}
    (tmp_path / "a_0.mcap").unlink()
    record(tmp_path / "a_0.mcap", 0, 5)
    assert read(follower, {}, follower.latest({}, ALL)) == [("a_0.mcap", 0)]


def test_a_cut_file_is_final_when_the_next_one_is_there(tmp_path: Path) -> None:
    recorder, follower = Recorder(tmp_path / "a_0.mcap"), Follower((str(tmp_path),))
    recorder.write(0, 30)
    at = follower.latest({}, ALL)
    record(tmp_path / "a_1.mcap", 30, 31)
    then = follower.latest(at, ALL)
    assert read(follower, at, then) == [("a_1.mcap", 0)]
    assert then == {str(tmp_path / "a_*"): Position(2, 0)}


def test_files_that_were_read_to_their_end_may_go(tmp_path: Path) -> None:
    record(tmp_path / "a_0.mcap", 0, 30)
    at = Follower((str(tmp_path),)).latest({}, ALL)
    record(tmp_path / "a_1.mcap", 30, 31)
    (tmp_path / "a_0.mcap").unlink()
    follower = Follower((str(tmp_path),))
    assert read(follower, at, follower.latest(at, ALL)) == [("a_1.mcap", 0)]


def test_a_file_that_is_gone_unread_is_an_error_unless_that_is_allowed(tmp_path: Path) -> None:
    for number in range(4):
        record(tmp_path / f"a_{number}.mcap", number, number + 1)
    at = Follower((str(tmp_path),)).latest({}, Budget(files=1))
    (tmp_path / "a_1.mcap").unlink()
    with pytest.raises(rtmw.RecordingError, match=r'a_1\.mcap is gone before it was read.*"fail_on_loss", "false"'):
        Follower((str(tmp_path),)).latest(at, ALL)
    tolerant = Follower((str(tmp_path),), tolerant=True)
    assert read(tolerant, at, tolerant.latest(at, ALL)) == [("a_2.mcap", 0), ("a_3.mcap", 0)]


def test_a_folder_that_is_gone_with_unread_files_is_an_error(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a_0.mcap")
    recorder.write(0, 30)
    at = Follower((str(tmp_path),)).latest({}, ALL)
    (tmp_path / "a_0.mcap").unlink()
    with pytest.raises(rtmw.RecordingError, match="gone before it was read to its end"):
        Follower((str(tmp_path),)).latest(at, ALL)


def test_only_files_that_still_grow_stay_open(tmp_path: Path) -> None:
    for number in range(20):
        record(tmp_path / f"a_{number}.mcap", number, number + 1)
    follower = Follower((str(tmp_path),))
    follower.latest({}, ALL)
    open_files = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert [path for path in open_files if path.is_relative_to(tmp_path)] == []
