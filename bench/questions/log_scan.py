"""How fast does Spark read a log? All records, with typed columns, summed up column by column.

The same rows lie in a recording, which Spark reads in the same session by turns, as in `scan`. Sums have to agree. What
counts is a query from `read` to its result; starting Spark does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rtmw
from bench.cases import RECORDING, RTMW, Case, Figures
from bench.questions.scan import FOLDER, fastest, recording, session
from bench.role import Role
from bench.stage import Part, Stage
from bench.telemetry import NAMES, logged, recorded

TITLE = "Spark reads a log"
UNIT = "M records/s"
ROUNDS = 5
LIMIT = 120.0
SYSTEMS = (RTMW, RECORDING)
FILES = "files"


def cases(quick: bool) -> Sequence[Case]:
    return [Case("eight fields", (RTMW,), {"count": 1_000_000 if quick else 10_000_000})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    """Both by turns."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    rates: dict[str, tuple[float, str]] = {}
    for part in (FILES, "queries"):
        rates |= stage.play("log_scan", system, [Part(part, case.options)], limit=LIMIT)[0]
    return {name: Figures(speed, note=note) for name, (speed, note) in rates.items()}


def files(role: Role) -> dict[str, tuple[float, str]]:
    """Made in the first round, and kept."""
    count = role.options["count"]
    recorded(FOLDER, count), logged(FOLDER, count)
    return {}


def log(spark: Any, path: Path) -> Any:
    return rtmw.spark.read(path, spark=spark, columns=NAMES)


def queries(role: Role) -> dict[str, tuple[float, str]]:
    count, spark = role.options["count"], session(2)
    path, folder = recorded(FOLDER, count), logged(FOLDER, count)
    asks = {RTMW: lambda: log(spark, folder), RECORDING: lambda: recording(spark, path)}
    return fastest(count, asks, {RTMW: RECORDING})
