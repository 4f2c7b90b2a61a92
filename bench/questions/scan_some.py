"""How long does Spark take for a query that needs a part of a recording? By conditions on a number that grows, and by
one column of eight; beside the same query of the same rows in Parquet, in the same session by turns.

Parquet keeps the least and the largest value of each million rows, and a recording those of each chunk. Sums have to
agree. What counts is a query from `read` to its result: the shortest of a few turns behind two that warm up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import rtmw
from bench.cases import PARQUET, RTMW, Case, Figures
from bench.questions import scan
from bench.role import Role
from bench.stage import Part, Stage
from bench.telemetry import NAMES, TOPIC, as_parquet, recorded

TITLE = "Spark answers a query of a part of a recording"
UNIT = "ms"
SYSTEMS = (RTMW, PARQUET)
WARMING, TURNS = 2, 4
STAMP = 100
"""By how much `stamp` grows from row to row."""


def cases(quick: bool) -> Sequence[Case]:
    options = scan.cases(quick)[0].options
    shares = {"1 % by a number": 100, "0.1 % by a number": 1000}
    wanted = {name: {"parts": parts, "columns": NAMES} for name, parts in shares.items()}
    wanted["one column of eight"] = {"parts": 1, "columns": ("flow",)}
    return [Case(name, (RTMW,), {**options, **more}) for name, more in wanted.items()]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    scan.FOLDER.mkdir(parents=True, exist_ok=True)
    stage.play("scan", system, [Part("files", case.options)], limit=scan.LIMIT)
    answered = stage.play("scan_some", system, [Part("by_turns", case.options)], limit=scan.LIMIT)[0]
    return {name: Figures(milliseconds, note=note) for name, (milliseconds, note) in answered.items()}


def by_turns(role: Role) -> dict[str, tuple[float, str]]:
    count, columns, spark = role.options["count"], list(role.options["columns"]), scan.session(2)
    path, parquet = recorded(scan.FOLDER, count), str(as_parquet(scan.FOLDER, count))
    frames = {
        RTMW: lambda: some(rtmw.spark.read(path, spark=spark, topic=TOPIC), role.options),
        PARQUET: lambda: some(spark.read.parquet(parquet), role.options),
    }
    best = dict.fromkeys(frames, float("inf"))
    for turn in range(WARMING + TURNS):
        found = {name: timed(frame, columns) for name, frame in frames.items()}
        scan.check(found[RTMW][1], found[PARQUET][1])
        if turn >= WARMING:
            best = {name: min(best[name], milliseconds) for name, (milliseconds, _) in found.items()}
    notes = {RTMW: str(rtmw.spark.scanned(frames[RTMW]())), PARQUET: ""}
    return {name: (milliseconds, notes[name]) for name, milliseconds in best.items()}


def some(frame: Any, options: dict[str, Any]) -> Any:
    """The rows from 47 % of the recording on, as many as are wanted, and the columns."""
    count, parts = options["count"], options["parts"]
    if parts > 1:
        begin = count * 47 // 100 * STAMP
        frame = frame.where(f"stamp >= {begin} and stamp < {begin + count // parts * STAMP}")
    return frame.select(*options["columns"])


def timed(ask: Callable[[], Any], columns: Sequence[str]) -> tuple[float, list[float]]:
    """Milliseconds, and the sums."""
    from pyspark.sql import functions

    began = time.perf_counter()
    row = ask().agg(*[functions.sum(name) for name in columns]).collect()[0]
    return 1e3 * (time.perf_counter() - began), [float(value) for value in row]
