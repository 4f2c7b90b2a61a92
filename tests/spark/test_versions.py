"""A type that changed under one name: its versions are read as one set of columns, or one of them is chosen."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cyclonedds.idl.types as t
import pytest
from cyclonedds.idl import IdlStruct

import rtmw
from rtmw.errors import RecordingError, UnsupportedType
from rtmw.spark.sink import Delivery, Outlets, Source
from rtmw.spark.stream import RecordingStream, following, stream_options
from tests.spark.plant import Plant, Speed, speed
from tests.spark.query import Query


@dataclass
class First(IdlStruct, typename="plant.Level"):
    metres: t.float32
    gauge: str


@dataclass
class Second(IdlStruct, typename="plant.Level"):
    gauge: str
    metres: t.float64
    is_valid: bool


@dataclass
class Third(IdlStruct, typename="plant.Level"):
    gauge: str
    metres: str


def first(number: int) -> First:
    return First(number / 2, "A")


def second(number: int) -> Second:
    return Second("B", number / 7, True)


def third(number: int) -> Third:
    return Third("C", f"{number} m")


def record(path: Path, *parts: tuple[Any, Iterable[int]], topic: str = "level") -> Path:
    """A recording with messages of these makers and numbers."""
    plant = Plant(path)
    for make, numbers in parts:
        plant.put(topic, numbers, make)
    return plant.close()


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """Version 1 in the file whose name comes last, then both by turns, then version 2."""
    record(tmp_path / "b.mcap", (first, range(10)))
    record(tmp_path / "a.mcap", *[((first, second)[n % 2], [n]) for n in range(10, 20)], (second, range(20, 30)))
    return tmp_path


def test_versions_of_a_type_are_merged_by_the_names_of_their_members(changed: Path) -> None:
    query = Query(changed, topic="level", columns="sequence, metres, gauge, is_valid")
    kinds = [query.schema[name].dataType.simpleString() for name in ("metres", "gauge", "is_valid")]
    assert kinds == ["double", "string", "boolean"]
    rows = {row.pop("sequence"): row for row in query.rows()}
    assert rows == {
        n: {"metres": n / 7, "gauge": "B", "is_valid": True}
        if n >= 20 or (n >= 10 and n % 2)
        else {"metres": n / 2, "gauge": "A", "is_valid": None}
        for n in range(30)
    }


def test_rows_of_several_versions_have_what_the_recording_says_of_them(changed: Path) -> None:
    rows = Query(changed / "a.mcap", topic="level").rows()
    assert [(row["sequence"], row["offset"]) for row in rows] == [(n, n - 10) for n in range(10, 30)]
    assert [row["gauge"] for row in rows] == [*"AB" * 5, *"B" * 10]


@pytest.mark.parametrize(
    ("version", "names", "count"),
    [("1", ["metres", "gauge"], 15), ("2", ["gauge", "metres", "is_valid"], 15), ("latest", None, 15)],
)
def test_a_version_is_chosen_by_its_number(changed: Path, version: str, names: list[str] | None, count: int) -> None:
    query = Query(changed, topic="level", type_version=version)
    assert query.schema.fieldNames()[-len(names or "abc") :] == (names or ["gauge", "metres", "is_valid"])
    assert {row["gauge"] for row in query.rows()} == {"A" if version == "1" else "B"}
    assert len(query.rows()) == count


def test_payloads_of_one_version_can_be_chosen_too(changed: Path) -> None:
    rows = Query(changed, topic="level", type_version="2", typed="false").rows()
    assert len(rows) == 15
    assert all(row["payload"] == second(row["sequence"]).serialize() for row in rows)


def test_versions_without_a_common_column_are_named_and_each_remedy_works(tmp_path: Path) -> None:
    record(tmp_path / "a.mcap", (first, range(10)), (third, range(10, 15)))
    with pytest.raises(UnsupportedType) as error:
        Query(tmp_path, topic="level")
    assert re.search(
        r"no column can hold plant\.Level\.metres: it is float in version 1 and string in version 2; there are "
        r"plant\.Level version 1 \(10 messages on level since 2025-10-09T08:53:20\), "
        r"plant\.Level version 2 \(5 messages on level since [-0-9T:]+\); choose one with "
        r'\.option\("type_version", …\), of 1, 2, or take payloads with \.option\("typed", "false"\)$',
        str(error.value),
    )
    assert len(Query(tmp_path, topic="level", type_version="1").rows()) == 10
    assert Query(tmp_path, topic="level", type_version="2").column("metres")[0] == "10 m"
    assert len(Query(tmp_path, topic="level", typed="false").rows()) == 15


def test_types_of_a_topic_are_listed_and_each_can_be_chosen(tmp_path: Path) -> None:
    record(tmp_path / "a.mcap", (first, range(3)), (second, range(3, 5)), (speed, [7]))
    with pytest.raises(ValueError, match="messages of 2 types are meant") as error:
        Query(tmp_path, topic="level")
    listed = [
        "plant.Level version 1 (3 messages",
        "plant.Level version 2 (2 messages",
        "plant.Speed (1 message on level)",
    ]
    assert [one for one in listed if one not in str(error.value)] == []
    assert len(Query(tmp_path, topic="level", type="plant.Level").rows()) == 5
    assert len(Query(tmp_path, topic="level", type="plant.Speed").rows()) == 1


def test_a_type_without_messages_is_no_version(tmp_path: Path) -> None:
    plant = Plant(tmp_path / "a.mcap")
    plant.channel("level", Third)
    plant.put("level", range(5), first)
    plant.close()
    assert Query(tmp_path, topic="level").schema.fieldNames()[-2:] == ["metres", "gauge"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": "level", "type_version": "3"}, r"there is no version 3; there are plant\.Level version 1 \("),
        ({"topic": "level", "type_version": "0"}, "option type_version='0' is not known: the number of a version"),
        (
            {"type_version": "1"},
            r"type_version chooses among the versions of one type, and 2 are meant: plant\.Level, plant\.Sp",
        ),
    ],
)
def test_a_version_that_is_not_there_is_refused(changed: Path, options: dict[str, str], said: str) -> None:
    record(changed / "c.mcap", (speed, range(3)), topic="speed")
    with pytest.raises(ValueError, match=said):
        Query(changed, **options)


def rows_of(stream: RecordingStream) -> list[Any]:
    parts = stream.partitions({}, stream.reportLatestOffset())
    return [row for part in parts for batch in stream.read(part) for row in batch.column("gauge").to_pylist()]


def test_a_stream_ends_at_a_new_version_unless_it_follows_one(tmp_path: Path) -> None:
    record(tmp_path / "run_0.mcap", (first, range(5)))
    given = {"path": str(tmp_path), "topic": "level", "columns": "gauge"}
    followed = {**given, "type_version": "1"}
    schema = Query(tmp_path, topic="level", columns="gauge").schema
    streams = [RecordingStream(stream_options(one), following(one), schema) for one in (given, followed)]
    record(tmp_path / "run_1.mcap", (second, range(5, 9)), (first, [9]))
    with pytest.raises(RecordingError, match=r"messages of topic 'level' are now of another type, 'plant::Level'"):
        rows_of(streams[0])
    assert rows_of(streams[1]) == ["A"] * 6


def test_rows_of_a_topic_with_two_versions_are_not_published_as_one_of_them(changed: Path, domain: rtmw.Domain) -> None:
    source = Source("level", "plant::Level", str(changed / "a.mcap"), "level")
    with (
        Outlets(Delivery(domain=domain.id)) as outlets,
        pytest.raises(
            UnsupportedType, match=r"a\.mcap has 2 versions of one type for topic 'level': plant::Level; name"
        ),
    ):
        outlets.type_of(source)


def test_the_type_of_a_topic_with_one_version_is_found(tmp_path: Path, domain: rtmw.Domain) -> None:
    path = record(tmp_path / "a.mcap", (speed, range(3)), topic="speed")
    with Outlets(Delivery(domain=domain.id)) as outlets:
        type = outlets.type_of(Source("speed", "plant::Speed", str(path), "speed"))
    assert type.name == "plant::Speed"
    assert Speed.__idl_typename__ == "plant.Speed"
