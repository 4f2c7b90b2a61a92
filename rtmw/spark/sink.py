"""Rows onto the bus: which topic, type and time a row has, and by which publisher. Spark's writers publish them, or all
tasks by one clock, as what was recorded is replayed.

When a row is due is its recorded time, moved to now and divided by the rate.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack
from uuid import uuid4

import numpy as np
from pyspark import BarrierTaskContext, TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rtmw.clock import CLOCK, Clock
from rtmw.closing import Closing
from rtmw.columns import arrow_schema, encode
from rtmw.domain import Domain, environment_domain
from rtmw.errors import RtmwError, UnsupportedType, needing_dds
from rtmw.publisher import Publisher
from rtmw.qos import Reliability
from rtmw.recording.frames.layout import METADATA, free_name
from rtmw.spark.ledger import Ledger, forget_job
from rtmw.types import MessageType, from_description, resolve

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from rtmw.recording import Recording


# ---- a task's rows, and Spark's writers around it ----


OF_SPARK = {"path", "checkpointlocation", "queryname"}
"""Options that Spark hands to every format."""

TIMES = ("log_time", "publish_time")


@dataclass(frozen=True)
class Delivery:
    """Where to, of which type, how fast, and with which quality of service."""

    domain: int = 0
    topic: str | None = None
    """Topic of every row; None: the column `topic` has it."""
    type: str | None = None
    """"package.module:Class" of the messages; None: as in the recording that the rows came from."""
    description: bytes | None = None
    """Description of the type, in place of its name: workers need no module for it."""
    recording: str | None = None
    """A recording that has the topics' types; None: that of the column `file`."""
    rate: float = 0.0
    """1: as recorded, 2: twice as fast; 0: as fast as readers take it."""
    time: str = "log_time"
    """The column that paces, if a rate is given."""
    priority: int | None = None
    """None: that of the column `priority`, else 0."""
    lifetime: float | None = None
    """Seconds from the moment it is published."""
    reliability: Reliability = Reliability.RELIABLE
    max_blocking: float = 60.0
    """Seconds that a RELIABLE subscriber may stand still before this fails."""
    subscribers: int = 0
    """Number of subscribers that must be there on each topic before its first message."""
    timeout: float = 60.0
    """Seconds to wait for them."""

    def __post_init__(self) -> None:
        for name in ("rate", "max_blocking", "timeout"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}={getattr(self, name)!r} is not possible; it must be a number from 0")
        if self.time not in TIMES:
            raise ValueError(f"time={self.time!r} is not possible; rows are paced by {' or '.join(TIMES)}")


def as_reliability(text: str) -> Reliability:
    try:
        return Reliability[text.upper()]
    except KeyError:
        known = ", ".join(each.name for each in Reliability)
        raise ValueError(f"reliability {text!r} does not exist; there are {known}") from None


READ: dict[str, Callable[[str], Any]] = {
    "domain": int,
    "topic": str,
    "type": str,
    "recording": str,
    "rate": float,
    "time": str,
    "priority": int,
    "lifetime": float,
    "reliability": as_reliability,
    "max_blocking": float,
    "subscribers": int,
    "timeout": float,
}
"""How the value of an option is made of its text."""


def delivery_of(options: Mapping[str, str]) -> Delivery:
    """The delivery that options ask for. ValueError names the option, what was found and what is possible."""
    chosen: dict[str, Any] = {"domain": environment_domain()}
    for name, text in options.items():
        if name.lower() in OF_SPARK:
            continue
        if name.lower() not in READ:
            raise ValueError(f"option {name!r} is not known; there are {', '.join(READ)}")
        chosen[name.lower()] = value_of(name.lower(), text)
    return Delivery(**chosen)


def value_of(name: str, text: str) -> Any:
    read = READ[name]
    try:
        return read(text)
    except ValueError as error:
        if read is as_reliability:
            raise
        raise ValueError(f"option {name}={text!r} is not possible; it must be a number") from error


PAYLOAD = "payload"


def field_names(names: Sequence[str]) -> list[str]:
    """Columns that are fields of the message; none if rows carry the payload itself."""
    return [] if PAYLOAD in names else [name for name in names if name not in METADATA]


class Source(NamedTuple):
    """Where rows go, and where they say that they come from; what they do not say is None."""

    topic: str
    type: str | None
    file: str | None
    recorded: str | None
    """The topic that they come from."""


@dataclass(frozen=True)
class RowsToPublish:
    """The rows of an Arrow batch; what has a value a row is None where that does not matter."""

    batch: pa.RecordBatch
    sources: list[Source]
    source: Sequence[int]
    """Index in `sources`."""
    recorded: Sequence[int] | None
    """Time in ns, if rows are paced."""
    priority: Sequence[int] | None

    def of(self, index: int) -> tuple[list[int], pa.RecordBatch]:
        """The rows of one source: their numbers, and they themselves."""
        numbers = [row for row, source in enumerate(self.source) if source == index]
        return numbers, self.batch if len(self.sources) == 1 else self.batch.take(numbers)


def check_columns(names: Sequence[str], delivery: Delivery) -> None:
    """ValueError: these columns do not make a message."""
    found = f"found {', '.join(names)}"
    if delivery.topic is None and "topic" not in names:
        raise ValueError(f"no topic: rows need a column `topic`, or the write an option of this name; {found}")
    if PAYLOAD not in names and not field_names(names):
        raise ValueError(f"no content: rows need a column `payload`, or the fields of the message; {found}")
    if delivery.rate and clock_of(names, delivery) is None:
        raise ValueError(f"rate={delivery.rate} needs the column `{delivery.time}`; {found}")


def clock_of(names: Sequence[str], delivery: Delivery) -> str | None:
    """The column that has the time of each row: to the nanosecond, if there is such a one."""
    return next((name for name in (f"{delivery.time}_ns", delivery.time) if name in names), None)


def rows_of(batch: pa.RecordBatch, delivery: Delivery) -> RowsToPublish:
    """The rows to publish in an Arrow batch. ValueError: a row without a topic, or without its time."""
    sources, source = sources_of(batch, delivery.topic)
    return RowsToPublish(batch, sources, source, recorded_of(batch, delivery), priority_of(batch, delivery))


def sources_of(batch: pa.RecordBatch, topic: str | None) -> tuple[list[Source], list[int]]:
    """The distinct sources of the rows, and for each row which."""

    def column(name: str) -> list[Any]:
        return batch.column(name).to_pylist() if name in batch.schema.names else [None] * batch.num_rows

    recorded = column("topic")
    keys = zip(
        recorded if topic is None else [topic] * batch.num_rows, column("type"), column("file"), recorded, strict=True
    )
    known: dict[tuple[Any, ...], int] = {}
    source = [known.setdefault(key, len(known)) for key in keys]
    if any(key[0] is None for key in known):
        raise ValueError("a row has no topic: its column `topic` is null")
    return [Source(*key) for key in known], source


def recorded_of(batch: pa.RecordBatch, delivery: Delivery) -> list[int] | None:
    """Times as Spark has them (microseconds), or as numbers of nanoseconds."""
    clock = clock_of(batch.schema.names, delivery)
    if not delivery.rate or clock is None:
        return None
    column: Any = batch.column(clock)
    if column.null_count:
        raise ValueError(f"a row has no time: its column `{clock}` is null")
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    numbers: list[int] = column.to_pylist()
    return numbers


def priority_of(batch: pa.RecordBatch, delivery: Delivery) -> list[int] | None:
    if delivery.priority is not None or "priority" not in batch.schema.names:
        return None
    numbers: list[int] = batch.column("priority").fill_null(0).to_pylist()
    return numbers


@dataclass
class Pace:
    """Times of one recording against this host's clock."""

    rate: float
    """0: everything is due at once."""
    epoch_ns: int | None = None
    """Recorded time of the first message; None: that of the first row that is waited for."""
    start_ns: int = 0
    """CLOCK_MONOTONIC at which that one is due; only with `epoch_ns`."""
    worst_late_ns: int = 0
    clock: Clock = CLOCK

    def wait(self, recorded_ns: int) -> None:
        """Sleep until a row of this recorded time is due. Late rows follow at once."""
        if not self.rate:
            return
        now = self.clock.monotonic_ns()
        if self.epoch_ns is None:
            self.epoch_ns, self.start_ns = recorded_ns, now
        left = self.start_ns + int((recorded_ns - self.epoch_ns) / self.rate) - now
        if left > 0:
            self.clock.sleep(left / 1e9)
        else:
            self.worst_late_ns = max(self.worst_late_ns, -left)


log = logging.getLogger("rtmw")


@dataclass(frozen=True)
class Audience:
    """Who there was to take the messages of a topic."""

    subscribers: int
    refused: tuple[str, ...]
    """Why others are not matched, a sentence each."""


def by_topic(counted: Iterable[tuple[str, Audience]]) -> dict[str, Audience]:
    """The audience of each topic, which several publishers or tasks have counted."""
    found = dict[str, Audience]()
    for topic, one in counted:
        before = found.get(topic, Audience(0, ()))
        reasons = dict.fromkeys((*before.refused, *one.refused))
        found[topic] = Audience(max(before.subscribers, one.subscribers), tuple(reasons))
    return found


def say_unheard(audiences: Mapping[str, Audience], domain: int) -> None:
    """Warn of each topic whose messages nobody could take, and of each subscriber that was not matched."""
    for topic, audience in audiences.items():
        why = f": {'; '.join(audience.refused)}" if audience.refused else ""
        if not audience.subscribers:
            log.warning("nobody subscribed to topic %r in domain %d%s", topic, domain, why)
        elif why:
            log.warning("topic %r in domain %d has subscribers that are not matched%s", topic, domain, why)


def named_type(name: str) -> MessageType:
    """The type of "package.module:Class". UnsupportedType: there is none."""
    module, _, attribute = name.partition(":")
    if not attribute:
        raise UnsupportedType(f"type {name!r} is not possible; a type is named 'package.module:Class'")
    try:
        with needing_dds("this class"):
            return resolve(getattr(importlib.import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise UnsupportedType(f"type {name!r} cannot be had: {error}; workers have to find its module") from error


class Outlets(Closing):
    """Opens what rows ask for, and keeps it open until the task ends."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self._domain = Domain(delivery.domain)
        self._recordings: dict[str, Recording] = {}
        self._types: dict[Source, MessageType] = {}
        self._open: dict[tuple[str, int], Publisher[Any]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def type_of(self, source: Source) -> MessageType:
        """The type of a source's messages; `bytes` if nothing says another."""
        type = self._types.get(source)
        if type is None:
            type = self._types[source] = self._find_type(source)
        return type

    def _find_type(self, source: Source) -> MessageType:
        if self.delivery.description is not None:
            return from_description(self.delivery.description)
        if self.delivery.type is not None:
            return named_type(self.delivery.type)
        path = self.delivery.recording or source.file
        return resolve(bytes) if path is None else self._recorded_type(path, source)

    def _recorded_type(self, path: str, source: Source) -> MessageType:
        from rtmw.recording import Recording

        if path not in self._recordings:
            self._recordings[path] = Recording(path)
        recording = self._recordings[path]
        topics, found = recording.topics(), dict[int, MessageType]()
        others = () if source.type is None else recording.channels.values()  # a topic that got another name
        for channel in topics.get(source.recorded or "") or topics.get(source.topic) or others:
            type = recording.message_type(channel) or resolve(bytes)
            found[type.identity] = type
        types = [type for type in found.values() if type.name == source.type] or [*found.values()]
        if len(types) != 1:
            names = [*dict.fromkeys(type.name for type in types)]
            what = f"{len(types)} {'versions of one type' if len(names) == 1 else 'types'}"
            raise UnsupportedType(
                f"{path} has {what} for topic {source.topic!r}{': ' if names else ''}{', '.join(names)}; "
                "name one with the option type='package.module:Class'"
            )
        return types[0]

    def of(self, source: Source) -> Publisher[Any]:
        """The publisher for a source's messages. RtmwError: subscribers were asked for, and have not come in time."""
        type = self.type_of(source)
        outlet = self._open.get((source.topic, type.identity))
        if outlet is None:
            outlet = self._open[source.topic, type.identity] = self._opened(source.topic, type)
            self._wait(outlet)
        return outlet

    def _opened(self, topic: str, type: MessageType) -> Publisher[Any]:
        """A publisher of payloads that are in the form of the type already."""
        as_it_is: Any = replace(type, encode=None, decode=None, in_place=None)
        publisher: Publisher[Any] = Publisher(
            topic,
            as_it_is,
            domain=self._domain,
            priority=self.delivery.priority or 0,
            lifetime=self.delivery.lifetime,
            reliability=self.delivery.reliability,
            max_blocking=self.delivery.max_blocking,
        )
        return publisher

    def _wait(self, outlet: Publisher[Any]) -> None:
        wanted, timeout = self.delivery.subscribers, self.delivery.timeout
        if wanted and not outlet.wait_for_subscribers(wanted, timeout):
            raise RtmwError(
                f"topic {outlet.topic!r} in domain {self.delivery.domain} has {outlet.subscribers} subscribers; "
                f"{wanted} were asked for, and have not come in {timeout:g} s"
            )

    def audience(self) -> dict[str, Audience]:
        """The audience of each topic, as it is now."""
        every = ((outlet.topic, outlet.stats()) for outlet in self._open.values())
        return by_topic((topic, Audience(stats.subscribers, stats.refused)) for topic, stats in every)

    def close(self) -> None:
        self._domain.close()
        for recording in self._recordings.values():
            recording.close()


@dataclass
class Delivered(WriterCommitMessage):
    """The messages that a task has put on the bus."""

    topics: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Messages and bytes of payload, by topic."""
    audience: dict[str, Audience] = field(default_factory=dict[str, Audience])
    """Who was there for the messages, by topic, at the end of the task."""
    worst_late_ns: int = 0
    """How far the most belated message was behind its time."""

    def add(self, topic: str, messages: int, size: int) -> None:
        before = self.topics.get(topic, (0, 0))
        self.topics[topic] = before[0] + messages, before[1] + size


def deliver(batches: Iterable[pa.RecordBatch], outlets: Outlets, pace: Pace, ledger: Ledger) -> Delivered:
    """Publish the rows that the ledger has not got. RtmwError: a reader stands still, or subscribers do not come."""
    done = Delivered()
    skip, row = ledger.count[0], 0
    for batch in batches:
        begin = max(skip - row, 0)
        row += batch.num_rows
        if begin < batch.num_rows:
            publish_rows(rows_of(batch.slice(begin), outlets.delivery), outlets, pace, ledger, done)
    done.worst_late_ns = pace.worst_late_ns
    done.audience = outlets.audience()
    return done


def publish_rows(rows: RowsToPublish, outlets: Outlets, pace: Pace, ledger: Ledger, done: Delivered) -> None:
    open_now = [outlets.of(source) for source in rows.sources]
    publish = [outlet.publish for outlet in open_now]
    payloads, priority, count = payloads_of(rows, outlets), rows.priority, ledger.count
    for row, (at, payload) in enumerate(zip(rows.source, payloads, strict=True)):
        if rows.recorded is not None:
            pace.wait(rows.recorded[row])
        if not (publish[at](payload, priority=priority[row]) if priority else publish[at](payload)):
            raise refused(open_now[at], outlets.delivery)
        count[0] += 1
    sizes = np.bincount(rows.source, [*map(len, payloads)], len(rows.sources))
    for source, messages, size in zip(rows.sources, np.bincount(rows.source), sizes, strict=True):
        done.add(source.topic, int(messages), int(size))


def refused(outlet: Publisher[Any], delivery: Delivery) -> RtmwError:
    return RtmwError(
        f"topic {outlet.topic!r}: a RELIABLE subscriber has taken nothing for {delivery.max_blocking:g} s, or the pool "
        f"of domain {delivery.domain} is full. `rtmw topic queue {outlet.topic}` shows who holds what; the option "
        "max_blocking waits longer"
    )


def payloads_of(rows: RowsToPublish, outlets: Outlets) -> list[Any]:
    """A payload a row: the column of this name, or the fields in the form of the topic's type."""
    if field_names(rows.batch.schema.names):
        return encoded(rows, outlets)
    payloads: list[Any] = rows.batch.column(PAYLOAD).to_pylist()
    if None in payloads:
        raise ValueError("a row has no payload: its column `payload` is null")
    return payloads


def encoded(rows: RowsToPublish, outlets: Outlets) -> list[Any]:
    """Encoded in bulk, and lent from there."""
    payloads: list[Any] = [None] * rows.batch.num_rows
    for index, source in enumerate(rows.sources):
        type = outlets.type_of(source)
        if type.kind == "bytes":
            raise UnsupportedType(
                f"topic {source.topic!r}: of which type are messages with these fields? Give the option "
                "type='package.module:Class', a recording, or a column `file` that names one"
            )
        numbers, batch = rows.of(index)
        data, positions, sizes = encode(members_of(batch, type), type)
        memory = memoryview(data)
        for row, position, size in zip(numbers, positions.tolist(), sizes.tolist(), strict=True):
            payloads[row] = memory[position : position + size]
    return payloads


def members_of(batch: pa.RecordBatch, type: MessageType) -> pa.RecordBatch:
    """The members of a type, by their own names: a read gives another one where its own columns have it already."""
    import pyarrow as pa

    taken: dict[str, Any] = dict(METADATA)
    members: dict[str, Any] = {}
    for member in arrow_schema(type).names:
        name = free_name(member, taken)
        taken[name] = None
        if name in batch.schema.names:
            members[member] = batch.column(name)
    return pa.RecordBatch.from_arrays([*members.values()], [*members])


def here() -> TaskContext:
    """The task that this worker runs."""
    context = TaskContext.get()
    if context is None:
        raise RtmwError("rows are published by tasks of Spark, and this is none")
    return context


def writable(schema: StructType, overwrite: bool, options: MutableMapping[str, str]) -> Delivery:
    """The delivery that the options ask for; checks that these columns can be published at all."""
    if overwrite:
        raise ValueError("messages cannot be overwritten: .mode('append') is the one there is, and for streams as well")
    delivery = delivery_of(options)
    check_columns(schema.fieldNames(), delivery)
    return delivery


class BusWriter(DataSourceArrowWriter):
    """`df.write.format("rtmw")`: each task publishes its rows in their order, and paces them by itself."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._job = uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Delivered:
        with Ledger(self._job, 0, here().partitionId()) as ledger, Outlets(self._delivery) as outlets:
            done = deliver(iterator, outlets, Pace(self._delivery.rate), ledger)
            ledger.forget()
        return done

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Spark has all tasks' messages on the bus; say who could not take them."""
        done = (one.audience.items() for one in messages if isinstance(one, Delivered))
        say_unheard(by_topic(chain.from_iterable(done)), self._delivery.domain)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """The job is given up: no task of it is run again, and what was counted on this host is of no use."""
        forget_job(self._job)


class BusStreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("rtmw")`: the same for each batch. One that is run again goes on where it was."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Delivered:
        task = here()
        query, batch = task.getLocalProperty("sql.streaming.queryId"), task.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise RtmwError("a stream's task does not know its batch; this version of Spark is not one rtmw can use")
        with Ledger(query, int(batch), task.partitionId()) as ledger, Outlets(self._delivery) as outlets:
            ledger.forget_before(int(batch))
            return deliver(iterator, outlets, Pace(self._delivery.rate), ledger)


# ---- all tasks by one clock: Spark replays what was recorded ----


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
    Spark Connect. A topic to which nobody subscribed is a warning of the logger `rtmw`, and in the answer. Errors:
    ValueError (columns, options), and those of the tasks as Spark reports them.
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
