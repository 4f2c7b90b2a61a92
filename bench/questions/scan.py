"""How fast does Spark read a recording? All messages of a topic, with typed columns, summed up column by column.

By `rtmw.spark.read`, and by the data source `format("rtmw")`. The same rows lie in Parquet, which Spark reads in the
same session by turns. `ready batches` are the rows of one chunk, made once and handed to Spark again and again: what is
left when rows cost Python nothing. The reader of the MCAP project reads them in a loop of plain Python, where each
message is decoded by its class. Sums have to agree. What counts is a query from `read` or `load` to its result;
starting Spark does not, nor does what the MCAP reader does before its first message.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import rtmw
from bench.cases import FORMAT, MCAP, ONE_PROCESSOR, PARQUET, READY, RTMW, Case, Figures
from bench.role import Role
from bench.spent import shares, spent
from bench.stage import ROOT, Part, Stage
from bench.telemetry import NAMES, TOPIC, Telemetry, as_parquet, batch, recorded

TITLE = "Spark reads a recording"
UNIT = "M messages/s"
SYSTEMS = (RTMW, FORMAT, READY, PARQUET, ONE_PROCESSOR, MCAP)
FOLDER = ROOT / "build" / "bench"
LIMIT = 120.0
TURNS = 2
TASKS, CHUNK = 8, 12_500
"""Of ready batches: how many tasks, and rows in a batch."""
LOOPED = 20_000
"""Messages that the loop in Python reads."""


def cases(quick: bool) -> Sequence[Case]:
    return [Case("eight fields", (RTMW,), {"count": 1_000_000 if quick else 10_000_000})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    """All systems by turns."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    parts = {"files": None, "two_processors": None, "one_processor": stage.processors[0], "loop": None}
    rates: dict[str, tuple[float, str]] = {}
    for part, cpu in parts.items():
        rates |= stage.play("scan", system, [Part(part, case.options, cpu)], limit=LIMIT)[0]
    return {name: Figures(value, note=note) for name, (value, note) in rates.items()}


def files(role: Role) -> dict[str, tuple[float, str]]:
    """Made in the first round, and kept."""
    count = role.options["count"]
    recorded(FOLDER, count), as_parquet(FOLDER, count)
    return {}


def session(processors: int) -> Any:
    return rtmw.spark.session(f"local[{processors}]", memory="2g")


def recording(spark: Any, path: Path, **options: Any) -> Any:
    return rtmw.spark.read(path, spark=spark, topic=TOPIC, columns=NAMES, **options)


def by_format(spark: Any, path: Path) -> Any:
    return spark.read.format("rtmw").load(str(path), topic=TOPIC, columns=",".join(NAMES))


def never_null(made: Any) -> Any:
    """The same batch with columns that are declared so, as those of a recording are: Spark then looks for no null."""
    import pyarrow as pa

    return made.cast(pa.schema([field.with_nullable(False) for field in made.schema]))


def ready(spark: Any, count: int) -> Any:
    """As many rows, of one batch that is there already."""
    from pyspark.sql.pandas.types import from_arrow_schema

    made, times = never_null(batch(0, CHUNK)), count // (CHUNK * TASKS)

    def repeated(numbers: Any) -> Any:
        for part in numbers:
            for _ in range(part.num_rows * times):
                yield made

    return spark.range(0, TASKS, 1, TASKS).mapInArrow(repeated, from_arrow_schema(made.schema))


def sums(frame: Any) -> list[float]:
    from pyspark.sql import functions

    row = frame.agg(*[functions.sum(name) for name in NAMES]).collect()[0]
    return [float(value) for value in row]


def rate(count: int, ask: Callable[[], Any]) -> tuple[float, str, list[float]]:
    """Million messages a second, whose processor time they took, and the sums."""
    before, began = spent(), time.perf_counter()
    found = sums(ask())
    taken = time.perf_counter() - began
    return count / taken / 1e6, shares(before, count), found


def two_processors(role: Role) -> dict[str, tuple[float, str]]:
    count, spark = role.options["count"], session(2)
    path, parquet = recorded(FOLDER, count), as_parquet(FOLDER, count)
    asks = {
        RTMW: lambda: recording(spark, path),
        FORMAT: lambda: by_format(spark, path),
        READY: lambda: ready(spark, count),
        PARQUET: lambda: spark.read.parquet(str(parquet)),
    }
    return fastest(count, asks, {RTMW: PARQUET, FORMAT: PARQUET})


def fastest(count: int, asks: dict[str, Callable[[], Any]], equal: dict[str, str]) -> dict[str, tuple[float, str]]:
    """The best of a few turns, behind one that warms up. `equal`: whose sums have to be whose."""
    best: dict[str, tuple[float, str]] = {}
    for turn in range(TURNS + 1):
        found = {name: rate(count, asks[name]) for name in random.sample([*asks], len(asks))}  # each finds it as warm
        for one, other in equal.items():
            check(found[one][2], found[other][2])
        if turn:
            best = {name: max(best.get(name, (0.0, "")), (speed, note)) for name, (speed, note, _) in found.items()}
    return best


def check(ours: list[float], theirs: list[float]) -> None:
    """Sums of floats depend on the order in which partitions come; nothing else may differ."""
    if any(abs(a - b) > 1e-9 * abs(b) for a, b in zip(ours, theirs, strict=True)):
        raise ValueError(f"the sums differ: {ours} and {theirs}")


def one_processor(role: Role) -> dict[str, tuple[float, str]]:
    """The same turns, with one task at a time and all that Spark starts on one processor."""
    role.pin()
    count, spark = role.options["count"], session(1)
    path = recorded(FOLDER, count)
    turns = [rate(count, lambda: recording(spark, path))[:2] for _ in range(TURNS + 1)]
    return {ONE_PROCESSOR: max(turns[1:])}


def loop(role: Role) -> dict[str, tuple[float, str]]:
    """From the first message on: what the reader does before it is not of each message."""
    from mcap.reader import make_reader

    total = [0.0] * len(NAMES)
    with recorded(FOLDER, role.options["count"]).open("rb") as file:
        messages = make_reader(file).iter_messages()
        next(messages)
        began = time.perf_counter()
        for _, _, message in islice(messages, LOOPED):
            value = Telemetry.deserialize(message.data)
            total = [sum + getattr(value, name) for sum, name in zip(total, NAMES, strict=True)]
    return {MCAP: (LOOPED / (time.perf_counter() - began) / 1e6, "")}
