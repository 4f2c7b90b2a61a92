"""info, cut and merge."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rtmw.errors import RecordingDamaged, RecordingError
from rtmw.recording import Recording
from rtmw.recording.contents import Cause
from rtmw.recording.recordings import info
from rtmw.recording.tools.check import check
from rtmw.recording.tools.copying import Section, cut, merge
from rtmw.recording.tools.info import run_of
from tests.recordings import BEGIN_NS, MS, SECOND, Maker, New, Old, numbered


def numbers(path: Path) -> list[tuple[str, int]]:
    """Topic and number of each message, in the order of the file, which must be whole."""
    assert check(path).problems == []
    with Recording(path) as recording:
        return [(m.channel.topic, int.from_bytes(m.payload, "little")) for m in recording.messages()]


def test_info_says_what_is_in_a_recording_without_reading_a_message(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["a", "b"], 21, apart_ns=SECOND // 2, chunk_bytes=500, compression="zstd")
    facts = info(path)
    assert (facts.messages, facts.seconds, facts.compression, facts.complete) == (21, 10.0, "zstd", True)
    assert (facts.size, facts.start_ns, facts.library[:5]) == (path.stat().st_size, BEGIN_NS, "rtmw ")
    assert [(t.topic, t.type, t.messages, t.rate) for t in facts.topics] == [
        ("a", "bytes", 11, 1.1),
        ("b", "bytes", 10, 1.0),
    ]


def test_info_says_what_is_missing_in_this_file_and_not_what_its_recorder_has_missed_in_all(tmp_path: Path) -> None:
    told = {"t": {"messages": 1, "missed": 40, "expired": 0}}
    with Maker(tmp_path / "a.mcap") as maker:
        channel = maker.channel("t")
        maker.write(channel, 0, b"x")
        maker.writer.missed(channel, Cause.MISSED, 3)
        maker.writer.flush()
        maker.write(channel, 1, b"y")
        maker.writer.missed(channel, Cause.MISSED, 1)
        maker.writer.missed(channel, Cause.EARLY, 5)
        maker.writer.metadata("rtmw.recorder", {"topics": json.dumps(told), "host": "pump-7"})
    facts = info(maker.path)
    assert (facts.topics[0].missing, facts.host) == ({"missed": 4, "early": 5}, "pump-7")


def test_info_counts_a_topic_once_and_shows_each_version_of_its_type(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        old, new, again = maker.channel("t", Old), maker.channel("t", New), maker.channel("t", New, history=2)
        for at, channel in enumerate((old, old, new, again)):
            maker.write(channel, at * SECOND, bytes(8))
        maker.writer.missed(again, Cause.MISSED, 6)
    facts = info(maker.path)
    assert facts.topic_count == 1
    found = [(t.topic, t.messages, t.version, t.versions, t.missing) for t in facts.topics]
    assert found == [("t", 2, 1, 2, {}), ("t", 2, 2, 2, {"missed": 6})]


def test_info_says_how_the_disk_failed_as_the_recorder_told(tmp_path: Path) -> None:
    told = {"t": {"messages": 1, "unwritten": 4}}
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("t"), 0, b"x")
        maker.writer.metadata("rtmw.recorder", {"topics": json.dumps(told), "failed": "Input/output error"})
    facts = info(maker.path)
    assert (facts.topics[0].missing, facts.failed) == ({"unwritten": 4}, "Input/output error")
    assert info(numbered(tmp_path / "b.mcap", ["t"], 1)).failed == ""


def test_info_of_a_cut_recording_says_that_it_is_not_complete(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 9, chunk_bytes=1)
    path.write_bytes(path.read_bytes()[:-300])
    facts = info(path)
    assert not facts.complete
    assert facts.incomplete_because


def test_a_section_has_the_topics_and_the_time_that_were_asked_for(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["a/1", "a/2", "b"], 30, apart_ns=SECOND, chunk_bytes=100)
    assert cut(path, tmp_path / "b.mcap", Section(("a/*",), 6.0, 12.0)).messages == 4
    assert numbers(tmp_path / "b.mcap") == [("a/1", 6), ("a/2", 7), ("a/1", 9), ("a/2", 10)]
    with Recording(tmp_path / "b.mcap") as recording:
        assert sorted(recording.topics()) == ["a/1", "a/2"]
        assert recording.metadata[-1] == ("rtmw.cut", {"from": "a.mcap", "topics": "a/1, a/2"})


def test_a_section_may_be_of_dates(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["a"], 30, apart_ns=SECOND)
    begin = datetime.fromtimestamp(BEGIN_NS / 1e9, UTC)
    section = Section(start=begin + timedelta(seconds=6), end=(begin + timedelta(seconds=8)).replace(tzinfo=None))
    assert cut(path, tmp_path / "b.mcap", section).messages == 2
    assert numbers(tmp_path / "b.mcap") == [("a", 6), ("a", 7)]


def test_a_topic_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["a"], 1)
    with pytest.raises(RecordingError, match="no topic b; there are a"):
        cut(path, tmp_path / "b.mcap", Section(("b",)))


# Proves G152.
def test_damage_leaves_no_file_that_looks_complete(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["a"], 20, chunk_bytes=1)
    with Recording(path) as recording:
        chunk = recording.chunks[10]
    data = bytearray(path.read_bytes())
    data[chunk.position + chunk.length - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(RecordingDamaged):
        cut(path, tmp_path / "b.mcap", Section())
    with pytest.raises(RecordingDamaged):
        merge([path, path], tmp_path / "b.mcap")
    assert os.listdir(tmp_path) == ["a.mcap"]


def test_merged_messages_are_in_the_order_of_their_times_with_all_that_is_known_of_them(tmp_path: Path) -> None:
    for name, odd in (("a.mcap", 0), ("b.mcap", 1)):
        with Maker(tmp_path / name, chunk_bytes=150) as maker:
            if odd:
                maker.channel("only b")  # so that numbers of channels differ
            channel = maker.channel("t")
            for number in range(odd, 40, 2):
                maker.write(channel, number * MS, bytes([number]), priority=odd, publisher=odd, left=SECOND)
            maker.writer.missed(channel, 1, 2)
    assert merge([tmp_path / "b.mcap", tmp_path / "a.mcap"], tmp_path / "c.mcap").messages == 40
    assert numbers(tmp_path / "c.mcap") == [("t", number) for number in range(40)]
    with Recording(tmp_path / "c.mcap") as recording:
        found = [(m.priority, m.publisher, m.expires - m.log_time) for m in recording.messages()]
        missed = [m.count for batch in recording.batches() for m in batch.missed]
    assert found == [(number % 2, number % 2, SECOND) for number in range(40)]
    assert sum(missed) == 4


def test_what_a_recorder_carried_over_comes_once(tmp_path: Path) -> None:
    with Maker(tmp_path / "1.mcap") as maker:
        maker.write(maker.channel("kept", history=1), 0, b"\x01")
    with Maker(tmp_path / "2.mcap") as maker:
        kept = maker.channel("kept", history=1)
        maker.write(kept, SECOND, b"\x01", published=0, sequence=1, flags=1)
        maker.write(kept, 2 * SECOND, b"\x02")
    merge([tmp_path / "1.mcap", tmp_path / "2.mcap"], tmp_path / "all.mcap")
    assert numbers(tmp_path / "all.mcap") == [("kept", 1), ("kept", 2)]


def test_a_chunk_that_holds_all_times_does_not_disturb_the_order(tmp_path: Path) -> None:
    """As after a jump of the clock."""
    with Maker(tmp_path / "a.mcap") as maker:
        for number in (90, 5, 40, 0):
            maker.write(maker.channel("t"), number * MS, bytes([number]))
    path = numbered(tmp_path / "b.mcap", ["u"], 100, chunk_bytes=100)
    merge([tmp_path / "a.mcap", path], tmp_path / "c.mcap")
    with Recording(tmp_path / "c.mcap") as recording:
        times = [m.log_time for m in recording.messages()]
    assert times == sorted(times)
    assert len(times) == 104


def test_merge_takes_some_topics_and_some_time_of_all(tmp_path: Path) -> None:
    first = numbered(tmp_path / "a.mcap", ["a", "b"], 10, apart_ns=SECOND)
    second = numbered(tmp_path / "b.mcap", ["b", "c"], 10, apart_ns=SECOND)
    written = merge([first, second], tmp_path / "m.mcap", section=Section(("b",), 2.0, 6.0))
    assert numbers(tmp_path / "m.mcap") == [("b", 2), ("b", 3), ("b", 4), ("b", 5)]
    assert written.messages == 4
    with pytest.raises(RecordingError, match=r"a\.mcap, .*b\.mcap have no topic x; there are a, b, c"):
        merge([first, second], tmp_path / "n.mcap", section=Section(("x",)))


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_cut_and_merge_compress_anew_if_that_is_asked_for(tmp_path: Path, compression: str) -> None:
    path = numbered(tmp_path / "a.mcap", ["a"], 500)
    cut(path, tmp_path / "cut.mcap", Section(end=0.4), compression=compression)
    merge([path], tmp_path / "merged.mcap", compression=compression)
    assert [info(tmp_path / name).compression for name in ("a.mcap", "cut.mcap", "merged.mcap")] == [
        "lz4",
        compression,
        compression,
    ]
    assert numbers(tmp_path / "merged.mcap") == numbers(path)


def test_several_recordings_are_one_run_with_totals_and_one_span(tmp_path: Path) -> None:
    paths = [numbered(tmp_path / f"{name}.mcap", ["a", name], 4, apart_ns=SECOND) for name in "bc"]
    with Maker(tmp_path / "late.mcap") as maker:
        channel = maker.channel("a")
        maker.write(channel, 10 * SECOND, bytes(8))
        maker.writer.missed(channel, Cause.MISSED, 2)
    empty = numbered(tmp_path / "empty.mcap", ["a"], 0)
    run = run_of([info(path) for path in (*paths, maker.path, empty)])
    assert (run.files, run.messages, run.topic_count, run.incomplete) == (4, 9, 3, 0)
    assert (run.start_ns, run.seconds) == (BEGIN_NS, 10.0)
    assert run.size == sum(path.stat().st_size for path in (*paths, maker.path, empty))
    assert [(t.topic, t.messages, t.rate, t.missing) for t in run.topics] == [
        ("a", 5, 0.5, {"missed": 2}),
        ("b", 2, 0.2, {}),
        ("c", 2, 0.2, {}),
    ]
