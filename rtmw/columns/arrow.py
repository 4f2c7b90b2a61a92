"""The columns of a type as Arrow sees them: their types, and arrays made of what `_columns` has built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from rtmw.columns.program import Column

if TYPE_CHECKING:
    from rtmw.columns._columns import _Parts

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


_MEMORY: Final = {"struct": (0,), "list": (0, 1), "text": (0, 1, 2), "binary": (0, 1, 2)}
"""Which of validity, offsets and values an array of this kind has; of other kinds the first and the last."""


class ArrayLayout(NamedTuple):
    """How the array of a column is made: of a column, once."""

    type: pa.DataType
    op: int
    memory: tuple[int, ...]
    parts: tuple[ArrayLayout, ...]


def array_layout(column: Column, nullable: bool = False) -> ArrayLayout:
    """The type and the memory of a column, for the field that `field_of` gives."""
    may_be_null = nullable or column.nullable
    inside = may_be_null and column.kind == "struct"
    memory = _MEMORY.get(column.kind, (0, 2))
    parts = tuple(array_layout(part, inside) for part in column.parts)
    return ArrayLayout(type_of(column, may_be_null), column.op, memory, parts)


def array_of(layout: ArrayLayout, built: list[_Parts]) -> pa.Array:
    """The array of a column, over the memory in which it was built."""
    rows, *memory = built[layout.op]
    buffers = [None if memory[place] is None else pa.py_buffer(memory[place]) for place in layout.memory]
    if len(buffers) > 2 and buffers[2] is None:
        buffers[2] = pa.py_buffer(b"")
    children = [array_of(part, built) for part in layout.parts] if layout.parts else None
    return pa.Array.from_buffers(layout.type, rows, buffers, children=children)
