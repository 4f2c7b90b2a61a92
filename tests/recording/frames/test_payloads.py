"""JSON and protobuf recordings of others as columns, everywhere: tables, SQL, Spark, export, ingest, plot, check."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("mcap_protobuf")

import pyarrow as pa
import pyarrow.parquet as pq
from foxglove_schemas_protobuf.Log_pb2 import Log
from foxglove_schemas_protobuf.PoseInFrame_pb2 import PoseInFrame
from foxglove_schemas_protobuf.SceneUpdate_pb2 import SceneUpdate
from mcap.reader import make_reader
from mcap.writer import Writer
from mcap_protobuf.decoder import DecoderFactory
from mcap_protobuf.writer import Writer as ProtobufWriter

from rtmw.errors import ValueMismatch
from rtmw.recording import Recording
from rtmw.recording.catalog import Topic
from rtmw.recording.frames.scan import ALL
from rtmw.recording.frames.sql import Tables
from rtmw.recording.recordings import info
from rtmw.recording.tools.check import check
from rtmw.recording.tools.export import export_parquet
from rtmw.recording.tools.series import series
from rtmw.recording.tools.tables import Section
from tests.spark.query import Query

START = 1_700_000_000 * 10**9
MS = 10**6
POSES = 3000
LEVEL = {"type": "object", "title": "Level", "properties": {"metres": {"type": "number"}, "gauge": {"type": "string"}}}
NEWER = {**LEVEL, "properties": {**LEVEL["properties"], "valid": {"type": "boolean"}}}


def pose(number: int) -> PoseInFrame:
    made = PoseInFrame(frame_id=f"frame {number}")
    made.timestamp.FromNanoseconds(START + number * MS)
    made.pose.position.x = number / 8
    return made


def scene(number: int) -> SceneUpdate:
    made = SceneUpdate()
    entity = made.entities.add(id=str(number), frame_locked=True)
    entity.lifetime.FromMilliseconds(1500)
    entity.cubes.add().color.a = 0.5
    entity.metadata.add(key="a", value="b")
    return made


@pytest.fixture(scope="module")
def protobufs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("protobuf") / "drive.mcap"
    with path.open("wb") as file, ProtobufWriter(file, chunk_size=50_000) as writer:
        for number in range(POSES):
            writer.write_message("pose", pose(number), START + number * MS, START + number * MS)
        for number in range(5):
            writer.write_message("scene", scene(number), START + number, START + number)
            writer.write_message("log", Log(level=3, message="x", line=7), START + number, START + number)
    return path


def write_json(path: Path, *parts: tuple[str, Any, list[bytes]]) -> Path:
    """A recording of topics, each with a schema (None: without) and payloads; a topic may come several times."""
    with path.open("wb") as file:
        writer, now = Writer(file, chunk_size=2000), START
        writer.start()
        for topic, schema, payloads in parts:
            number = 0 if schema is None else writer.register_schema("Level", "jsonschema", json.dumps(schema).encode())
            channel = writer.register_channel(topic, "json", number)
            for payload in payloads:
                now += MS
                writer.add_message(channel, now, payload, now)
        writer.finish()
    return path


def levels(numbers: range, **more: Any) -> list[bytes]:
    return [json.dumps({"metres": number / 4, "gauge": "A", **more}).encode() for number in numbers]


@pytest.fixture(scope="module")
def jsons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("json")
    parts = ("level", LEVEL, levels(range(200))), ("level", NEWER, levels(range(200, 300), valid=True))
    return write_json(folder / "river.mcap", *parts, ("free", None, [b'{"a": 1}', b"[2]"]))


def test_foxgloves_schemas_become_columns_of_what_their_decoder_reads(protobufs: Path) -> None:
    with Recording(protobufs) as recording, protobufs.open("rb") as file:
        table = recording.to_arrow("pose")
        read = make_reader(file, decoder_factories=[DecoderFactory()]).iter_decoded_messages("pose")
        for row, (_, _, message, value) in zip(table.to_pylist(), read, strict=True):
            assert row["pose"]["position"] == {name: getattr(value.pose.position, name) for name in "xyz"}
            assert (row["frame_id"], row["log_time_ns"]) == (value.frame_id, message.log_time)
            assert row["timestamp"] == value.timestamp.ToDatetime(UTC)
            assert row["pose"]["orientation"] is None
        (entity,) = recording.to_arrow("scene", columns=["entities"]).to_pylist()[3]["entities"]
        (line,) = {(row["level"], row["line"]) for row in recording.to_arrow("log").to_pylist()}
    assert (entity["id"], entity["lifetime"]) == ("3", timedelta(milliseconds=1500))
    assert entity["cubes"][0]["color"]["a"] == 0.5
    assert line == ("WARNING", 7)


def test_pandas_and_polars_have_them(protobufs: Path, jsons: Path) -> None:
    pytest.importorskip("polars")
    with Recording(protobufs) as recording:
        assert recording.to_pandas("pose")["pose"][8]["position"]["x"] == 1.0
        assert recording.to_polars("scene")["entities"][0][0]["lifetime"] == timedelta(milliseconds=1500)
    with Recording(jsons) as recording:
        assert recording.to_pandas("level")["metres"].sum() == sum(range(300)) / 4


def test_versions_of_a_json_schema_are_merged_by_name(jsons: Path) -> None:
    with Recording(jsons) as recording:
        rows = recording.to_arrow("level", columns=["metres", "valid"]).to_pylist()
        first = recording.to_arrow("level", type_version=1)
    assert [row["valid"] for row in rows] == [None] * 200 + [True] * 100
    assert (first.num_rows, first.column_names[-2:]) == (200, ["metres", "gauge"])
    assert {(topic.topic, topic.version): topic.problem for topic in info(jsons).topics} == {
        ("free", 1): None,
        ("level", 1): None,
        ("level", 2): None,
    }


def test_json_without_a_schema_is_one_column_of_text(jsons: Path) -> None:
    with Recording(jsons) as recording:
        assert recording.to_arrow("free", columns=["value"]).to_pydict() == {"value": ['{"a": 1}', "[2]"]}


def test_sql_selects_by_members_of_json_and_protobuf(protobufs: Path, jsons: Path) -> None:
    pytest.importorskip("duckdb")
    with Tables([jsons, protobufs]) as tables:
        assert tables.query("SELECT count(*), max(metres) FROM level WHERE valid").to_pylist() == [
            {"count_star()": 100, "max(metres)": 299 / 4}
        ]
        query = "SELECT pose.position.x AS x FROM pose WHERE timestamp = TIMESTAMPTZ '2023-11-14 22:13:20.016Z'"
        assert tables.query(query).to_pylist() == [{"x": 2.0}]
        assert tables.query("SELECT value->>'$.a' AS a FROM free").to_pylist() == [{"a": "1"}, {"a": None}]


def test_tasks_of_spark_read_members_of_json_and_protobuf(protobufs: Path, jsons: Path) -> None:
    pytest.importorskip("pyspark")
    rows = Query(protobufs, topic="pose").rows()
    assert [row["pose"]["position"]["x"] for row in rows] == [number / 8 for number in range(POSES)]
    assert rows[3]["timestamp"] == datetime.fromtimestamp(1_700_000_000, UTC) + timedelta(milliseconds=3)
    (entity,) = Query(protobufs, topic="scene").rows()[0]["entities"]
    assert entity["lifetime"] == timedelta(milliseconds=1500)
    assert sum(row["metres"] for row in Query(jsons, topic="level").rows()) == sum(range(300)) / 4


def test_exported_parquet_has_members_of_json_and_protobuf(protobufs: Path, jsons: Path, tmp_path: Path) -> None:
    export_parquet([protobufs, jsons], tmp_path / "out", Section())
    found = {path.parts[-3]: pq.ParquetFile(path).read() for path in (tmp_path / "out").rglob("*.parquet")}
    assert found["topic=pose"]["pose"][8].as_py()["position"]["x"] == 1.0
    assert found["topic=scene"]["entities"][0].as_py()[0]["lifetime"] == timedelta(milliseconds=1500)


def test_ingested_rows_have_no_types_that_delta_lacks(protobufs: Path) -> None:
    with Recording(protobufs) as recording:
        ((_, (batch,)),) = [found for found in Topic.of(recording, "scene").rows(recording, 0) if found[1]]
    entities = batch.schema.field("entities").type.value_type
    assert entities.field("lifetime").type == pa.int64()
    assert batch.column("entities")[0].as_py()[0]["lifetime"] == 1_500_000


def test_a_plot_has_numbers_of_json_and_protobuf(protobufs: Path, jsons: Path) -> None:
    with Recording(protobufs) as drive, Recording(jsons) as river:
        assert series([drive], "pose.pose.position.x", ALL).values.tolist() == [n / 8 for n in range(POSES)]
        assert len(series([river], "level.metres", ALL).values) == 300


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    payloads = levels(range(300))
    payloads[100] = b'{"metres": "no number"}'
    payloads[200] = b"\xff"
    return write_json(tmp_path / "broken.mcap", ("level", LEVEL, payloads), ("fine", LEVEL, levels(range(3))))


def test_a_damaged_payload_is_an_error_a_row_without_members_or_no_row(broken: Path) -> None:
    with Recording(broken) as recording:
        with pytest.raises(ValueMismatch, match=r"chunk at byte \d+: Level: the payload of row \d+.*metres"):
            recording.to_arrow("level")
        null = recording.to_arrow("level", mode="PERMISSIVE", columns=["offset", "metres", "gauge"]).to_pylist()
        dropped = recording.to_arrow("level", mode="dropmalformed", columns=["offset", "metres"]).to_pydict()["offset"]
        with pytest.raises(ValueError, match="one of FAILFAST, PERMISSIVE, DROPMALFORMED was expected"):
            recording.to_arrow("level", mode="hope")
    assert [row["offset"] for row in null if row["metres"] is None] == [100, 200]
    assert dropped == [row for row in range(300) if row not in (100, 200)]


def test_check_counts_payloads_that_are_no_messages_of_their_type(broken: Path, protobufs: Path) -> None:
    assert check(protobufs).problems == []
    checked = check(broken)
    assert checked.undecodable == {"level": 2}
    (problem,) = checked.problems
    assert "level: 2 payloads cannot be decoded; chunk at byte " in problem
    assert "$.metres" in problem


def test_a_schema_that_cannot_be_read_is_said_and_payloads_stay(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.mcap", ("level", {"$ref": "#"}, [b"1"]))
    path.write_bytes(path.read_bytes())
    with Recording(path) as recording:
        assert recording.to_arrow("level", columns=["value"]).to_pydict() == {"value": ["1"]}
    path = tmp_path / "b.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start()
        schema = writer.register_schema("plant.Speed", "protobuf", b"\xff")
        writer.add_message(writer.register_channel("pump", "protobuf", schema), START, b"x", START)
        writer.finish()
    with Recording(path) as recording:
        with pytest.raises(TypeError, match=r"schema of plant\.Speed cannot be read.*typed=False gives payloads"):
            recording.to_arrow("pump")
        assert recording.to_arrow("pump", typed=False)["payload"].to_pylist() == [b"x"]
    assert [problem for problem in check(path).problems if "pump: the protobuf schema" in problem]


def spent(call: Callable[[], object]) -> float:
    """Processor time of this process: other programs have no part in it."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def test_columns_are_there_before_mcaps_own_decoder_has_read_the_messages(protobufs: Path) -> None:
    def decoded() -> Iterator[Any]:
        with protobufs.open("rb") as file:
            yield from make_reader(file, decoder_factories=[DecoderFactory()]).iter_decoded_messages("pose")

    with Recording(protobufs) as recording:
        turns = [
            (spent(lambda: recording.to_arrow("pose")), spent(lambda: sum(1 for _ in decoded()))) for _ in range(5)
        ]
    ours, theirs = (min(times) for times in zip(*turns, strict=True))
    assert ours < theirs
