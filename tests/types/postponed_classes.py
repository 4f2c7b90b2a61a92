"""Plain classes whose annotations are strings, as `from __future__ import annotations` makes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import msgspec
import pydantic

import rtmw


class Hue(Enum):
    RED = 0
    BLUE = 3


@dataclass
class Outer:
    inner: Inner
    more: list[Inner] = field(default_factory=list)
    maybe: Inner | None = None
    hue: Hue = Hue.RED
    shared: ClassVar[int] = 5


@dataclass
class Inner:
    number: rtmw.int32


class StructOuter(msgspec.Struct):
    inner: StructInner
    number: rtmw.uint8 | None = None
    shared: ClassVar[int] = 5


class StructInner(msgspec.Struct):
    number: rtmw.int32


class ModelOuter(pydantic.BaseModel):
    inner: ModelInner
    number: rtmw.uint8 | None = None
    shared: ClassVar[int] = 5


class ModelInner(pydantic.BaseModel):
    number: rtmw.int32


@dataclass
class Tree:
    children: list[Tree]


@dataclass
class Chain:
    next: Chain | None


class ModelTree(pydantic.BaseModel):
    children: list[ModelTree]


EXAMPLES: list[tuple[Any, Any]] = [
    (Outer, Outer(Inner(5), [Inner(6), Inner(7)], Inner(8), Hue.BLUE)),
    (StructOuter, StructOuter(StructInner(5), 6)),
    (ModelOuter, ModelOuter(inner=ModelInner(number=5), number=6)),
]
