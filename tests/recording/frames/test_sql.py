"""SQL over recordings, with DuckDB."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("duckdb")

import rtmw
from rtmw.recording.frames.sql import QueryError, Tables
from tests.spark.plant import Deep, Plant, Speed, report, speed


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("plant")
    first, second = Plant(folder / "a.mcap"), Plant(folder / "b.mcap")
    first.put("pump/speed", range(2000))
    first.put("report", range(20), report)
    first.payload("deep", Deep, 601, b"\0\1\0\0\0\0\0\0")
    second.put("pump/speed", range(2000, 3000))
    return [first.close(), second.close()]


def test_a_topic_is_a_table_over_all_files(paths: list[Path]) -> None:
    with Tables(paths) as tables:
        answer = tables.query('SELECT pump, count(*) AS n, max(rpm) AS top FROM "pump/speed" GROUP BY 1 ORDER BY 1')
        assert answer.to_pylist() == [{"pump": p, "n": 600, "top": speed(2995 + p).rpm} for p in range(5)]
        assert tables.query("SELECT max(turns) FROM pump_speed").to_pylist() == [{"max(turns)": (1 << 63) + 2999}]
        assert tables.query("SELECT count(*) AS n FROM messages").to_pylist() == [{"n": 3021}]
        assert tables.query("SELECT payload FROM deep").num_rows == 1


def test_conditions_of_a_query_hold_of_its_rows(paths: list[Path]) -> None:
    numbers = range(3000)
    with Tables(paths) as tables:
        for where, rows in {
            "rpm > 300": [n for n in numbers if speed(n).rpm > 300],
            "turns < 9223372036854775818": [*range(10)],
            "state = 'STOPPED' AND pump IN (1, 2)": [n for n in numbers if n % 3 == 0 and n % 5 in (1, 2)],
            "expires IS NOT NULL": [],
            "log_time >= '2025-10-09 08:53:22.5'": [*range(2500, 3000)],
        }.items():
            found = tables.query(f"SELECT sequence FROM pump_speed WHERE {where} ORDER BY sequence")
            assert found["sequence"].to_pylist() == rows, where


def test_what_was_spared_is_said(paths: list[Path]) -> None:
    with Tables(paths) as tables:
        tables.query("SELECT count(*) FROM report")
        spared = tables.planned()
        assert spared.read.chunks < spared.skipped.chunks / 5


def test_a_query_that_cannot_be_answered_is_one_error_with_the_tables(paths: list[Path]) -> None:
    with Tables(paths) as tables:
        with pytest.raises(QueryError, match='There are the tables "deep", "pump/speed", "report", and messages'):
            tables.query("SELECT 1 FROM nowhere")
        with pytest.raises(QueryError, match="Parser Error"):
            tables.query("SELEC")
        with pytest.raises(QueryError, match=r"(?i)permission"):
            tables.query("SELECT * FROM read_csv('/etc/hostname')")


def test_a_damaged_message_is_an_error_of_rtmw(tmp_path: Path) -> None:
    plant = Plant(tmp_path / "a.mcap")
    plant.payload("pump", Speed, 0, b"\0\1\0\0too short")
    with Tables([plant.close()]) as tables, pytest.raises(rtmw.ValueMismatch, match="is damaged"):
        tables.query("SELECT max(rpm) FROM pump")
