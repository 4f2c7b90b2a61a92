"""export: the same messages as Parquet, CSV and JSON lines."""

from __future__ import annotations

import io
import json
import math
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional
from urllib.parse import quote

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct, types

pytest.importorskip("pyarrow")

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from rtmw.errors import RecordingDamaged, RecordingError, ValueMismatch
from rtmw.recording import Recording
from rtmw.recording.tools.copying import Section
from rtmw.recording.tools.export import export_lines, export_parquet
from rtmw.recording.tools.tables import ParquetFolder
from rtmw.types import resolve
from tests.columns.payloads import expected_row
from tests.recordings import BEGIN_NS, SECOND, Maker, numbered
from tests.types.messages import Various

ALL = Section()


@dataclass
class Place(IdlStruct, typename="plant.Place"):
    x: types.float64
    y: types.float64


@dataclass
class Report(IdlStruct, typename="plant.Report"):
    sequence: types.int32
    name: str
    place: Place
    levels: types.sequence[types.float32]


@dataclass
class Later(IdlStruct, typename="plant.Report"):
    sequence: types.int32
    extra: bool


@dataclass
class Renamed(IdlStruct, typename="plant.Summary"):
    sequence: types.int32
    extra: bool


@dataclass
class Odd(IdlStruct, typename="plant.Odd"):
    topic: str
    level: types.float64


@dataclass
class Inspection(IdlStruct, typename="plant.Inspection"):
    number: types.int32
    site: Optional[Place]  # noqa: UP045 (cyclonedds knows no other way)
    last: Optional[Report]  # noqa: UP045


def encoded(value: Any) -> bytes:
    encode = resolve(type(value)).encode
    assert encode is not None
    return bytes(encode(value))


def report(number: int) -> Report:
    return Report(number, f"pump {number}", Place(number / 2, -1.0), [1.5] * (number % 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Half an hour apart: 20 reports, and as many arrays and bytes."""
    with Maker(tmp_path / "a.mcap", chunk_bytes=300) as maker:
        typed, wave = maker.channel("plant/report", Report), maker.channel("wave", np.dtype("f4"))
        raw = maker.channel("raw")
        for number in range(20):
            at = number * 1800 * SECOND
            maker.write(typed, at, encoded(report(number)), priority=3, publisher=2**63, left=SECOND)
            maker.write(wave, at + 1, np.full(2, number, "f4").tobytes())
            maker.write(raw, at + 2, bytes([number]))
    return maker.path


def read(folder: Path, topic: str) -> list[dict[str, Any]]:
    """All rows of a topic, by time, as other programs see them."""
    files = (folder / f"topic={quote(topic, safe='')}").rglob("*.parquet")
    rows = [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
    return sorted(rows, key=lambda row: row["log_time_ns"])


def test_parquet_has_a_column_for_each_member_and_what_the_recording_says(path: Path, tmp_path: Path) -> None:
    counts = export_parquet([path], tmp_path / "out", Section(("plant/*",)))
    assert counts == {"plant/report": 20}
    row = read(tmp_path / "out", "plant/report")[7]
    assert (row["sequence"], row["priority"], row["publisher"]) == (8, 3, -(2**63))
    assert row["log_time_ns"] == BEGIN_NS + 7 * 1800 * SECOND
    assert row["log_time"].timestamp() == row["log_time_ns"] / 1e9
    assert (row["expires"] - row["log_time"]).total_seconds() == 1.0
    assert (row["sequence_"], row["name"], row["levels"]) == (7, "pump 7", [1.5])
    assert row["place"] == {"x": 3.5, "y": -1.0}


# Proves G164.
def test_a_last_value_that_was_carried_over_at_a_split_comes_once(tmp_path: Path) -> None:
    for number, flags in enumerate((0, 1)):
        with Maker(tmp_path / f"run_{number}.mcap") as maker:
            raw = maker.channel("raw")
            maker.write(raw, number * SECOND, b"kept", published=0, flags=flags)
            maker.write(raw, number * SECOND + 1, b"%d" % number)
    paths = [tmp_path / "run_0.mcap", tmp_path / "run_1.mcap"]
    assert export_parquet(paths, tmp_path / "out", ALL) == {"raw": 3}
    assert [row["payload"] for row in read(tmp_path / "out", "raw")] == [b"kept", b"0", b"1"]
    assert export_lines(paths, io.StringIO(), "jsonl", ALL) == 3
    assert export_lines(paths, io.StringIO(), "csv", ALL) == 3


def test_parquet_has_null_where_an_optional_struct_is_absent(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        channel = maker.channel("plant/inspection", Inspection)
        maker.write(channel, 0, encoded(Inspection(0, None, None)))
        maker.write(channel, 1, encoded(Inspection(1, Place(1.5, 2.5), report(1))))
    export_parquet([maker.path], tmp_path / "out", ALL)
    first, second = read(tmp_path / "out", "plant/inspection")
    assert (first["site"], first["last"]) == (None, None)
    assert second["site"] == {"x": 1.5, "y": 2.5}
    assert second["last"]["place"] == {"x": 0.5, "y": -1.0}


def test_parquet_has_null_for_the_branch_of_a_union_that_was_not_taken(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("various", Various), 0, encoded(Various.example()))
    export_parquet([maker.path], tmp_path / "out", ALL)
    (row,) = read(tmp_path / "out", "various")
    assert row.items() >= expected_row(Various, Various.example()).items()
    assert [part["rest"] is None for part in row["parts"]] == [True, True, False]


@dataclass
class Alike(IdlStruct, typename="plant.Alike"):
    topic: str
    Topic_: str
    LOG_TIME: types.int32


def test_columns_of_parquet_differ_not_only_in_the_case_of_letters(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("alike", Alike), 0, encoded(Alike("a", "b", 3)))
    export_parquet([maker.path], tmp_path / "out", ALL)
    (row,) = read(tmp_path / "out", "alike")
    assert len({name.lower() for name in row}) == len(row)
    assert (row["topic_"], row["Topic__"], row["LOG_TIME_"]) == ("a", "b", 3)


def test_parquet_is_partitioned_by_topic_and_hour(path: Path, tmp_path: Path) -> None:
    export_parquet([path], tmp_path / "out", ALL)
    folders = sorted(item.relative_to(tmp_path / "out").as_posix() for item in (tmp_path / "out").glob("*/*"))
    assert len(folders) == 3 * 10
    assert folders[0] == "topic=plant%2Freport/hour=2023-11-14T22"
    assert [row["payload"][0] for row in read(tmp_path / "out", "raw")] == list(range(20))
    table = ds.dataset(tmp_path / "out" / "topic=wave", partitioning="hive").to_table(columns=["hour"])
    assert Counter(table["hour"].to_pylist()) == {folder.partition("hour=")[2]: 2 for folder in folders[:10]}


def test_the_same_sum_comes_from_parquet_and_from_a_loop_over_the_messages(path: Path, tmp_path: Path) -> None:
    decode = resolve(Report).decode
    assert decode is not None
    with Recording(path) as recording:
        values = [decode(m.payload) for m in recording.messages("plant/report")]
    export_parquet([path], tmp_path / "out", ALL)
    rows = read(tmp_path / "out", "plant/report")
    assert sum(row["place"]["x"] for row in rows) == sum(value.place.x for value in values)
    assert sum(map(sum, (row["levels"] for row in rows))) == sum(sum(value.levels) for value in values)


def test_several_recordings_come_together_and_a_topic_may_have_changed_its_type(path: Path, tmp_path: Path) -> None:
    with Maker(tmp_path / "b.mcap") as maker:
        maker.write(maker.channel("plant/report", Later), 40 * 1800 * SECOND, encoded(Later(5, True)))
        maker.write(maker.channel("raw"), 2, b"\xff")
    counts = export_parquet([path, tmp_path / "b.mcap"], tmp_path / "out", ALL)
    assert counts == {"plant/report": 21, "wave": 20, "raw": 21}
    assert Counter(len(read(tmp_path / "out", topic)) for topic in counts) == Counter({21: 2, 20: 1})


# Proves G155.
def test_versions_of_a_type_have_folders_of_their_own_and_each_is_read_by_itself(path: Path, tmp_path: Path) -> None:
    with Maker(tmp_path / "b.mcap") as maker:
        later, first = maker.channel("plant/report", Later), maker.channel("plant/report", Report)
        for number in range(6):
            maker.write(later, number * SECOND, encoded(Later(number, True)))
        maker.write(first, 6 * SECOND, encoded(report(6)))
    with Maker(tmp_path / "c.mcap") as maker:  # of another name with the same columns
        maker.write(maker.channel("plant/report", Renamed), 10**6 * SECOND, encoded(Renamed(7, False)))
    export_parquet([path, tmp_path / "b.mcap", tmp_path / "c.mcap"], tmp_path / "out", ALL)
    assert sorted(item.name for item in (tmp_path / "out").glob("topic=plant*/*")) == [
        "version=1", "version=2", "version=3",
    ]  # fmt: skip
    found = []
    for version in (1, 2, 3):
        folder = tmp_path / "out" / "topic=plant%2Freport" / f"version={version}"
        found.append(ds.dataset(folder, partitioning="hive").to_table())
    assert [len(table) for table in found] == [21, 6, 1]
    assert ["extra" in table.column_names for table in found] == [False, True, True]
    assert found[1]["sequence_"].to_pylist() == [*range(6)]
    assert not [*(tmp_path / "out").glob("topic=raw/version=*")]


def test_with_little_memory_and_few_open_files_nothing_is_lost(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_BUFFERED", 100), ("_OPEN", 1), ("ROW_GROUP", 2)):
        monkeypatch.setattr(f"{ParquetFolder.__module__}.{name}", value)
    export_parquet([path], tmp_path / "out", ALL)
    assert [row["payload"][0] for row in read(tmp_path / "out", "raw")] == list(range(20))
    assert [row["sequence_"] for row in read(tmp_path / "out", "plant/report")] == list(range(20))


def test_after_an_error_there_is_no_folder(path: Path, tmp_path: Path) -> None:
    with Maker(tmp_path / "bad.mcap") as maker:
        maker.write(maker.channel("plant/report", Report), 0, b"\x00\x01\x00\x00cut")
    with pytest.raises(ValueMismatch):
        export_parquet([path, tmp_path / "bad.mcap"], tmp_path / "out", ALL)
    with Recording(path) as recording:
        chunk = recording.chunks[3]
    data = bytearray(path.read_bytes())
    data[chunk.position + chunk.length - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(RecordingDamaged):
        export_parquet([path], tmp_path / "out", ALL)
    assert sorted(os.listdir(tmp_path)) == ["a.mcap", "bad.mcap"]


def test_a_folder_that_exists_is_left_alone(path: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(FileExistsError, match="out exists"):
        export_parquet([path], tmp_path / "out", ALL)
    assert os.listdir(tmp_path / "out") == []


def test_json_lines_are_an_object_a_message(path: Path) -> None:
    out = io.StringIO()
    assert export_lines([path], out, "jsonl", Section(("plant/report", "raw"), 0.0, 1801.0)) == 4
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [row["topic"] for row in rows] in (["plant/report", "raw"] * 2, ["plant/report"] * 2 + ["raw"] * 2)
    first = next(row for row in rows if row["topic"] == "plant/report")
    assert (first["name"], first["place"], first["levels"]) == ("pump 0", {"x": 0.0, "y": -1.0}, [])
    assert first["log_time"] == "2023-11-14T22:13:20+00:00"


def test_json_lines_are_json_also_where_numbers_are_none_and_members_are_called_like_the_topic(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("t", Odd), SECOND, encoded(Odd("its own", math.nan)))
    out = io.StringIO()
    export_lines([maker.path], out, "jsonl", ALL)
    row = json.loads(out.getvalue(), parse_constant=pytest.fail)
    assert (row["topic"], row["topic_"], row["level"]) == ("t", "its own", "NaN")


def test_csv_is_a_row_a_message_with_the_parts_of_members_as_columns(path: Path) -> None:
    out = io.StringIO()
    assert export_lines([path], out, "csv", Section(("plant/report",), 0.0, 3601.0)) == 3
    lines = out.getvalue().splitlines()
    assert lines[0].split(",")[-5:] == ["sequence_", "name", "place.x", "place.y", "levels"]
    assert lines[2].endswith("1,pump 1,0.5,-1.0,[1.5]")


def test_csv_of_several_topics_is_refused_before_any_is_written(path: Path) -> None:
    out = io.StringIO()
    with pytest.raises(RecordingError, match="one topic"):
        export_lines([path], out, "csv", ALL)
    assert out.getvalue() == ""


def test_of_an_empty_recording_there_is_an_empty_folder(tmp_path: Path) -> None:
    numbered(tmp_path / "a.mcap", ["t"], 0)
    assert export_parquet([tmp_path / "a.mcap"], tmp_path / "out", ALL) == {}
    assert (tmp_path / "out").is_dir()
