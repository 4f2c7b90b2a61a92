"""A record batch to payloads of one type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtmw.columns import _columns
from rtmw.columns._columns import Program
from rtmw.columns.arrow import type_of
from rtmw.columns.cdr_decoder import path_in
from rtmw.columns.program import Column, compile_columns
from rtmw.errors import TypeMismatch, ValueMismatch
from rtmw.types.codec import header_word
from rtmw.types.schema import Schema

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
        """As the program reads it: see `struct column_source`."""
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
    """Of names, or digits where a number has none; or numbers as they are."""
    if not pa.types.is_string(array.type) and not pa.types.is_large_string(array.type):
        return array.cast(pa.uint64())
    names = pa.array([text.decode() for _, text in labels if isinstance(text, bytes)], pa.string())
    numbers = pa.array([value for value, _ in labels], pa.uint64())
    places = pc.index_in(array.cast(pa.string()), names)
    known = numbers.take(places)
    if known.null_count == array.null_count:
        return known
    return pc.coalesce(known, pc.if_else(pc.is_null(known), array, None).cast(pa.uint64()))
