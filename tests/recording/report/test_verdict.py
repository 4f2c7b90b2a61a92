"""The verdict: each thing that can be wrong is told, with its reason, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rtmw.recording.contents import Cause
from rtmw.recording.report.verdict import CHECKS, GOOD, Check, Level, verdict, worst
from tests.recording.report.made import END, bad, check, facts, night, regular, told
from tests.recordings import BEGIN_NS, MS, SECOND, Maker, New, Old, numbered


def test_a_recording_in_order_passes_every_check(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        regular(maker, maker.channel("fine"))
        maker.writer.metadata("rtmw.recorder", told(known='["fine"]'))
    found = facts(maker.path, deadline=0.2)
    assert [one.name for one in verdict(found)] == [*CHECKS]
    assert bad(found) == {}


def test_each_check_says_what_it_means_that_it_passed() -> None:
    assert GOOD.keys() == CHECKS.keys()


def test_the_worst_check_comes_first_and_is_the_verdict(tmp_path: Path) -> None:
    found = verdict(facts(night(tmp_path / "a.mcap"), deadline=1.0))
    assert [one.level for one in found] == sorted((one.level for one in found), reverse=True)
    assert (found[0].name, worst(found)) == ("deadline", Level.FAIL)


def test_without_a_deadline_there_is_no_check_of_it(tmp_path: Path) -> None:
    assert "deadline" not in {one.name for one in verdict(facts(night(tmp_path / "a.mcap")))}


def test_a_topic_that_dies_one_that_is_interrupted_and_one_that_never_comes_are_told(tmp_path: Path) -> None:
    found = facts(night(tmp_path / "a.mcap"))
    assert bad(found) == {"silence": Level.WARN}
    assert check(found, "silence").reason == (
        "without a message: never; silent: dies for the last 12.1 s; interrupted: breaks for 4.1 s"
    )


def test_messages_that_are_missing_are_told_by_cause_and_fail_unless_somebody_asked_for_it(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        channels = [maker.channel(name) for name in ("a", "b")]
        maker.write(channels[0], 0, b"")
        maker.writer.missed(channels[0], Cause.PAUSED, 5)
    assert check(facts(maker.path), "missing") == Check("missing", Level.WARN, "5 messages paused (a)")
    with Maker(tmp_path / "b.mcap") as maker:
        channels = [maker.channel(name) for name in ("a", "b")]
        maker.write(channels[0], 0, b"")
        maker.writer.missed(channels[0], Cause.EARLY, 1)
        maker.writer.missed(channels[0], Cause.OVERFLOWED, 7)
        maker.writer.missed(channels[1], Cause.OVERFLOWED, 2000)
    assert check(facts(maker.path), "missing") == Check(
        "missing", Level.FAIL, "2007 messages overflowed (b 2,000, a 7); 1 message early (a)"
    )


def test_sequences_that_are_missing_are_told_as_far_as_no_cause_explains_them(tmp_path: Path) -> None:
    def made(counted: int) -> Path:
        with Maker(tmp_path / f"{counted}.mcap") as maker:
            channel = maker.channel("t")
            maker.write(channel, 0, b"", sequence=1)
            maker.write(channel, MS, b"", sequence=8)
            if counted:
                maker.writer.missed(channel, Cause.MISSED, counted)
        return maker.path

    assert check(facts(made(6)), "sequences").level == Level.PASS
    assert check(facts(made(0)), "sequences").reason == "6 sequence numbers are missing, and no cause was counted (t)"
    assert check(facts(made(4)), "sequences").reason.startswith("2 sequence numbers")


# Proves G149.
def test_a_damaged_chunk_fails_and_the_others_are_read(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 3000, chunk_bytes=8192, compression="none")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    found = facts(path)
    assert bad(found)["files"] == Level.FAIL
    assert str(path) in check(found, "files").reason
    assert 0 < found.topics[0].messages < 3000


def test_a_file_that_is_no_recording_fails_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "b.mcap").write_bytes(b"abc")
    found = facts(night(tmp_path / "a.mcap"), tmp_path / "b.mcap")
    assert bad(found)["files"] == Level.FAIL
    assert "b.mcap" in check(found, "files").reason
    assert len(found.topics) == 3


def test_a_recording_without_its_end_warns(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 3000, chunk_bytes=8192)
    path.write_bytes(path.read_bytes()[:-2000])
    found = facts(path)
    assert bad(found) == {"complete": Level.WARN}
    assert check(found, "complete").reason.startswith("a.mcap: it has no end: ")


def test_a_disk_that_failed_fails(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("t"), 0, b"")
        maker.writer.metadata("rtmw.recorder", told(failed="No space left on device"))
    assert check(facts(maker.path), "disk") == Check(
        "disk", Level.FAIL, "a.mcap: the disk ended the recorder: No space left on device"
    )


def test_a_recording_without_a_message_warns(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.writer.metadata("rtmw.recorder", told(known='["t"]'))
    found = facts(maker.path)
    assert bad(found) == {"messages": Level.WARN, "silence": Level.WARN}
    assert check(found, "silence").reason == "without a message: t"


def test_a_publisher_whose_clock_is_ahead_warns(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        channel = maker.channel("t")
        for at in range(20):
            maker.write(channel, at * MS, b"", published=at * MS + 250 * MS)
    assert check(facts(maker.path), "clocks").reason == (
        "t was published 250 ms after it was recorded: the publisher's clock is ahead of the recorder's"
    )


def test_a_message_that_was_late_warns(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("t"), 10 * MS, b"", published=0, left=-MS)
    assert check(facts(maker.path), "lifetimes").reason == "1 message recorded after the end of the lifetime (t)"


def test_a_type_that_changed_from_one_file_to_the_next_warns(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("level", Old), 0, Old(1.0).serialize())
        maker.write(maker.channel("level", New), MS, New(1.0).serialize())
    assert check(facts(maker.path), "types").reason == "the type changed: level"


def test_a_missed_deadline_fails(tmp_path: Path) -> None:
    found = facts(night(tmp_path / "a.mcap"), deadline=1.0)
    assert check(found, "deadline") == Check("deadline", Level.FAIL, "2 times nothing came in time (breaks 1, dies 1)")


@pytest.mark.parametrize("known", ["", "no JSON", "3", '{"a": 1}'])
def test_what_a_recorder_says_in_another_form_harms_nothing(tmp_path: Path, known: str) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        regular(maker, maker.channel("fine"))
        maker.writer.metadata("rtmw.recorder", told(known=known, started_ns="soon"))
    assert facts(maker.path).grid.since_ns == BEGIN_NS + MS


def test_the_span_is_from_the_first_recorder_to_the_last(tmp_path: Path) -> None:
    paths = list[Path]()
    for name, began, ended in (("b", 5, 9), ("c", 7, 8)):
        with Maker(tmp_path / f"{name}.mcap") as maker:
            about = {"started_ns": str(began), "ended_ns": str(ended), "known": json.dumps(["t", name])}
            maker.writer.metadata("rtmw.recorder", about)
        paths.append(maker.path)
    found = facts(*paths)
    assert (found.grid.since_ns, found.grid.until_ns, found.contents.known) == (5, 9, {"t", "b", "c"})
    later = facts(numbered(tmp_path / "a.mcap", ["t"], 3, SECOND), *paths)  # of the first one nobody says when it ended
    assert later.grid.until_ns == BEGIN_NS + 2 * SECOND < BEGIN_NS + END
