"""Payloads that a library decodes, message by message, to columns: what JSON and protobuf have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from rtmw.columns.members import Member, TooLarge
from rtmw.columns.rows import Rows

if TYPE_CHECKING:
    from rtmw.columns import Mask

_ROWS: Final = 1 << 14
"""Messages that are objects of Python at the same time."""
_BYTES: Final = 16 << 20
"""Of their payloads, if they are several."""
_MISFITS: Final = (ValueError, TypeError, OverflowError)


@dataclass(frozen=True)
class Parser:
    """How a payload becomes an object, and an object columns."""

    name: str
    """Of the type."""
    parse: Callable[[memoryview], Any]
    """Raises one of `errors` for what is no such message."""
    errors: tuple[type[Exception], ...]
    blank: Any
    """An object whose members are all null or empty."""
    members: tuple[Member, ...]


class ObjectDecoder:
    """The columns of such a type, each of which may be null. One may serve several threads."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._schema = pa.schema([member.field for member in parser.members])

    def schema(self, permissive: bool) -> pa.Schema:
        return self._schema

    def decode(self, rows: Rows, permissive: bool) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """See `Decoder`."""
        for part, first in _parts(rows):
            objects, damaged = self._objects(part, first, permissive)
            try:
                yield self._batch(part, first, objects, damaged, permissive)
            except TooLarge:
                for half in part.halves():
                    yield from self.decode(half, permissive)

    def _objects(self, rows: Rows, first: int, permissive: bool) -> tuple[list[Any], dict[int, str]]:
        """The messages, and why those are blank that are damaged."""
        payloads = rows.views()
        parse, damaged = self._parser.parse, dict[int, str]()
        try:
            return [parse(payload) for payload in payloads], damaged
        except self._parser.errors:
            pass
        objects: list[Any] = []
        for row, payload in enumerate(payloads):
            try:
                objects.append(parse(payload))
            except self._parser.errors as error:
                self._keep(rows, first, row, str(error), damaged, permissive)
                objects.append(self._parser.blank)
        return objects, damaged

    def _batch(
        self, rows: Rows, first: int, objects: list[Any], damaged: dict[int, str], permissive: bool
    ) -> tuple[pa.RecordBatch, Mask | None]:
        try:
            arrays = self._arrays(objects)
        except TooLarge:
            raise
        except _MISFITS:  # a value that its column cannot have
            for row, value in enumerate(objects):
                reason = self._misfit(value)
                if reason:
                    self._keep(rows, first, row, reason, damaged, permissive)
                    objects[row] = self._parser.blank
            arrays = self._arrays(objects)
        if not damaged:
            return self._made(arrays, len(rows)), None
        mask = np.zeros(len(rows), bool)
        mask[[*damaged]] = True
        places = pa.array(np.arange(len(rows)), mask=mask)
        return self._made([array.take(places) for array in arrays], len(rows)), mask

    def _arrays(self, objects: list[Any]) -> list[pa.Array]:
        return [member.array(objects) for member in self._parser.members]

    def _misfit(self, value: Any) -> str:
        """Why a message has no columns; "": it has."""
        for member in self._parser.members:
            try:
                member.array([value])
            except _MISFITS as error:
                return f"{member.name}: {error}"
        return ""

    def _made(self, arrays: list[pa.Array], count: int) -> pa.RecordBatch:
        if arrays:
            return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))

    def _keep(self, rows: Rows, first: int, row: int, reason: str, damaged: dict[int, str], permissive: bool) -> None:
        if not permissive:
            raise rows.damage(row, self._parser.name, reason, first)
        damaged[row] = reason


def _parts(rows: Rows) -> Iterator[tuple[Rows, int]]:
    """The rows in pieces, each with the number of its first row; without rows one piece that has none."""
    begin = 0
    while begin < len(rows) or begin == 0:
        sizes = np.cumsum(rows.size[begin : begin + _ROWS])
        count = max(int(np.searchsorted(sizes, _BYTES, "right")), 1)
        yield rows[begin : begin + count], begin
        begin += count
