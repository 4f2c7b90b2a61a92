"""Message types that several tests use. Their annotations are objects, as cyclonedds reads them."""

from dataclasses import dataclass, field
from typing import Optional

import cyclonedds.idl.types as t
from cyclonedds.idl import IdlEnum, IdlStruct
from cyclonedds.idl.annotations import appendable, key


class Colour(IdlEnum, typename="river.Colour"):
    RED = 0
    GREEN = 4


@dataclass
class Reading(IdlStruct, typename="river.Reading"):
    station: str
    key("station")
    values: t.sequence[t.float64]
    colour: Colour
    note: t.bounded_str[5] = ""


@dataclass
class Tree(IdlStruct, typename="river.Tree"):
    number: t.int32
    children: t.sequence["tests.types.messages.Tree"]  # noqa: F821 (cyclonedds imports it by this name)


@dataclass
class Point(IdlStruct, typename="geo.Point"):
    x: t.float64
    flag: bool
    letter: t.char


@dataclass
class Plot(IdlStruct, typename="geo.Plot"):
    title: str
    points: t.sequence[Point, 4]
    grid: t.array[t.int16, 3]
    image: t.array[t.uint8, 4]
    raw: bytes = b""
    small: t.int8 = 0


@appendable
@dataclass
class Grown(IdlStruct, typename="geo.Grown"):
    first: t.int32
    second: Optional[str] = None  # noqa: UP045 (cyclonedds does not know the other spelling)


@dataclass(frozen=True)
class Frozen(IdlStruct, typename="geo.Frozen"):
    name: str
    number: t.int32


@dataclass
class Checked(IdlStruct, typename="geo.Checked"):
    number: t.int32
    history: list[t.int32] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.history = [*self.history, self.number]
