"""The columns of a type as Arrow sees them: their types, and batches of what `_columns` has built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rtmw.columns.program import Column

if TYPE_CHECKING:
    from rtmw.columns._columns import Array

_TYPES: Final[dict[str, pa.DataType]] = {
    **{f"int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    "decimal": pa.decimal128(20, 0),
    "float": pa.float32(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "binary": pa.binary(),
}


def type_of(column: Column, nullable: bool | None = None) -> pa.DataType:
    """The Arrow type of a column. `nullable`: may its rows be null; None: as the type of the messages says."""
    if column.kind == "list":
        return pa.list_(field_of(column.parts[0]))
    if column.kind == "struct":
        may_be_null = column.nullable if nullable is None else nullable
        return pa.struct([field_of(part, may_be_null) for part in column.parts])
    return _TYPES[column.kind]


def field_of(column: Column, nullable: bool = False) -> pa.Field:
    """The Arrow field of a column: not nullable where the type says that a value is always there.

    `nullable`: the field is nullable in any case. The members of a struct that may be null are nullable, too: where
    the struct is null, its members are null, and writers of Parquet refuse nulls in a field that is declared otherwise.
    """
    may_be_null = nullable or column.nullable
    return pa.field(column.name, type_of(column, may_be_null), nullable=may_be_null)


def batch_of(array: Array, schema: pa.Schema) -> pa.RecordBatch:
    """The columns that were built, taken over in one step; the schema is that of `field_of` for each."""
    taker: Any = pa.RecordBatch  # named so in Arrow's documentation, as the way from C; and a schema need not be made
    batch: pa.RecordBatch = taker._import_from_c(array.address, schema)
    return batch
