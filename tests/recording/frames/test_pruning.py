"""Chunks that a condition spares: never one that has a row for which it is true."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.compute as pc

from rtmw.recording import Recording
from tests.recording.frames.mixed import Mixed, Mode
from tests.spark.plant import BEGIN, MS, Plant, speed
from tests.spark.test_versions import first, record, second

NUMBERS: dict[str, tuple[Any, ...]] = {
    "small": (-(1 << 15), -1, 0, 3, (1 << 15) - 1),
    "word": (0, 1, 1 << 31, (1 << 32) - 1),
    "long": (-(1 << 63), -1, 0, (1 << 53) + 1, (1 << 63) - 1),
    "huge": (0, 7, (1 << 53) + 1, 1 << 63, (1 << 64) - 1),
    "single": (-math.inf, -0.0, 0.0, 0.1, 3000.5, math.inf, math.nan),
    "double": (-math.inf, -0.0, 0.1, 2.0**53, 1e300, math.nan),
    "maybe": (0.5, 4.0, math.nan, None),
}
KINDS = {
    "small": pa.int16(),
    "word": pa.uint32(),
    "long": pa.int64(),
    "huge": pa.uint64(),
    "single": pa.float32(),
    "double": pa.float64(),
    "maybe": pa.float64(),
}
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}
files = itertools.count()

values = st.fixed_dictionaries({name: st.sampled_from(choices) for name, choices in NUMBERS.items()})
rows = st.builds(
    lambda numbers, mode, text: Mixed(mode=mode, text=text, **numbers),
    values,
    st.sampled_from([Mode.OFF, Mode.ON]),
    st.sampled_from(["", "a", "3"]),
)
chunks = st.lists(st.lists(rows, min_size=1, max_size=3), min_size=1, max_size=5)


def compared(name: str, sign: str, value: Any) -> Any:
    return SIGNS[sign](pc.field(name), pa.scalar(value, KINDS[name]))


comparisons = st.sampled_from(sorted(NUMBERS)).flatmap(
    lambda name: st.builds(compared, st.just(name), st.sampled_from(sorted(SIGNS)), st.sampled_from(NUMBERS[name]))
)
others = st.one_of(
    st.sampled_from(sorted(NUMBERS)).map(lambda name: pc.field(name).is_null(nan_is_null=True)),
    st.sampled_from(["single", "double"]).map(lambda name: pc.is_nan(pc.field(name))),
    st.sampled_from(["small", "long"]).map(lambda name: pc.field(name).isin([0, -1])),
    st.sampled_from([[0.1], [0.1, 2.5], [1 / 3]]).map(lambda numbers: pc.field("single").isin(numbers)),
    st.sampled_from(["OFF", "ON", "7"]).map(lambda name: pc.field("mode") == name),
    st.sampled_from(["", "a", "9"]).map(lambda text: pc.field("text") > text),
    st.sampled_from([0, 1, 2]).map(lambda number: pc.field("log_time_ns") > BEGIN + number * MS),
    st.just(pc.field("small").cast("float64") >= 2.5),
)
conditions = st.recursive(
    st.one_of(comparisons, others),
    lambda inner: st.one_of(
        st.builds(operator.and_, inner, inner), st.builds(operator.or_, inner, inner), inner.map(operator.invert)
    ),
    max_leaves=4,
)


def written(folder: Path, parts: list[list[Mixed]]) -> Path:
    """Each list in a chunk of its own."""
    plant = Plant(folder / f"{next(files)}.mcap")
    number = itertools.count()
    for part in parts:
        for value in part:
            plant.put("mixed", [next(number)], lambda _, value=value: value)
        plant.writer.flush()
    return plant.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chunks, conditions)
def test_filtered_rows_are_those_of_a_full_scan(tmp_path: Path, parts: list[list[Mixed]], condition: Any) -> None:
    with Recording(written(tmp_path, parts)) as recording:
        found = recording.to_arrow("mixed", columns=["sequence"], filter=condition)
        expected = recording.to_arrow("mixed").filter(condition).select(["sequence"])
    assert found.to_pylist() == expected.to_pylist()


texts = st.one_of(
    st.builds(
        lambda name, sign, value: f"{name} {sign} {value}",
        st.sampled_from(sorted(NUMBERS)),
        st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]),
        st.sampled_from(["0", "-1", "3", "0.1", "3000.5", "1e300", "18446744073709551615", "9007199254740993"]),
    ),
    st.sampled_from(
        [
            "isnan(single)",
            "double = 'NaN'",
            "double > 'Infinity'",
            "maybe IS NULL",
            "mode = 'ON'",
            "text < '3'",
            "single BETWEEN 0 AND 0.1",
            "huge IN (7, 9223372036854775808)",
            "NOT single > 0",
            "double + 1 > 3",
        ]
    ),
)
wheres = st.recursive(
    texts,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        inner.map("NOT ({})".format),
    ),
    max_leaves=4,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chunks, wheres)
def test_sql_answers_as_if_all_were_read(tmp_path: Path, parts: list[list[Mixed]], where: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    from rtmw.recording.frames.sql import QueryError, Tables

    path = written(tmp_path, parts)
    with Recording(path) as recording, duckdb.connect() as connection, Tables([path]) as tables:
        connection.register("mixed", recording.to_arrow("mixed"))
        query = f"SELECT sequence FROM mixed WHERE {where} ORDER BY sequence"
        try:
            expected = connection.sql(query).to_arrow_table().to_pylist()
        except duckdb.Error:  # a number that is none of the column's
            with pytest.raises(QueryError):
                tables.query(query)
        else:
            assert tables.query(query).to_pylist() == expected


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plant = Plant(tmp_path_factory.mktemp("speeds") / "a.mcap", chunk_bytes=2048)
    plant.put("pump", range(3000))
    return plant.close()


def chunks_read(path: Path) -> Iterator[tuple[str, int, int]]:
    from rtmw.recording.frames.sql import Tables

    with Tables([path]) as tables:
        for where in ("rpm > 420", "rpm > 3000", "turns >= 9223372036854778708", "rpm BETWEEN 10 AND 11.0"):
            tables.query(f"SELECT count(*) FROM pump WHERE {where}")
            yield where, tables.planned().read.chunks, tables.planned().skipped.chunks


def test_a_condition_on_a_number_skips_chunks(path: Path) -> None:
    with Recording(path) as recording:
        count = len(recording.chunks)
        spared = recording.planned("pump", filter=pc.field("rpm") > 420)
        assert spared.read.chunks < count / 20
        assert spared.read.chunks + spared.skipped.chunks == count
        assert recording.planned("pump", filter=pc.field("rpm") > 3000).read.chunks == 0
        assert recording.to_arrow("pump", filter=pc.field("rpm") > 3000).num_rows == 0
        before = recording.bytes_read
        assert (
            recording.to_arrow("pump", filter=pc.field("turns") == pa.scalar((1 << 63) + 5, pa.uint64())).num_rows == 1
        )
        assert recording.bytes_read - before < path.stat().st_size / 3


def test_a_condition_of_sql_skips_chunks_too(path: Path) -> None:
    pytest.importorskip("duckdb")
    for where, read, skipped in chunks_read(path):
        assert read < skipped / 20, where


def test_the_plan_of_one_statement_spares_nothing_of_another(path: Path) -> None:
    pytest.importorskip("duckdb")
    from rtmw.recording.frames.sql import Tables

    with Tables([path]) as tables:
        counts = "SELECT count(*) AS n FROM pump"
        assert tables.query(f"{counts} WHERE rpm > 420; {counts}").to_pylist() == [{"n": 3000}]
        joined = "SELECT count(*) AS n FROM pump a JOIN pump b USING (sequence) WHERE a.rpm > 420 AND b.rpm < 10"
        assert tables.query(joined).to_pylist() == [{"n": 0}]
        assert tables.query(counts).to_pylist() == [{"n": 3000}]


def test_ranges_of_versions_of_a_type_are_those_of_the_merged_column(tmp_path: Path) -> None:
    path = record(tmp_path / "a.mcap", (first, range(100)), (second, range(100, 200)))
    with Recording(path) as recording:
        for bound in (3, 14.2, 28, 49.5):
            condition = pc.field("metres") >= bound
            found = recording.to_arrow("level", filter=condition, columns=["sequence"])
            assert found.equals(recording.to_arrow("level").filter(condition).select(["sequence"]))


def test_a_chunk_without_ranges_is_read(tmp_path: Path) -> None:
    plant = Plant(tmp_path / "a.mcap")
    plant.put("pump", range(10))
    plant.writer.flush()
    plant.payload("pump", type(speed(0)), 10, b"\0\1\0\0short")
    with Recording(plant.close()) as recording:
        assert [bool(recording.ranges(chunk)) for chunk in recording.chunks] == [True, False]
        assert recording.planned("pump", filter=pc.field("rpm") > 3000).read.chunks == 1
