"""A task's rows onto the bus, and Spark's writers around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rtmw.columns import arrow_schema, encode
from rtmw.errors import RtmwError, UnsupportedType
from rtmw.publisher import Publisher
from rtmw.recording.frames.layout import METADATA, free_name
from rtmw.spark.delivery import Delivery, delivery_of
from rtmw.spark.ledger import Ledger, forget_job
from rtmw.spark.outlets import Audience, Outlets, by_topic, say_unheard
from rtmw.spark.pace import Pace
from rtmw.spark.rows import PAYLOAD, RowsToPublish, check_columns, field_names, rows_of
from rtmw.types import MessageType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


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
