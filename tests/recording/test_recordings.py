"""`rtmw.Recordings`: several files as one table."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.compute as pc

import rtmw
from rtmw.errors import RecordingDamaged, RecordingError
from rtmw.recording import Recording, RecordingWriter
from rtmw.recording.contents import UNSET_NS
from rtmw.recording.tools.copying import merge
from tests.recordings import BEGIN_NS, MS, Maker, numbered
from tests.spark.plant import Plant, Speed, report, speed
from tests.spark.test_versions import first, record, second

PUMP = ["log_time_ns", "pump", "rpm", "turns"]


def plant(path: Path, numbers: range, chunk_bytes: int = 600) -> Path:
    made = Plant(path, chunk_bytes)
    made.put("pump", numbers)
    return made.close()


def damage(path: Path, chunk: int) -> None:
    with Recording(path) as recording:
        found = recording.chunks[chunk]
    data = bytearray(path.read_bytes())
    data[found.position + found.length // 2] ^= 0xFF
    path.write_bytes(data)


def test_a_folder_is_one_table_in_the_order_of_the_times(tmp_path: Path) -> None:
    plant(tmp_path / "b.mcap", range(100))
    plant(tmp_path / "a.mcap", range(100, 300))
    with rtmw.Recordings(tmp_path) as folder, Recording(tmp_path / "a.mcap") as one:
        table = folder.to_arrow("pump")
        assert table["sequence"].to_pylist() == [*range(300)]
        assert table.schema.equals(one.to_arrow("pump").schema)
        assert [row["rpm"] for row in table.to_pylist()] == [speed(number).rpm for number in range(300)]
        assert folder.message_count == 300
        assert [path.name for path in folder.paths] == ["a.mcap", "b.mcap"]
        assert repr(folder) == "<rtmw.Recordings 2 files, 300 messages>"


# Proves G148.
def test_files_that_overlap_are_merged_as_the_tool_merges_them(tmp_path: Path) -> None:
    """Also where rows of one file are not in order, have no time, or have that of another file."""
    chance = random.Random(46)
    for name in "abcd":
        with Maker(tmp_path / f"{name}.mcap", chunk_bytes=200) as maker:
            channel = maker.channel("t")
            for number in range(200):
                late = chance.randrange(-5, 6)
                at = UNSET_NS - BEGIN_NS if name == "c" and number % 10 == 3 else (number + late) * MS
                maker.write(channel, at, f"{name}{number}".encode())
    merge(sorted(tmp_path.glob("?.mcap")), tmp_path / "merged")
    with rtmw.Recordings(str(tmp_path / "?.mcap")) as several, Recording(tmp_path / "merged") as merged:
        table = several.to_arrow("t", columns=["payload", "log_time_ns"])
        assert table["payload"].to_pylist() == merged.to_arrow("t", columns=["payload"])["payload"].to_pylist()
        assert table["log_time_ns"].null_count == 20  # what has no time gets none


def test_the_keywords_are_those_of_a_recording(tmp_path: Path) -> None:
    plant(tmp_path / "a.mcap", range(150))
    plant(tmp_path / "b.mcap", range(100, 250))
    with rtmw.Recordings(tmp_path) as folder:
        few = folder.to_arrow("pump", start=1_760_000_000_100_000_000, end="2025-10-09T08:53:20.120", columns=PUMP)
        assert few.column_names == PUMP
        assert few["pump"].to_pylist() == [number % 5 for number in range(100, 120) for _ in range(2)]
        both = folder.to_arrow("pump", filter=pc.field("rpm") < 15.0, columns=["rpm"])
        assert both["rpm"].to_pylist() == sorted(
            speed(number).rpm for numbers in (range(150), range(100, 250)) for number in numbers if number / 7 < 15
        )
        planned = folder.planned("pump", filter=pc.field("rpm") < 5.0)
        assert 0 < planned.read.chunks < planned.skipped.chunks
        assert folder.to_arrow().num_rows == 300
        assert pa.Table.from_batches(folder.record_batches("pump")).equals(folder.to_arrow("pump"))
        with pytest.raises(ValueError, match="there is no topic 'punp'; there are pump"):
            folder.to_arrow("punp")


def test_pandas_and_polars_have_the_rows_of_all_files(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    plant(tmp_path / "a.mcap", range(10))
    plant(tmp_path / "b.mcap", range(10, 20))
    with rtmw.Recordings([tmp_path / "b.mcap", tmp_path / "a.mcap"]) as both:
        rpm = [speed(number).rpm for number in range(20)]
        assert both.to_pandas("pump")["rpm"].tolist() == rpm
        assert both.to_polars("pump")["rpm"].to_list() == rpm


# Proves G148.
def test_each_recording_is_read_once_by_whatever_names_it_is_meant(tmp_path: Path) -> None:
    path = plant(tmp_path / "a.mcap", range(10))
    (tmp_path / "link.mcap").symlink_to(path)
    with rtmw.Recordings(iter([tmp_path, path, str(path)])) as several:
        assert several.to_arrow("pump").num_rows == 10
        assert not several.refresh()


def test_a_type_that_grew_is_one_table_and_two_types_of_a_topic_are_an_error_that_names_them(tmp_path: Path) -> None:
    record(tmp_path / "1.mcap", (first, range(10)))
    record(tmp_path / "2.mcap", (second, range(10, 20)))
    with rtmw.Recordings(tmp_path) as both:
        table = both.to_arrow("level", columns=["gauge", "metres", "is_valid"])
        assert table.schema.field("metres").type == pa.float64()
        assert table["gauge"].to_pylist() == ["A"] * 10 + ["B"] * 10
        assert table["is_valid"].to_pylist() == [None] * 10 + [True] * 10
        assert both.to_arrow("level", type_version=1)["gauge"].to_pylist() == ["A"] * 10
        assert [(one.type, one.messages) for one in both.topics()["level"]] == [("plant::Level", 20)]
    other = Plant(tmp_path / "3.mcap")
    other.put("level", range(20, 25), report)
    other.close()
    with rtmw.Recordings(tmp_path) as three:
        with pytest.raises(ValueError, match=r"columns can be those of one type; there are .*plant\.Report"):
            three.to_arrow("level")
        assert three.to_arrow("level", typed=False).num_rows == 25
        assert {one.type: one.messages for one in three.topics()["level"]} == {"plant::Level": 20, "plant::Report": 5}


# Proves G148.
def test_a_file_that_is_being_written_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    plant(tmp_path / "a.mcap", range(100))
    data = plant(tmp_path / "whole", range(100, 300)).read_bytes()
    growing = tmp_path / "b.mcap"
    growing.write_bytes(data[: len(data) // 2])
    with rtmw.Recordings(tmp_path) as folder:
        before = folder.to_arrow("pump")["sequence"].to_pylist()
        assert before == [*range(len(before))]
        assert 100 < len(before) < 300
        assert folder.topics()["pump"][0].messages == len(before)
        assert not folder.refresh()
        growing.write_bytes(data)
        plant(tmp_path / "c.mcap", range(300, 310))
        assert folder.refresh()
        assert folder.to_arrow("pump")["sequence"].to_pylist() == [*range(310)]
        assert folder.topics()["pump"][0].messages == 310


# Proves G148.
def test_a_damaged_file_is_an_error_and_without_strict_the_rest_is_read_and_it_is_told(tmp_path: Path) -> None:
    plant(tmp_path / "a.mcap", range(100))
    broken = plant(tmp_path / "b.mcap", range(100, 200))
    damage(broken, 1)
    (tmp_path / "c.mcap").write_bytes(b"no recording")
    with pytest.raises(RecordingError, match=re.escape(str(tmp_path / "c.mcap"))):
        rtmw.Recordings(tmp_path)
    with rtmw.Recordings([tmp_path / "a.mcap", broken]) as strict, pytest.raises(RecordingDamaged, match=r"b\.mcap"):
        strict.to_arrow("pump")
    with rtmw.Recordings(tmp_path, strict=False) as folder:
        assert [str(tmp_path / "c.mcap") in reason for reason in folder.left_out] == [True]
        rows = folder.to_arrow("pump", filter=pc.field("rpm") >= 0.0)["sequence"].to_pylist()
        assert rows == sorted(rows)
        with Recording(broken) as recording:
            lost = recording.chunks[1].message_count
        assert len(rows) == 200 - lost
        assert rows[:100] == [*range(100)]
        for _ in range(2):
            assert len(folder.left_out) == 2
            assert str(broken) in folder.left_out[1]
            folder.to_arrow("pump")


def test_files_of_which_none_can_be_read_and_none_at_all_are_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no recording"):
        rtmw.Recordings(tmp_path)
    with pytest.raises(FileNotFoundError, match="no recording was named"):
        rtmw.Recordings([])
    with pytest.raises(FileNotFoundError, match="there is no recording"):
        rtmw.Recordings(tmp_path / "day-*.mcap")
    (tmp_path / "c.mcap").write_bytes(b"no recording")
    with pytest.raises(RecordingError, match=r"c\.mcap"):
        rtmw.Recordings(tmp_path, strict=False)
    (tmp_path / "c.mcap").unlink()
    with RecordingWriter(tmp_path / "c.mcap"):
        pass
    with rtmw.Recordings(tmp_path) as empty:
        assert empty.to_arrow().num_rows == 0
        assert empty.topics() == {}


def test_a_recording_that_is_a_folder_names_recordings(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=re.escape(f'rtmw.Recordings("{tmp_path}")')):
        rtmw.Recording(tmp_path)


def test_memory_holds_only_chunks_that_overlap(tmp_path: Path) -> None:
    for name, begin in (("a", 0), ("b", 500)):
        plant(tmp_path / f"{name}.mcap", range(begin, begin + 500))
    with rtmw.Recordings(tmp_path) as folder:
        reader = folder.record_batches("pump", columns=["rpm"])
        before = sum(one.bytes_read for one in folder._recordings())
        reader.read_next_batch()
        read = sum(one.bytes_read for one in folder._recordings()) - before
        assert read < sum(path.stat().st_size for path in folder.paths) / 8


def test_what_a_recorder_carried_over_from_the_file_before_is_left_out(tmp_path: Path) -> None:
    plant(tmp_path / "a.mcap", range(10))
    made = Plant(tmp_path / "b.mcap")
    made.put("pump", [9], flags=1)
    made.put("pump", range(10, 20))
    made.close()
    with rtmw.Recordings(tmp_path) as folder:
        assert folder.to_arrow("pump")["sequence"].to_pylist() == [*range(20)]


def test_many_topics_of_many_files_are_listed_with_their_totals(tmp_path: Path) -> None:
    for name in "ab":
        numbered(tmp_path / f"{name}.mcap", ["x", "y"], 10)
    with rtmw.Recordings(tmp_path) as folder:
        assert {name: [one.messages for one in found] for name, found in folder.topics().items()} == {
            "x": [10],
            "y": [10],
        }


def test_a_member_may_be_called_as_the_time_that_rows_are_ordered_by(tmp_path: Path) -> None:
    plant(tmp_path / "a.mcap", range(10))
    plant(tmp_path / "b.mcap", range(5, 15))
    with rtmw.Recordings(tmp_path) as folder:
        table = folder.to_arrow("pump", columns=["log_time_ns"])
        assert table["log_time_ns"].to_pylist() == sorted(table["log_time_ns"].to_pylist())
        assert isinstance(Speed, type)
