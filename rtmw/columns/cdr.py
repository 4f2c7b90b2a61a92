"""Payloads of one type to a record batch and back: the types of Arrow, and batches of what `_columns` has built.

A message of a numpy type is an array, so there is one column, `value`: a plain dtype gives a list, one of a shape gives
lists within each other; a structured dtype gives structs in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtmw.columns import _columns
from rtmw.columns._columns import Program, pack
from rtmw.columns.program import Column, Unsigned, compile_columns
from rtmw.columns.rows import Rows
from rtmw.errors import TypeMismatch, UnsupportedType, ValueMismatch
from rtmw.types.codec import header_word
from rtmw.types.schema import Schema

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


class CdrDecoder:
    """The compiled program of an IDL type. One may serve several threads.

    `names`: of the members that become columns; None: all. The others are checked all the same, so that the same
    payloads are damaged whichever members are asked for.
    """

    def __init__(self, schema: Schema, unsigned: Unsigned, names: frozenset[str] | None = None) -> None:
        ops, self._all = compile_columns(schema, unsigned)
        self._columns = tuple(column for column in self._all if names is None or column.name in names)
        for column in self._all:
            ops[column.op] = ops[column.op]._replace(skipped=column not in self._columns)
        self._name = schema.shown_name
        self._program = Program([*ops], schema.top.extensibility == "appendable")
        hows = (False, True)
        self._schemas = [pa.schema([field_of(column, permissive) for column in self._columns]) for permissive in hows]

    def schema(self, permissive: bool) -> pa.Schema:
        return self._schemas[permissive]

    def decode(self, rows: Rows, permissive: bool) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """See `Decoder`."""
        try:
            built, validity, damaged, first, op, reason = self._program.decode(*rows.lent(), permissive)
        except OverflowError:
            for half in rows.halves():
                yield from self.decode(half, permissive)
            return
        if built is None:
            raise rows.damage(first, self._name + self._path(op), reason)
        yield batch_of(built, self._schemas[permissive]), _nulls(validity, len(rows)) if damaged else None

    def _path(self, op: int) -> str:
        """The member that an op stands for, as `.points.element.x`."""
        return path_in(self._all, op) or ""


def _nulls(validity: Any, count: int) -> Any:
    return np.unpackbits(np.frombuffer(memoryview(validity), np.uint8), count=count, bitorder="little") == 0


def path_in(columns: tuple[Column, ...], op: int) -> str | None:
    """The member that an op stands for, as `.points.element.x`; None: none of these."""
    for column in columns:
        inside = "" if column.op == op else path_in(column.parts, op)
        if inside is not None:
            return f".{column.name}{inside}"
    return None


Source = tuple[int, Any, Any, Any]
"""Offset, and memory of validity, offsets and values, as `_columns.Program.encode` takes it."""


class CdrEncoder:
    """The compiled program of an IDL type, read in the other direction."""

    def __init__(self, schema: Schema) -> None:
        ops, self._columns = compile_columns(schema, "keep")
        self._name = schema.shown_name
        self._header = header_word(schema)
        self._program = Program([*ops], schema.top.extensibility == "appendable")
        self._ops = ops

    def encode(self, batch: pa.RecordBatch) -> tuple[Any, Any, Any]:
        """Data, positions and sizes; columns are found by name, others are left alone."""
        sources: list[Source] = [(0, None, None, None)] * len(self._ops)
        for column in self._columns:
            if column.name in batch.schema.names:
                array = batch.column(column.name)
            elif column.nullable:
                array = pa.nulls(batch.num_rows, type_of(column))
            else:
                raise TypeMismatch(f"{self._name} needs a column {column.name!r}; there are {batch.schema.names}")
            self._enter(column, array, sources, f"{self._name}.{column.name}")
        made, row, op, reason = self._program.encode(self._header, batch.num_rows, sources)
        if made is None:
            raise ValueMismatch(f"{self._name}{path_in(self._columns, op) or ''}: row {row}: {reason}")
        data, position, size = made
        return data or b"", np.frombuffer(memoryview(position), np.int64), np.frombuffer(memoryview(size), np.int64)

    def _enter(self, column: Column, array: pa.Array, sources: list[Source], path: str) -> None:
        """The memory of a column and of those within it."""
        try:
            fitted = self._fitted(column, array, path)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise TypeMismatch(f"{path} cannot be made of {array.type}: {error}") from error
        buffers = fitted.buffers()
        if column.kind == "list":
            sources[column.op] = (fitted.offset, buffers[0], buffers[1], None)
            self._enter(column.parts[0], fitted.values, sources, path)
        elif self._is_members(column):
            sources[column.op] = (fitted.offset, buffers[0], None, None)
            for part, child in self._members(column, fitted, path):
                self._enter(part, child, sources, f"{path}.{part.name}")
        elif len(buffers) == 3:
            sources[column.op] = (fitted.offset, *buffers)
        else:
            sources[column.op] = (fitted.offset, buffers[0], None, buffers[1])

    def _is_members(self, column: Column) -> bool:
        return column.kind == "struct" and not self._is_bitmask(column)

    def _is_bitmask(self, column: Column) -> bool:
        return self._ops[column.op].code == _columns.BITMASK

    def _members(self, column: Column, array: pa.Array, path: str) -> Iterator[tuple[Column, pa.Array]]:
        names = [field.name for field in array.type]
        for part in column.parts:
            if part.name not in names and not part.nullable:
                raise TypeMismatch(f"{path} needs a member {part.name!r}; there are {names}")
            yield part, array.field(part.name) if part.name in names else pa.nulls(len(array), type_of(part))

    def _fitted(self, column: Column, array: pa.Array, path: str) -> pa.Array:
        """Returns the array in the form that the program reads: see `struct column_source`."""
        op = self._ops[column.op]
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if column.kind == "list":
            return array if pa.types.is_list(array.type) else array.cast(pa.list_(array.type.value_type))
        if op.code == _columns.ENUM:
            return enum_numbers(array, op.labels)
        if self._is_bitmask(column):
            return self._mask_numbers(column, array, path)
        if column.kind == "struct":
            if not pa.types.is_struct(array.type):
                raise pa.ArrowTypeError("a struct is needed")
            return array
        fitted = array.cast(type_of(column))
        return fitted.cast(pa.uint8()) if column.kind == "bool" else fitted

    def _mask_numbers(self, column: Column, array: pa.Array, path: str) -> pa.Array:
        numbers = np.zeros(len(array), np.uint64)
        for part, bit in self._members(column, array, path):
            position = np.uint64(self._ops[part.op].length)
            numbers |= np.asarray(bit.cast(pa.bool_()).fill_null(False)).astype(np.uint64) << position
        return pa.array(numbers, mask=np.asarray(array.is_null()))


def enum_numbers(array: pa.Array, labels: tuple[tuple[int, bytes | int], ...]) -> pa.Array:
    """Returns the numbers of an enum. The array has names, with digits where a number has no name, or numbers
    already."""
    if not pa.types.is_string(array.type) and not pa.types.is_large_string(array.type):
        return array.cast(pa.uint64())
    names = pa.array([text.decode() for _, text in labels if isinstance(text, bytes)], pa.string())
    numbers = pa.array([value for value, _ in labels], pa.uint64())
    places = pc.index_in(array.cast(pa.string()), names)
    known = numbers.take(places)
    if known.null_count == array.null_count:
        return known
    return pc.coalesce(known, pc.if_else(pc.is_null(known), array, None).cast(pa.uint64()))


_WIDER: Final[dict[str, np.dtype[Any]]] = {"u1": np.dtype("i2"), "u2": np.dtype("i4"), "u4": np.dtype("i8")}


class NumpyDecoder:
    """The columns of a numpy type."""

    def __init__(self, name: str, dtype: np.dtype[Any], unsigned: Unsigned) -> None:
        self._name = name
        self._base, self._shape = dtype.base, dtype.shape
        self._fixed = dtype.itemsize if dtype.shape else 0
        self._unsigned = unsigned
        self._item = self._elements(np.empty(0, self._base)).type

    def schema(self, permissive: bool) -> pa.Schema:
        kind = self._item
        for _ in self._shape or (0,):
            kind = pa.list_(pa.field("element", kind, nullable=False))
        return pa.schema([pa.field("value", kind, nullable=permissive)])

    def decode(self, rows: Rows, permissive: bool) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """See `Decoder`."""
        bad = rows.size != self._fixed if self._fixed else rows.size % self._base.itemsize != 0
        if bad.any() and not permissive:
            raise rows.damage(int(bad.argmax()), self._name, self._expected())
        kept = Rows(rows.data, rows.position, np.where(bad, 0, rows.size))
        try:
            _, _, values = pack(*kept.lent())
        except OverflowError:
            for half in rows.halves():
                yield from self.decode(half, permissive)
            return
        counts = kept.size // self._base.itemsize
        items = np.frombuffer(memoryview(values or b""), self._base)
        batch = self._batch(self._elements(items), counts, bad if permissive else None)
        yield batch, bad if bad.any() else None

    def _expected(self) -> str:
        return f"{'' if self._fixed else 'a multiple of '}{self._fixed or self._base.itemsize} bytes were expected"

    def _batch(self, items: pa.Array, counts: np.ndarray[Any, Any], bad: np.ndarray[Any, Any] | None) -> pa.RecordBatch:
        schema = self.schema(bad is not None)
        kinds = [schema.field(0).type]
        while len(kinds) < max(len(self._shape), 1):
            kinds.append(kinds[-1].value_type)
        for kind, side in zip(reversed(kinds[1:]), reversed(self._shape[1:]), strict=True):
            items = pa.ListArray.from_arrays(_offsets(np.full(len(items) // side, side)), items, type=kind)
        if self._shape:
            counts = np.minimum(counts, self._shape[0])
        mask = pa.array(bad) if bad is not None else None
        return pa.RecordBatch.from_arrays(
            [pa.ListArray.from_arrays(_offsets(counts), items, type=kinds[0], mask=mask)], schema=schema
        )

    def _elements(self, items: np.ndarray[Any, Any]) -> pa.Array:
        """An array of single elements, or of the rows of a subarray within a struct."""
        dtype = items.dtype
        if dtype.names is not None:
            names = list(dtype.names)
            parts = [self._member(items[name]) for name in names]
            fields = [pa.field(name, part.type, nullable=False) for name, part in zip(names, parts, strict=True)]
            return pa.StructArray.from_arrays(parts, fields=fields)
        return self._plain(np.ascontiguousarray(items.astype(dtype.newbyteorder("="), copy=False)))

    def _member(self, items: np.ndarray[Any, Any]) -> pa.Array:
        if items.ndim == 1:
            return self._elements(items)
        inner = self._elements(items.reshape(-1))
        for side in reversed(items.shape[1:]):
            kind = pa.list_(pa.field("element", inner.type, nullable=False))
            inner = pa.ListArray.from_arrays(_offsets(np.full(len(inner) // side, side)), inner, type=kind)
        return inner

    def _plain(self, items: np.ndarray[Any, Any]) -> pa.Array:
        kind, size = items.dtype.kind, items.dtype.itemsize
        if kind == "c" and size <= 16:
            parts = [pa.array(np.ascontiguousarray(part)) for part in (items.real, items.imag)]
            fields = [pa.field(name, parts[0].type, nullable=False) for name in ("real", "imaginary")]
            return pa.StructArray.from_arrays(parts, fields=fields)
        if kind == "u":
            return self._unsigned_numbers(items)
        if kind == "S":
            return pa.array(items).cast(pa.binary())
        if kind == "V":
            return _binary(items, size)
        if kind == "f" and size == 2:
            return pa.array(items.astype(np.float32))
        if kind in "mM":
            return pa.array(items.view(np.int64))
        if kind in "biU" or (kind == "f" and size <= 8):
            return pa.array(items)
        raise UnsupportedType(f"{self._name} has elements of {items.dtype}, for which there is no column")

    def _unsigned_numbers(self, items: np.ndarray[Any, Any]) -> pa.Array:
        if self._unsigned == "keep":
            return pa.array(items)
        if items.dtype.itemsize < 8:
            return pa.array(items.astype(_WIDER[items.dtype.str[1:]]))
        if self._unsigned == "widen":
            wide = np.zeros((len(items), 2), np.uint64)
            wide[:, 0] = items
            return pa.Array.from_buffers(pa.decimal128(20, 0), len(items), [None, pa.py_buffer(wide)])
        return pa.array(items).cast(pa.int64())


def _binary(items: np.ndarray[Any, Any], size: int) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(size), len(items), [None, pa.py_buffer(items)]).cast(pa.binary())


def _offsets(counts: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
