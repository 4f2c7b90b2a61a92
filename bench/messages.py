"""Messages of different shapes, for the question of what typed messages cost. The first one has the eight fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cyclonedds.idl.types as t
from cyclonedds.idl import IdlStruct


@dataclass
class Mixed(IdlStruct, typename="bench.Mixed"):
    stamp: t.int64
    sequence: t.int32
    a: t.float64
    b: t.float64
    c: t.float64
    d: t.float64
    station: str
    values: t.array[t.float64, 16]


@dataclass
class Fixed(IdlStruct, typename="bench.Fixed"):
    stamp: t.int64
    sequence: t.int32
    a: t.float64
    b: t.float64
    c: t.float64
    d: t.float64


@dataclass
class Sequenced(IdlStruct, typename="bench.Sequenced"):
    stamp: t.int64
    sequence: t.int32
    a: t.float64
    b: t.float64
    c: t.float64
    d: t.float64
    station: str
    values: t.sequence[t.float64]


@dataclass
class Texts(IdlStruct, typename="bench.Texts"):
    stamp: t.int64
    sequence: t.int32
    a: t.float64
    b: t.float64
    carrier: str
    flight: str
    origin: str
    destination: str


@dataclass
class Point(IdlStruct, typename="bench.Point"):
    x: t.float64
    y: t.float64
    label: t.int32


@dataclass
class Nested(IdlStruct, typename="bench.Nested"):
    stamp: t.int64
    frame: str
    points: t.sequence[Point]


HEAD = (1_700_000_000_123_456_789, 4711, 1.5, -2.25, 3.125, 4.0625)
ROW = [value * 0.1 for value in range(16)]


def nested() -> Nested:
    return Nested(HEAD[0], "map", [Point(value, -value, label) for label, value in enumerate(ROW)])


MESSAGES: dict[str, Callable[[], Any]] = {
    "8 fields: 6 numbers, str, array of 16 doubles": lambda: Mixed(*HEAD, "station-7", ROW),
    "6 numbers": lambda: Fixed(*HEAD),
    "6 numbers, str, sequence of 16 doubles": lambda: Sequenced(*HEAD, "station-7", ROW),
    "4 numbers, 4 str": lambda: Texts(*HEAD[:4], "UA", "UA1545", "EWR", "IAH"),
    "number, str, 16 nested structs": nested,
}
