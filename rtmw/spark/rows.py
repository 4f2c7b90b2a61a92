"""Rows to messages: on which topic, of which type, due when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rtmw.recording.frames.layout import METADATA
from rtmw.spark.delivery import Delivery

if TYPE_CHECKING:
    import pyarrow as pa

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
