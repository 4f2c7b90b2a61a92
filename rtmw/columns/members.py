"""Values of Python to Arrow columns: how the members of decoded JSON and protobuf messages become arrays.

A column is a tree. Each node makes one array of a list of values, in which None is null; a record takes the
lists of its members from its values, so that no value is looked at twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Final, Protocol

import pyarrow as pa

TIME: Final = pa.timestamp("us", tz="UTC")
"""As the times of a recording: to the microsecond, which every reader knows."""
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
