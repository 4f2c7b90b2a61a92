"""The columns of a read, as Spark has them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from rtmw.recording.frames import layout
from rtmw.recording.frames.layout import Column, Layout
from rtmw.spark.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from rtmw.columns.program import Unsigned

NULLS: Final = re.compile(r'"(nullable|containsNull)":(true|false),?')
"""Finds in a type in Spark's JSON what a user's own schema may say differently: whether a value may be null."""


def unsigned_of(options: ReadOptions) -> Unsigned:
    return "long" if options.unsigned == "long" else "widen"


def layout_with(descriptions: tuple[bytes, ...], options: ReadOptions) -> Layout:
    """The columns for messages of a type, by its versions; none: of different types. Raises UnsupportedType."""
    return layout.layout_of(descriptions, unsigned_of(options), options.mode != "FAILFAST")


def spark_schema(chosen: tuple[Column, ...]) -> StructType:
    return from_arrow_schema(pa.schema([column.field for column in chosen]))


def arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the Arrow schema that Spark wants batches of a schema to have."""
    return to_arrow_schema(schema, timezone="UTC")


def columns_for(known: Layout, wanted: StructType) -> tuple[Column, ...]:
    """The columns of a schema, which may be the user's own: some of ours, in any order. Raises ValueError."""
    chosen = known.chosen(tuple(wanted.fieldNames())) if len(wanted.fields) else ()
    for column, field, ours in zip(chosen, wanted.fields, spark_schema(chosen).fields, strict=True):
        if _plain(field.dataType) != _plain(ours.dataType):
            asked, is_of = field.dataType.simpleString(), ours.dataType.simpleString()
            raise ValueError(f"column {column.name!r} is of type {is_of}; the schema of the read says {asked}")
    return chosen


def _plain(kind: DataType) -> str:
    return NULLS.sub("", kind.json())
