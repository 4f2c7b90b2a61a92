"""Random message types and values, each type as a dataclass, msgspec.Struct, pydantic.BaseModel, and IdlStruct."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from enum import Enum
from itertools import count
from typing import Any, Optional

import cyclonedds.idl as idl
import cyclonedds.idl.types as t
import msgspec
import pydantic
from hypothesis import strategies as st

import rtmw
from tests.types.idl_strategies import texts

_serial = count(1)

Make = Callable[[str, dict[str, Any]], Any]
"""A class from its name and the annotations of its members."""

MAKERS: dict[str, Make] = {
    "dataclass": lambda name, hints: make_dataclass(name, hints.items()),
    "frozen": lambda name, hints: make_dataclass(name, hints.items(), frozen=True, slots=True),
    "msgspec": lambda name, hints: msgspec.defstruct(name, hints.items()),
    "pydantic": lambda name, hints: pydantic.create_model(name, **{key: (hint, ...) for key, hint in hints.items()}),
}

LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-(1 << 63), (1 << 63) - 1),
    float: st.floats(allow_nan=False),
    str: texts,
    bytes: st.binary(max_size=20),
    rtmw.int8: st.integers(-(1 << 7), (1 << 7) - 1),
    rtmw.int16: st.integers(-(1 << 15), (1 << 15) - 1),
    rtmw.int32: st.integers(-(1 << 31), (1 << 31) - 1),
    rtmw.int64: st.integers(-(1 << 63), (1 << 63) - 1),
    rtmw.uint8: st.integers(0, (1 << 8) - 1),
    rtmw.uint16: st.integers(0, (1 << 16) - 1),
    rtmw.uint32: st.integers(0, (1 << 32) - 1),
    rtmw.uint64: st.integers(0, (1 << 64) - 1),
    rtmw.float32: st.floats(width=32, allow_nan=False),
    rtmw.float64: st.floats(allow_nan=False),
    t.byte: st.integers(0, (1 << 8) - 1),
}


@dataclass(frozen=True)
class Member:
    """A type of a member as no class has it yet: `kind` is leaf, enum, list, optional or class."""

    kind: str
    leaf: Any = None
    of: tuple[Member, ...] = ()
    name: str = ""

    def hint(self, make: Make, enum: Callable[[str, dict[str, int]], Any], row: Any = list) -> Any:
        match self.kind:
            case "leaf":
                return self.leaf
            case "enum":
                return enum(self.name, self.leaf)
            case "list":
                return row[self.of[0].hint(make, enum, row)]
            case "optional":
                return Optional[self.of[0].hint(make, enum, row)]  # noqa: UP045 (cyclonedds does not know the other spelling)
            case _:
                return make(self.name, {f"f{at}": part.hint(make, enum, row) for at, part in enumerate(self.of)})

    def plain_values(self) -> st.SearchStrategy[Any]:
        """Values without classes: enumerators by name, objects as lists of their members."""
        match self.kind:
            case "leaf":
                return LEAVES[self.leaf]
            case "enum":
                return st.sampled_from(sorted(self.leaf))
            case "list":
                return st.lists(self.of[0].plain_values(), max_size=4)
            case "optional":
                return st.none() | self.of[0].plain_values()
            case _:
                return st.tuples(*(part.plain_values() for part in self.of))

    def value(self, hint: Any, plain: Any) -> Any:
        """A plain value as the objects of the classes that `hint` made."""
        match self.kind:
            case "leaf":
                return plain
            case "enum":
                return hint[plain]
            case "list":
                return [self.of[0].value(_element(hint), one) for one in plain]
            case "optional":
                return None if plain is None else self.of[0].value(hint.__args__[0], plain)
            case _:
                hints = hint.__annotations__
                return hint(**{f"f{at}": part.value(hints[f"f{at}"], plain[at]) for at, part in enumerate(self.of)})


def _element(hint: Any) -> Any:
    """Of `list[T]`, or of cyclonedds' `sequence[T]`."""
    return hint.__metadata__[0].subtype if hasattr(hint, "__metadata__") else hint.__args__[0]


def _name(stem: str) -> str:
    return f"{stem}{next(_serial)}"


@st.composite
def _enums(draw: st.DrawFn) -> Member:
    values = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=5, unique=True))
    return Member("enum", {f"E{value}": value for value in values}, name=_name("Enum"))


@st.composite
def _classes(draw: st.DrawFn, parts: st.SearchStrategy[Member]) -> Member:
    members = draw(st.lists(parts | parts | parts.map(lambda part: Member("optional", of=(part,))), min_size=1))
    return Member("class", of=tuple(members), name=_name("Class"))


def _nested(parts: st.SearchStrategy[Member]) -> st.SearchStrategy[Member]:
    return parts.map(lambda part: Member("list", of=(part,))) | _classes(parts)


_leaves = st.sampled_from(list(LEAVES)).map(lambda leaf: Member("leaf", leaf))
members = st.recursive(_leaves | _enums(), _nested, max_leaves=8)


@st.composite
def twins(draw: st.DrawFn, kind: str) -> tuple[Any, Any, Any, Any]:
    """A class of this kind and a value of it; the equal IdlStruct and the equal value."""
    top = draw(_classes(members))
    plain = draw(top.plain_values())
    cls = top.hint(MAKERS[kind], Enum)
    twin = top.hint(
        lambda name, hints: idl.make_idl_struct(name, name, hints),
        lambda name, numbers: idl.make_idl_enum(name, name, numbers),
        t.sequence,
    )
    return cls, top.value(cls, plain), twin, top.value(twin, plain)
