"""Payloads of one type to a record batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from rtmw.columns._columns import Program
from rtmw.columns.arrow import batch_of, field_of
from rtmw.columns.program import Column, Unsigned, compile_columns
from rtmw.columns.rows import Rows
from rtmw.types.schema import Schema


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
