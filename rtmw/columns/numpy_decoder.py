"""Payloads of numpy types to columns. A message of a numpy type is an array, so there is one column, `value`.

A plain dtype gives a list, one of a shape gives lists within each other; a structured dtype gives structs in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rtmw.columns._columns import pack
from rtmw.columns.program import Unsigned
from rtmw.columns.rows import Rows
from rtmw.errors import UnsupportedType

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
