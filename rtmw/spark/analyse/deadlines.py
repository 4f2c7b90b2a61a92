"""Messages that came too late: for a deadline between messages, and for the lifetime of a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rtmw.recording.places import place
from rtmw.spark.analyse.rates import MS, with_gaps
from rtmw.spark.analyse.span import Moment, Span
from rtmw.spark.analyse.times import NS, PUBLISHED, nanoseconds

if TYPE_CHECKING:
    import pyarrow as pa


def deadline_misses(
    messages: DataFrame,
    deadline: float | Mapping[str, float],
    *,
    time: str = PUBLISHED,
    since: Moment = None,
    until: Moment = None,
    known: Sequence[str] = (),
) -> DataFrame:
    """One row a topic: how often a message came later than so many seconds after the one before, or not at all.

    `deadline` is for all topics, or by topic; topics without one are left out. `topic`, `messages`, `deadline_s`,
    `misses`, `longest_s` without a message, `over_s`: all the time by which deadlines were overrun. The time behind the
    last message counts, until the recording's end, and of the topics in `known`, which were there when it began, the
    time before the first. `since`, `until`: when that was; None: the first and last message of any topic.
    """
    gaps = with_gaps(messages, time).selectExpr("topic", "gap_ns", "1L AS message")
    ends = Span(since, until, known).open_gaps(messages, time).selectExpr("topic", "end_ns - begin_ns", "0L")
    limited = gaps.unionAll(ends).withColumn("deadline_ns", _deadlines(deadline)).where("deadline_ns IS NOT NULL")
    found = limited.withColumn("over_ns", F.expr("greatest(gap_ns - deadline_ns, 0L)")).groupBy("topic", "deadline_ns")
    return (
        found.agg(
            F.sum("message").alias("messages"),
            F.expr("count_if(over_ns > 0) AS misses"),
            F.expr(f"max(gap_ns) / {NS}D AS longest_s"),
            F.expr(f"coalesce(sum(over_ns), 0L) / {NS}D AS over_s"),
        )
        .selectExpr("topic", "messages", f"deadline_ns / {NS}D AS deadline_s", "misses", "longest_s", "over_s")
        .orderBy("topic")
    )


def _deadlines(deadline: float | Mapping[str, float]) -> Column:
    if not isinstance(deadline, Mapping):
        return F.lit(nanoseconds(deadline))
    pairs = [F.lit(part) for topic, seconds in deadline.items() for part in (topic, nanoseconds(seconds))]
    return F.create_map(*pairs)[F.col("topic")]


def lifetime_misses(messages: DataFrame) -> DataFrame:
    """One row a topic with messages that have a lifetime: `topic`, `messages` (of those), `late`, `share`, `worst_ms`,
    `expired`.

    Late ones were over before the recorder had them; to a microsecond. `worst_ms` is null if none was. `expired`: how
    many more were over before the recorder came to them, so that they are in no recording. The recordings that the
    column `file` names say how many, for all of their time; null: there is no such column. `share`: late and expired
    ones of all.
    """
    over = F.expr("unix_micros(log_time) - unix_micros(expires)")
    has_files = "file" in messages.columns
    found = messages.withColumn("over_us", over).groupBy("topic")
    counted = found.agg(
        F.count("over_us").alias("messages"),
        F.expr("count_if(over_us > 0) AS late"),
        F.expr(f"max(CASE WHEN over_us > 0 THEN over_us END) / {MS / 1e3!r}D AS worst_ms"),
        F.expr(f"{'collect_set(file)' if has_files else 'array()'} AS files"),
    )
    if has_files:
        schema = "topic string, messages long, late long, worst_ms double, files array<string>, expired long"
        counted = counted.repartition(1).mapInArrow(_with_expired, schema)
    else:
        counted = counted.withColumn("expired", F.lit(None).cast("long"))
    missed, sent = "late + coalesce(expired, 0L)", "messages + coalesce(expired, 0L)"
    share = f"({missed}) / ({sent}) AS share"
    return (
        counted.where(f"{sent} > 0")
        .selectExpr("topic", "messages", "late", share, "worst_ms", "expired")
        .orderBy("topic")
    )


def _with_expired(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Adds, by topic, how many messages the recorders of all files missed because their lifetime was over."""
    import pyarrow as pa

    from rtmw.recording.tools.info import info

    rows = pa.Table.from_batches(batches) if (batches := [*batches]) else None
    if rows is None:
        return
    expired = Counter[str]()
    for path in sorted({path for files in rows.column("files").to_pylist() for path in files}):
        for topic in info(place(path)).topics:
            expired[topic.topic] += topic.missing.get("expired", 0)
    column = pa.array([expired[topic] for topic in rows.column("topic").to_pylist()], pa.int64())
    yield from rows.append_column("expired", column).to_batches()
