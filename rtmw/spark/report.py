"""The figures of a report, gathered by Spark: for recordings that one process does not hold, and for clusters.

Tasks read chunks as `rtmw.recording.report` does, and one task a topic computes its figures with the same function, so
that a report is the same, to the last digit, whoever has computed it.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

import rtmw.spark
from rtmw.recording import Recording
from rtmw.recording.frames.scan import Run, stream_of
from rtmw.recording.report.facts import Facts
from rtmw.recording.report.figures import KINDS, Gathered, loaded
from rtmw.recording.report.page import HUES, Line, Page, Plot

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from rtmw.recording.report.facts import Contents, Measure, Measured
    from rtmw.recording.report.figures import Grid, Measuring
    from rtmw.recording.tools.copying import Progress


_EVERY_S: Final = 0.5


@contextmanager
def watched(context: SparkContext, tasks: int, progress: Progress) -> Generator[None]:
    """Tells now and then, from a thread of its own, how many of about so many tasks are done."""
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(context.statusTracker(), tasks, progress, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(tracker: Any, tasks: int, progress: Progress, over: threading.Event) -> None:
    stages = set[int]()
    while not over.wait(_EVERY_S):
        try:
            for job in filter(None, map(tracker.getJobInfo, tracker.getActiveJobsIds())):
                stages.update(job.stageIds)
            done = sum(stage.numCompletedTasks for stage in filter(None, map(tracker.getStageInfo, stages)))
        except Exception:  # of py4j, of many kinds: the JVM has ended, and the thread that waits for tasks hears why
            return
        progress(min(done, tasks), tasks)


MOST_ROWS: Final = 48
_SQL: Final = {"u1": "smallint", "i8": "bigint"}
_GATHERED: Final = ", ".join(
    ["topic string", *(f"{name} {_SQL[kind.str[1:]]}" for name, kind in KINDS.items()), "damage string"]
)
"""A row a message; and one without a topic for each chunk that could not be read."""


def measure_in(begin: Callable[[], SparkSession]) -> Measure:
    """The function that measures the topics of recordings in a session, which `begin` gives."""

    def measured(contents: Contents, grid: Grid, progress: Progress) -> Measured:
        return _measured(begin(), contents, contents.measuring(grid), progress)

    return measured


def _measured(session: SparkSession, contents: Contents, measuring: Measuring, progress: Progress) -> Measured:
    tasks = [*_tasks(contents)]
    if not tasks:
        return (), ()
    rows = session.range(0, len(tasks), 1, len(tasks)).mapInArrow(Gathering(tasks), _GATHERED)
    figures = rows.groupBy("topic").applyInArrow(_figures_by(measuring), "topic string, told string")
    all = len(tasks) + int(session.conf.get("spark.sql.shuffle.partitions") or 0)
    with watched(session.sparkContext, all, progress):
        found = figures.collect()
    topics = sorted((row.topic, row.told) for row in found if row.topic is not None)
    return tuple(loaded(told) for _, told in topics), tuple(sorted(row.told for row in found if row.topic is None))


@dataclass(frozen=True)
class _Task:
    """Runs of chunks, each with the number of the first message of its file."""

    runs: tuple[tuple[Run, int], ...]


def _tasks(contents: Contents) -> Iterator[_Task]:
    from rtmw.spark.partitions import Selection, Surveyed, partitions_of

    surveyed, bases = list[Surveyed](), dict[Any, int]()
    for file, base in zip(contents.files, contents.bases, strict=True):
        with Recording(file.info.path) as recording:
            streams = {number: stream_of(recording, one, False) for number, one in recording.channels.items()}
            surveyed.append(Surveyed(file.info.path, recording.chunks, streams))
            bases[file.info.path] = base
    for partition in partitions_of(surveyed, Selection(), None):
        if partition.runs:
            yield _Task(tuple((run, bases[run.path]) for run in partition.runs))


class Gathering:
    """The function that a task calls with its number."""

    def __init__(self, tasks: Sequence[_Task]) -> None:
        self._tasks = [pickle.dumps(task) for task in tasks]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers: list[int] = batch.column(0).to_pylist()
            for number in numbers:
                yield from _gathered(pickle.loads(self._tasks[number]))


def _gathered(task: _Task) -> Iterator[pa.RecordBatch]:
    gathered = Gathered()
    for run, base in task.runs:
        with Recording(run.path) as recording:
            gathered.add(recording, run.chunks, base)
    for topic, rows in gathered.topics():
        yield _batch(topic, rows, [None] * len(rows["place"]))
    if gathered.damage:
        yield _batch(
            None, {name: np.zeros(len(gathered.damage), kind) for name, kind in KINDS.items()}, gathered.damage
        )


def _batch(topic: str | None, rows: Any, damage: Sequence[str | None]) -> pa.RecordBatch:
    columns = [pa.array(rows[name].astype("i2") if kind.itemsize == 1 else rows[name]) for name, kind in KINDS.items()]
    topics = pa.array([topic] * len(damage), pa.string())
    return pa.RecordBatch.from_arrays(
        [topics, *columns, pa.array(damage, pa.string())], names=["topic", *KINDS, "damage"]
    )


def _figures_by(measuring: Measuring) -> Callable[[pa.Table], pa.Table]:
    """The mapper from the messages of one topic to its figures. A function: Spark looks at its annotations."""

    def told_of(table: pa.Table) -> pa.Table:
        topic: str | None = table["topic"][0].as_py()
        if topic is None:
            told = table["damage"].to_pylist()
        else:
            rows = {name: table[name].to_numpy().astype(kind, copy=False) for name, kind in KINDS.items()}
            told = [measuring.figures(topic, rows).dumped()]
        return pa.table({"topic": pa.array([topic] * len(told), pa.string()), "told": pa.array(told, pa.string())})

    return told_of


# ---- what is known about the fields of some types ----


def fields_in(session: SparkSession) -> Callable[[Page, Facts], None]:
    """A section for the messages of rivers and airports (`topics/`), where there are any; not of damaged recordings."""

    def section(page: Page, facts: Facts) -> None:
        if facts.damage or facts.contents.unreadable:
            return

        def rows(type: str) -> DataFrame | None:
            topics = sorted({t.topic for t in facts.contents.run.topics if t.type == type})
            paths = [file.info.path for file in facts.contents.files]
            return rtmw.spark.read(paths, spark=session, topic=topics, incomplete="read") if topics else None

        _river(page, rows("river::Reading"), rows("river::Alarm"))
        _airport(page, rows("airport::Movement"))

    return section


def _river(page: Page, readings: DataFrame | None, raised: DataFrame | None) -> None:
    from rtmw.spark.analyse import river

    if readings is not None:
        page.heading("Water quality, by the hour", "Means of what each station measured, without bad readings.")
        means = river.hourly_means(readings).collect()
        page.plot(_means(means))
        _show(page, means)
    if raised is not None:
        page.heading("Alarms of the river", "From the first message until the value was back inside of its limit.")
        _show(page, river.alarms(raised).limit(MOST_ROWS).collect())


def _means(rows: Sequence[Any]) -> Plot:
    """A line for each station and parameter."""
    hours = sorted({row.hour for row in rows})
    series: dict[str, dict[Any, float]] = {}
    for row in rows:
        series.setdefault(f"{row.station} {row.parameter}", {})[row.hour] = row["mean"]
    times = [int(hour.timestamp()) * 10**9 for hour in hours]
    lines = [Line(name, [found.get(hour) for hour in hours], hue) for hue, (name, found) in enumerate(series.items())]
    return Plot("", times, lines[:HUES])


def _airport(page: Page, movements: DataFrame | None) -> None:
    from rtmw.spark.analyse import airport

    if movements is not None:
        page.heading("Delays", "Minutes; late is a quarter of an hour or more.")
        _show(page, airport.delays(movements).limit(MOST_ROWS).collect())
        page.heading("Delays by the hour", "The hour (UTC) that flights are scheduled for.")
        _show(page, airport.delays_by_hour(movements).limit(MOST_ROWS).collect())


def _show(page: Page, rows: Sequence[Any]) -> None:
    if rows:
        page.table(rows[0].__fields__, [tuple(row) for row in rows[:MOST_ROWS]])
