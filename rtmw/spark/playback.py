"""Rows onto the bus with one clock for all tasks: Spark replays what was recorded."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from uuid import uuid4

from pyspark import BarrierTaskContext

from rtmw.clock import CLOCK
from rtmw.domain import environment_domain
from rtmw.qos import Reliability
from rtmw.spark.ledger import Ledger
from rtmw.spark.sink import (
    Audience,
    Delivered,
    Delivery,
    Outlets,
    Pace,
    by_topic,
    check_columns,
    clock_of,
    deliver,
    here,
    recorded_of,
    say_unheard,
    sources_of,
)
from rtmw.types import resolve

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

LEAD_NS = 1_500_000_000
"""Time from the moment that all tasks are ready to the first message: Spark lets them know within a second."""

COLUMNS = {
    "topic": "string",
    "messages": "int64",
    "bytes": "int64",
    "late_ns": "int64",
    "subscribers": "int64",
    "refused": "string",
}
"""The columns of the report of a task, a row a topic; in the words of Arrow, and of Spark."""
REPORT = "topic string, messages bigint, bytes bigint, late_ns bigint, subscribers bigint, refused string"


class ReplayOptions(TypedDict, total=False):
    """Keywords of `rtmw.spark.replay`; what they mean is said there, and in Delivery."""

    rate: float
    domain: int
    topic: str
    type: Any
    recording: str
    time: str
    priority: int
    lifetime: float
    reliability: Reliability
    max_blocking: float
    subscribers: int
    timeout: float


@dataclass(frozen=True)
class Replayed:
    """The messages that a replay has put on the bus."""

    topics: dict[str, int]
    """Messages by topic."""
    bytes: int
    """Bytes of payload."""
    seconds: float
    """Seconds from the call to the last message; Spark's own work is in it."""
    late: float
    """Seconds that the most belated message was behind its time; 0 without a rate."""
    subscribers: dict[str, int] = field(default_factory=dict[str, int])
    """Subscribers by topic that were matched when its last message was published."""
    refused: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Why other subscribers are not matched, by topic, a sentence each; only topics that have such."""

    @property
    def messages(self) -> int:
        return sum(self.topics.values())


def replay(rows: DataFrame, *, tasks: int | None = None, **options: Unpack[ReplayOptions]) -> Replayed:
    """Publish the rows of a DataFrame, each topic in the order of its times, all by one clock; returns when it is done.

    Rows have the columns `topic` and `log_time`, and `payload` or the fields of the message, as recordings are read.
    `rate`: 1 as recorded (default), 2 twice as fast, 0 as fast as readers take it. `tasks`: publish at the same time,
    each for its share of the topics, and all of them must find a core; None: one for each core, or one on a server of
    Spark Connect. A topic to which nobody
    subscribed, or not as it is published, is a warning of the logger `rtmw`, and in the answer.

    Errors: ValueError (columns, options), and those of the tasks as Spark reports them.
    """
    begin = CLOCK.monotonic()
    delivery = delivery_from(options)
    check_columns(rows.columns, delivery)
    clock = clock_of(rows.columns, delivery)
    if clock is None:
        raise ValueError(f"order needs the column `{delivery.time}`; found {', '.join(rows.columns)}")
    if delivery.topic is not None:
        placed, tasks = rows.repartition(1), 1
    else:
        tasks = tasks_of(rows.sparkSession, tasks, delivery.rate > 0)
        placed = rows.repartition(tasks, "topic")
    ordered = placed.sortWithinPartitions(clock, *(["sequence"] if "sequence" in rows.columns else []))
    found = ordered.mapInArrow(player(delivery), REPORT, barrier=delivery.rate > 0).collect()
    topics: dict[str, int] = {}
    for row in found:
        topics[row.topic] = topics.get(row.topic, 0) + row.messages
    audiences = by_topic((row.topic, Audience(row.subscribers, tuple(json.loads(row.refused)))) for row in found)
    say_unheard(audiences, delivery.domain)
    late = max((row.late_ns for row in found), default=0) / 1e9
    subscribers = {topic: one.subscribers for topic, one in audiences.items()}
    refused = {topic: one.refused for topic, one in audiences.items() if one.refused}
    size = sum(row.bytes for row in found)
    return Replayed(topics, size, CLOCK.monotonic() - begin, late, subscribers, refused)


def tasks_of(session: SparkSession, wanted: int | None, at_once: bool) -> int:
    """ValueError: more than this machine runs at a time, for which Spark would wait ten minutes."""
    context: SparkContext | None = getattr(session, "_sc", None)  # None: nobody knows how many run on a server
    if wanted is None:
        return 1 if context is None else context.defaultParallelism
    cores = cores_of(context.master or "") if at_once and context is not None else None
    if wanted < 1 or (cores is not None and wanted > cores):
        most = "" if cores is None else f" to {cores}, which run at the same time"
        raise ValueError(f"tasks={wanted} is not possible; there may be from 1{most}")
    return wanted


def cores_of(master: str) -> int | None:
    """How many tasks run at a time where Spark is on this machine; None: it is not."""
    found = re.match(r"local(?:$|\[(\d+|\*))", master)
    if found is None:
        return None
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)


def delivery_from(options: ReplayOptions) -> Delivery:
    """The domain and the type are found here, in the program that asks: workers know neither."""
    chosen: dict[str, Any] = {"rate": 1.0, "domain": environment_domain(), **options}
    kind = chosen.get("type")
    if kind is not None and not isinstance(kind, str):
        chosen |= {"type": None, "description": resolve(kind).description}
    return Delivery(**chosen)


def player(delivery: Delivery) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of each task: have its first rows and publishers ready, wait for all others, then play."""
    job = uuid4().hex

    def play(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = here()
        head = next((batch for batch in batches if batch.num_rows), None)
        rows = batches if head is None else chain([head], batches)
        with Ledger(job, 0, task.partitionId()) as ledger, Outlets(delivery) as outlets:
            if head is not None:
                for source in sources_of(head, delivery.topic)[0]:
                    outlets.of(source)
            done = deliver(rows, outlets, common_pace(delivery, head), ledger)
            ledger.forget()
        yield report(done)

    return play


def report(done: Delivered) -> pa.RecordBatch:
    import pyarrow as pa

    rows = list[tuple[Any, ...]]()
    for topic, (messages, size) in done.topics.items():
        audience = done.audience[topic]
        rows.append((topic, messages, size, done.worst_late_ns, audience.subscribers, json.dumps(audience.refused)))
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(COLUMNS.values())]
    return pa.RecordBatch.from_arrays(columns, [*COLUMNS])


def common_pace(delivery: Delivery, head: pa.RecordBatch | None) -> Pace:
    """The earliest row of all tasks is due soon after all of them are ready; rows are sorted, so each knows its own."""
    if not delivery.rate:
        return Pace(0)
    recorded = None if head is None else recorded_of(head, delivery)
    told = BarrierTaskContext.get().allGather(json.dumps([recorded[0] if recorded else None, CLOCK.wall_ns()]))
    firsts, clocks = zip(*map(json.loads, told), strict=True)
    start = max(clocks) + LEAD_NS - CLOCK.wall_ns() + CLOCK.monotonic_ns()
    return Pace(delivery.rate, min((first for first in firsts if first is not None), default=None), start)
