"""Message types that several tests use. Their annotations are objects, as cyclonedds reads them."""

from dataclasses import dataclass, field
from typing import Optional

import cyclonedds.idl.types as t
from cyclonedds.idl import IdlBitmask, IdlEnum, IdlStruct, IdlUnion
from cyclonedds.idl.annotations import appendable, bit_bound, key


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


@dataclass(slots=True)
class Slotted(IdlStruct, typename="geo.Slotted"):
    name: str
    number: t.int32


@dataclass(frozen=True, slots=True)
class FrozenSlotted(IdlStruct, typename="geo.FrozenSlotted"):
    name: str
    number: t.int32


@dataclass(kw_only=True)
class Keyed(IdlStruct, typename="geo.Keyed"):
    number: t.int32 = 5
    name: str


@dataclass
class Defaulted(IdlStruct, typename="geo.Defaulted"):
    name: str = "y"
    number: t.int32 = 5
    row: list[t.int32] = field(default_factory=lambda: [1])


@dataclass
class Raising(IdlStruct, typename="geo.Raising"):
    number: t.int32

    def __post_init__(self) -> None:
        if self.number % 2 == 0:
            raise ValueError("odd numbers only")


@dataclass
class Rows(IdlStruct, typename="geo.Rows"):
    counts: t.sequence[t.int64]
    octets: t.sequence[t.uint8]
    doubles: t.sequence[t.float64]
    floats: t.sequence[t.float32]
    pair: t.array[t.float64, 2]


class Part(IdlUnion, discriminator=t.int32, typename="geo.Part"):
    text: t.case[1, str]
    row: t.case[2, t.sequence[t.int16]]
    rest: t.default[Point]


@bit_bound(16)
@dataclass
class Flags(IdlBitmask, typename="geo.Flags"):
    low: bool = False
    high: bool = False


@appendable
@dataclass
class Various(IdlStruct, typename="geo.Various"):
    parts: t.sequence[Part]
    flags: Flags
    colours: t.array[Colour, 2]
    grown: t.sequence[Grown, 3]
    maybe: Optional[Point] = None  # noqa: UP045 (see above)

    @staticmethod
    def example() -> "Various":
        parts = [Part(text="one"), Part(row=[1, 2]), Part(rest=Point(0.5, False, "z"))]
        return Various(
            parts, Flags(high=True), [Colour.RED, Colour.GREEN], [Grown(1, "a"), Grown(2)], Point(1, True, "b")
        )
