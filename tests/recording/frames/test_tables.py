"""Recordings as tables of Arrow, pandas and Polars, without Spark."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.compute as pc

import rtmw
from rtmw.recording import Recording
from tests.recordings import numbered
from tests.spark.plant import BEGIN, MS, Deep, Plant, Speed, report, speed
from tests.spark.test_versions import first, record, second, third

START = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=BEGIN // 1000)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plant = Plant(tmp_path_factory.mktemp("plant") / "a.mcap")
    plant.put("pump/1", range(300))
    plant.put("pump/2", range(300, 600))
    plant.put("report", range(20), report)
    plant.put("pump/1", [600], flags=1)
    plant.payload("deep", Deep, 601, b"\0\1\0\0\0\0\0\0")
    plant.put("raw", [602], lambda number: bytes([number % 256]))
    return plant.close()


def test_each_message_is_a_row_with_the_columns_that_spark_has(path: Path) -> None:
    with Recording(path) as recording:
        table = recording.to_arrow("pump/1")
        messages = [message for message in recording.messages("pump/1") if not message.flags]
    assert table.column_names == [
        *("topic", "log_time", "publish_time", "sequence", "priority", "publisher", "expires", "file", "offset"),
        *("log_time_ns", "publish_time_ns", "pump", "rpm", "turns", "state"),
    ]
    assert table.schema.field("turns").type == pa.uint64()
    rows = table.to_pylist()
    assert len(rows) == len(messages) == 300
    for row, message in zip(rows, messages, strict=True):
        value = Speed.deserialize(message.payload)
        assert (row["pump"], row["rpm"], row["turns"], row["state"]) == (
            *(value.pump, value.rpm, value.turns),
            value.state.name,
        )
        assert (row["log_time_ns"], row["sequence"]) == (message.log_time, message.sequence)
    assert rows[7]["log_time"] == START + timedelta(milliseconds=7)
    assert rows[7]["file"] == str(path)


def test_columns_and_times_choose_what_a_table_has(path: Path) -> None:
    with Recording(path) as recording:
        wanted = {"start": START + timedelta(milliseconds=10), "end": BEGIN + 20 * MS}
        table = recording.to_arrow("pump/1", columns=["RPM", "log_time_ns"], **wanted)
        assert table.column_names == ["rpm", "log_time_ns"]
        assert table["rpm"].to_pylist() == [speed(number).rpm for number in range(10, 20)]
        assert recording.to_arrow("pump/1", start="2025-10-09T08:53:20.25", columns="rpm").num_rows == 50
        assert recording.to_arrow("pump/1", end="2025-10-09T08:53:20", columns="rpm").num_rows == 0


def test_a_filter_is_true_of_each_row_and_may_look_at_other_columns(path: Path) -> None:
    condition = (pc.field("pump") == 3) & (pc.field("log_time_ns") < BEGIN + 100 * MS)
    with Recording(path) as recording:
        table = recording.to_arrow("pump/1", columns=["rpm"], filter=condition)
        assert table.to_pylist() == [{"rpm": speed(number).rpm} for number in range(3, 100, 5)]


def test_batches_are_read_one_after_the_other(path: Path) -> None:
    with Recording(path) as recording:
        whole = recording.to_arrow("pump/1", columns=["rpm"])
        before = recording.bytes_read
        reader = recording.record_batches("pump/1", columns=["rpm"])
        first = reader.read_next_batch()
        assert 0 < recording.bytes_read - before < path.stat().st_size / 4
        assert pa.Table.from_batches([first, *reader]).equals(whole)


def test_pandas_and_polars_have_the_same_rows(path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    with Recording(path) as recording:
        rows = recording.to_arrow("report").to_pylist()
        frame, other = recording.to_pandas("report"), recording.to_polars("report")
        assert isinstance(frame, pandas.DataFrame)
        assert isinstance(other, polars.DataFrame)
        assert other.to_dicts() == rows
        assert frame["topic_"].tolist() == [row["topic_"] for row in rows]
        assert [stamp.to_pydatetime() for stamp in frame["log_time"]] == [row["log_time"] for row in rows]


def test_without_a_topic_a_table_has_the_payloads_of_all(path: Path) -> None:
    with Recording(path) as recording:
        table = recording.to_arrow(columns=["topic", "type", "payload"])
        messages = [message for message in recording.messages() if not message.flags]
        assert table["payload"].to_pylist() == [message.payload for message in messages]
        assert table["topic"].to_pylist() == [message.channel.topic for message in messages]
        assert recording.to_arrow("raw", columns=["payload"]).to_pylist() == [{"payload": bytes([602 % 256])}]


def test_what_cannot_be_a_table_is_refused_with_what_there_is(path: Path) -> None:
    with Recording(path) as recording:
        with pytest.raises(ValueError, match="there is no topic 'pump'; there are deep, pump/1, pump/2, raw, report"):
            recording.to_arrow("pump")
        with pytest.raises(ValueError, match="there is no column 'speed'; there are topic, log_time"):
            recording.to_arrow("pump/1", columns=["speed"])
        with pytest.raises(ValueError, match=r"start=60\.0 is not possible: a time such as"):
            recording.to_arrow("pump/1", start=60.0)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="no keyword 'until'; there are start, end, columns"):
            recording.to_arrow("pump/1", until=1)  # type: ignore[call-arg]
        with pytest.raises(rtmw.UnsupportedType, match=r"contains itself.*typed=False"):
            recording.to_arrow("deep")
        assert recording.to_arrow("deep", typed=False, columns=["payload"]).num_rows == 1


def test_versions_of_a_type_are_merged_by_the_names_of_their_members(tmp_path: Path) -> None:
    record(tmp_path / "a.mcap", (first, range(3)), (second, range(3, 6)))
    record(tmp_path / "b.mcap", (first, range(3)), (third, range(3, 6)))
    with Recording(tmp_path / "a.mcap") as recording:
        found = recording.to_arrow("level", columns=["metres", "is_valid"]).to_pylist()
        assert found[2:4] == [{"metres": 1.0, "is_valid": None}, {"metres": 3 / 7, "is_valid": True}]
    refused = pytest.raises(rtmw.UnsupportedType, match=r"metres.*version 1 \(3 messages on level.*typed=False")
    with Recording(tmp_path / "b.mcap") as recording, refused:
        recording.to_arrow("level")


def test_one_version_of_a_type_may_be_chosen(tmp_path: Path) -> None:
    record(tmp_path / "b.mcap", (first, range(3)), (third, range(3, 6)), (first, [6]))
    with Recording(tmp_path / "b.mcap") as recording:
        assert recording.to_arrow("level", type_version=1, columns=["metres"])["metres"].to_pylist() == [0, 0.5, 1, 3]
        for last in (2, "2", "latest"):
            found = recording.to_arrow("level", type_version=last, columns=["metres"])["metres"].to_pylist()
            assert found == ["3 m", "4 m", "5 m"]
        assert recording.to_arrow("level", type_version=2, typed=False, columns=["payload"]).num_rows == 3
        assert recording.planned("level", type_version=2).read.messages >= 3


def test_a_version_that_is_not_possible_is_an_error_that_names_what_there_is(tmp_path: Path) -> None:
    record(tmp_path / "b.mcap", (first, range(3)), (third, range(3, 6)))
    with Recording(tmp_path / "b.mcap") as recording:
        with pytest.raises(ValueError, match=r"there is no version 3; there are plant.Level version 1 \(3 messages"):
            recording.to_arrow("level", type_version=3)
        for wrong in (0, -1, "newest", 1.0, True):
            with pytest.raises(ValueError, match=r"type_version=.* the number of a version, from 1, or latest was"):
                recording.to_arrow("level", type_version=wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="name the topic"):
            recording.to_arrow(type_version=1)


def test_a_damaged_payload_is_an_error_that_names_its_place(tmp_path: Path) -> None:
    plant = Plant(tmp_path / "a.mcap")
    plant.payload("pump", Speed, 0, b"\0\1\0\0too short")
    with (
        Recording(plant.close()) as recording,
        pytest.raises(rtmw.ValueMismatch, match=r"a\.mcap, chunk at byte \d+: plant.Speed.*is damaged"),
    ):
        recording.to_arrow("pump")


def test_planned_says_how_much_is_read_and_reads_no_message(path: Path) -> None:
    with Recording(path) as recording:
        whole = recording.planned()
        before = recording.bytes_read
        some = recording.planned("pump/1", end=BEGIN + 50 * MS)
        assert recording.bytes_read == before
    assert (whole.read.chunks, whole.skipped.chunks) == (len(recording.chunks), 0)
    assert 0 < some.read.chunks < whole.read.chunks == some.read.chunks + some.skipped.chunks
    assert str(some).startswith(f"{some.read.chunks} of {whole.read.chunks} chunks, ")


@pytest.mark.parametrize(
    ("module", "call", "command"),
    [
        ("pyarrow", "to_arrow('t')", r"PyArrow .* needs.*\s+pip install 'rtmw\[arrow\]'"),
        ("pandas", "to_pandas('t')", r"pandas .* needs.*\s+pip install 'rtmw\[pandas\]'"),
        ("polars", "to_polars('t')", r"Polars .* needs.*\s+pip install 'rtmw\[polars\]'"),
    ],
)
def test_without_a_package_the_error_says_how_to_install_it(
    tmp_path: Path, module: str, call: str, command: str
) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 1)
    program = f"import sys; sys.modules[{module!r}] = None; import rtmw; rtmw.Recording({str(path)!r}).{call}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "rtmw.errors.NotInstalled" in done.stderr
    assert re.search(command, done.stderr)
