"""The columns of a read: what a recording says of each message, and the members of the messages or their payloads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from rtmw import columns
from rtmw.recording import arrow
from rtmw.spark.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from rtmw.columns.program import Unsigned

METADATA: Final = {
    field.name: field
    for field in (
        pa.field("topic", pa.string(), False),
        arrow.METADATA["log_time"],
        arrow.METADATA["publish_time"],
        arrow.METADATA["sequence"],
        arrow.METADATA["priority"],
        arrow.METADATA["publisher"],
        arrow.METADATA["expires"],
        pa.field("file", pa.string(), False),
        pa.field("offset", pa.int64(), False),
        arrow.METADATA["log_time_ns"],
        arrow.METADATA["publish_time_ns"],
        pa.field("type", pa.string(), False),
        pa.field("payload", pa.binary(), False),
    )
}
"""What each message has. `offset`: its number in the file; `expires`: null is never; `publisher`: 64 bits as a long."""

UNTYPED: Final = ("type", "payload")
"""Usual only where messages have no columns of their own."""

NULLS: Final = re.compile(r'"(nullable|containsNull)":(true|false),?')
"""Of a type in Spark's JSON: what a user's own schema need not say as we do."""


@dataclass(frozen=True)
class Column:
    """A column of the read, and where its values come from."""

    name: str
    member: int | None
    """Which member of the message; None: metadata of that name."""
    field: pa.Field


@dataclass(frozen=True)
class Layout:
    """All columns that there are, and which of them are read if nothing else is said."""

    columns: dict[str, Column]
    usual: tuple[str, ...]

    def chosen(self, names: tuple[str, ...]) -> tuple[Column, ...]:
        """Columns by name, in any case, as Spark's are. Raises ValueError for one that there is not."""
        found = {name.lower(): column for name, column in self.columns.items()}
        missing = [name for name in names if name.lower() not in found]
        if missing:
            raise ValueError(f"there is no column {missing[0]!r}; there are {', '.join(self.columns)}")
        return tuple(found[name.lower()] for name in names or self.usual)


def unsigned_of(options: ReadOptions) -> Unsigned:
    return "long" if options.unsigned == "long" else "widen"


def layout_of(descriptions: tuple[bytes, ...], options: ReadOptions) -> Layout:
    """The columns for messages of a type, by its versions; none: of different types. Raises UnsupportedType."""
    if not descriptions:
        found = {name: Column(name, None, field) for name, field in METADATA.items()}
        return Layout(found, tuple(found))
    members = columns.merged_versions(descriptions, unsigned_of(options)).schema(options.mode != "FAILFAST")
    found = {name: Column(name, None, field) for name, field in METADATA.items()}
    usual = [name for name in METADATA if name not in UNTYPED]
    for place, field in enumerate(members):
        name = free_name(field.name, found)
        found[name] = Column(name, place, pa.field(name, field.type, field.nullable))
        usual.append(name)
    return Layout(found, tuple(usual))


def free_name(name: str, taken: dict[str, Column]) -> str:
    """Spark does not tell `Topic` from `topic`; whoever comes second is called `Topic_`."""
    lower = {known.lower() for known in taken}
    while name.lower() in lower:
        name += "_"
    return name


def spark_schema(chosen: tuple[Column, ...]) -> StructType:
    return from_arrow_schema(pa.schema([column.field for column in chosen]))


def arrow_schema(schema: StructType) -> pa.Schema:
    """As Spark wants batches of a schema."""
    return to_arrow_schema(schema, timezone="UTC")


def columns_for(layout: Layout, wanted: StructType) -> tuple[Column, ...]:
    """The columns of a schema, which may be the user's own: some of ours, in any order. Raises ValueError."""
    chosen = layout.chosen(tuple(wanted.fieldNames())) if len(wanted.fields) else ()
    for column, field, ours in zip(chosen, wanted.fields, spark_schema(chosen).fields, strict=True):
        if _plain(field.dataType) != _plain(ours.dataType):
            asked, is_of = field.dataType.simpleString(), ours.dataType.simpleString()
            raise ValueError(f"column {column.name!r} is of type {is_of}; the schema of the read says {asked}")
    return chosen


def _plain(kind: DataType) -> str:
    return NULLS.sub("", kind.json())
