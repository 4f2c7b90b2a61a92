"""What is read from DuckDB's plan never says more than the query: a chunk that is skipped has no row of the answer."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rtmw.recording.frames.sql import hint_of

duckdb = pytest.importorskip("duckdb")

TABLE = pa.table({"a": [1.0, 2.0, 3.0], "b": [1.0, 5.0, 2.0], "s": ["x", "y", "z"], "n": [1, 2, 3]})


def hint(condition: str) -> str:
    with duckdb.connect() as connection:
        connection.register("rows", TABLE)
        ((_, plan),) = connection.execute(f"EXPLAIN (FORMAT json) SELECT * FROM rows WHERE {condition}").fetchall()
    return str(hint_of(plan, TABLE.schema)).replace("999999999999999", "").replace("000000000000000", "")


@pytest.mark.parametrize(
    "condition",
    [
        "a > 1.5 OR b > 4", "a NOT BETWEEN 1 AND 2", "a <> 2", "abs(a) > 2", "a > b", "a IN (1.0, 3.0)", "-a > 1",
        "a IS NULL OR a > 2", "CASE WHEN a > 2 THEN true ELSE b > 3 END", "n > 1", "s = '(a > 2)'",
    ],
)  # fmt: skip
def test_of_other_conditions_than_bounds_that_all_hold_nothing_is_said(condition: str) -> None:
    assert hint(condition) == "None"


@pytest.mark.parametrize(
    ("condition", "about"),
    [
        ("a > 1.5 AND b > 4", {"a >=", "b >="}),
        ("NOT (a > 1.5)", {"a <="}),
        ("(a > 1 OR b > 1) AND b < 3", {"b <="}),
        ("a > 1 AND (b > 2 OR s = 'x AND (a > 7)')", {"a >="}),
        ("a > 1 AND NOT (b > 2 AND a < 7)", {"a >="}),
        ("s = ') AND (b > 7)' AND a > 1", {"a >="}),
        ("a BETWEEN 1 AND 2", {"a >=", "a <="}),
    ],
)
def test_of_bounds_that_all_hold_each_is_said_and_no_other(condition: str, about: set[str]) -> None:
    told = hint(condition)
    assert {word for word in ("a >=", "a <=", "b >=", "b <=") if word in told} == about
