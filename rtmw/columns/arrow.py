"""The columns of a type as Arrow sees them: their types, and arrays made of what `_columns` has built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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


def type_of(column: Column) -> pa.DataType:
    """The Arrow type of a column."""
    if column.kind == "list":
        return pa.list_(field_of(column.parts[0]))
    if column.kind == "struct":
        return pa.struct([field_of(part) for part in column.parts])
    return _TYPES[column.kind]


def field_of(column: Column) -> pa.Field:
    """The Arrow field of a column: not nullable where the type says that something is always there."""
    return pa.field(column.name, type_of(column), nullable=column.nullable)


def array_of(column: Column, built: list[_Parts]) -> pa.Array:
    """The array of a column, over the memory in which it was built."""
    rows, validity, offsets, values = built[column.op]
    children = [array_of(part, built) for part in column.parts]
    buffers = [_buffer(validity)]
    if column.kind == "list":
        buffers.append(_buffer(offsets))
    elif column.kind in ("text", "binary"):
        buffers += [_buffer(offsets), _buffer(values) or pa.py_buffer(b"")]
    elif column.kind != "struct":
        buffers.append(_buffer(values))
    return pa.Array.from_buffers(type_of(column), rows, buffers, children=children)


def _buffer(memory: object) -> pa.Buffer | None:
    return None if memory is None else pa.py_buffer(memory)
