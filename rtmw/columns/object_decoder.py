"""Payloads that a library decodes, message by message, to columns: what JSON and protobuf have in common.

A column is a tree. Each node makes one array of a list of values, in which None is null; a record takes the lists of
its members from its values, so that no value is looked at twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from rtmw.columns.rows import Rows

if TYPE_CHECKING:
    from rtmw.columns import Mask


TIME: Final = pa.timestamp("us", tz="UTC")
"""The type of times, which recordings have, too: to the microsecond, which every reader knows."""
DURATION: Final = pa.duration("us")

Values = list[Any]
_MOST: Final = 1 << 31


class TooLarge(OverflowError):
    """An array would be larger than Arrow's offsets reach."""


class Node(Protocol):
    """How the values of a column become an array."""

    @property
    def type(self) -> pa.DataType: ...

    def array(self, values: Values) -> pa.Array:
        """Raises TooLarge, and ValueError, TypeError or OverflowError for a value that is not of the type."""
        ...


@dataclass(frozen=True)
class Leaf:
    """Values as they are, or as `convert` makes them of a value that is not None."""

    type: pa.DataType
    convert: Callable[[Any], Any] | None = None

    def array(self, values: Values) -> pa.Array:
        if self.convert is not None:
            convert = self.convert
            values = [None if value is None else convert(value) for value in values]
        made = pa.array(values, self.type)
        if isinstance(made, pa.ChunkedArray):
            raise TooLarge("a column has more than 2 GiB")
        return made


@dataclass(frozen=True)
class Member:
    """A member of a record: how its value is taken from one that is not None, and what becomes of the values."""

    name: str
    take: Callable[[Any], Any]
    node: Node

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.node.type, True)

    def array(self, owners: Values) -> pa.Array:
        return self.node.array(list(map(self.take, owners)))


@dataclass(frozen=True)
class Record:
    """Values with members. `blank`: a value without any, which stands for None."""

    members: tuple[Member, ...]
    blank: Any

    @property
    def type(self) -> pa.DataType:
        return pa.struct([member.field for member in self.members])

    def array(self, values: Values) -> pa.Array:
        is_null = [value is None for value in values]
        mask = pa.array(is_null, pa.bool_()) if any(is_null) else None
        there = [self.blank if value is None else value for value in values] if mask is not None else values
        if not self.members:
            return pa.array([None if null else {} for null in is_null], pa.struct([]))
        arrays = [member.array(there) for member in self.members]
        return pa.StructArray.from_arrays(arrays, fields=[*self.type], mask=mask)


@dataclass(frozen=True)
class Elements:
    """Values that are sequences."""

    node: Node

    @property
    def type(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.node.type, True))

    def array(self, values: Values) -> pa.Array:
        is_null = [value is None for value in values]
        there: list[Sequence[Any]] = [() if value is None else value for value in values]
        ends = [0, *accumulate(map(len, there))]
        if ends[-1] >= _MOST:
            raise TooLarge("a column has more than 2^31 elements")
        offsets = pa.array(ends, pa.int32())
        elements = self.node.array(list(chain.from_iterable(there)))
        mask = pa.array(is_null, pa.bool_()) if any(is_null) else None
        return pa.ListArray.from_arrays(offsets, elements, type=self.type, mask=mask)


_ROWS: Final = 1 << 14
"""Messages that are objects of Python at the same time."""
_BYTES: Final = 16 << 20
"""Bytes of the payloads of messages that are objects of Python at the same time; a single message may have more."""
_MISFITS: Final = (ValueError, TypeError, OverflowError)


@dataclass(frozen=True)
class Parser:
    """How a payload becomes an object, and an object columns."""

    name: str
    """Name of the type."""
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
