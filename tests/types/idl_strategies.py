"""Random IDL types, made as a program would make them, and random values of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from itertools import count
from typing import Any, NamedTuple, Optional

import cyclonedds.idl as idl
import cyclonedds.idl.annotations as annotate
import cyclonedds.idl.types as t
from hypothesis import strategies as st

_serial = count(1)

NUMBERS: dict[Any, st.SearchStrategy[Any]] = {
    **{kind: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for kind, bits in ((t.int8, 8), (t.int16, 16))},
    **{kind: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for kind, bits in ((t.int32, 32), (t.int64, 64))},
    **{kind: st.integers(0, (1 << bits) - 1) for kind, bits in ((t.uint8, 8), (t.byte, 8), (t.uint16, 16))},
    **{kind: st.integers(0, (1 << bits) - 1) for kind, bits in ((t.uint32, 32), (t.uint64, 64))},
    int: st.integers(-(1 << 63), (1 << 63) - 1),
    t.float32: st.floats(width=32, allow_nan=False),
    t.float64: st.floats(allow_nan=False),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    t.char: st.characters(min_codepoint=0, max_codepoint=127),
    t.wchar: st.integers(-(1 << 15), (1 << 15) - 1),
}


class Part(NamedTuple):
    """A type of a member, and the strategy of its values."""

    hint: Any
    values: st.SearchStrategy[Any]


def _name(stem: str) -> str:
    return f"{stem}{next(_serial)}"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.sampled_from(list(NUMBERS.items())).map(lambda pair: Part(*pair))
strings = st.just(Part(str, texts))
octets = st.just(Part(bytes, st.binary(max_size=20)))
bounded_strings = st.integers(1, 8).map(lambda n: Part(t.bounded_str[n], texts.map(lambda text: text[:n])))


@st.composite
def enums(draw: st.DrawFn) -> Part:
    name = _name("Enum")
    values = draw(st.lists(st.integers(0, 120), min_size=1, max_size=5, unique=True))
    made = idl.make_idl_enum(name, f"mod.{name}", {f"E{value}": value for value in values})
    bound = draw(st.sampled_from([None, 8, 16, 32]))
    if bound:
        annotate.bit_bound(bound)(made)
    return Part(made, st.sampled_from(list(made)))


@st.composite
def bitmasks(draw: st.DrawFn) -> Part:
    name = _name("Mask")
    bits = [f"b{i}" for i in range(draw(st.integers(1, 8)))]
    made = idl.make_idl_bitmask(name, f"mod.{name}", bits)
    annotate.bit_bound(draw(st.sampled_from([8, 12, 16, 32, 64])))(made)
    return Part(made, st.builds(made, **{bit: st.booleans() for bit in bits}))


def _octet(hint: Any) -> bool:
    """Arrays of octets are bytes to cyclonedds, also when the octet goes by another name."""
    while isinstance(getattr(hint, "__metadata__", [None])[0], t.typedef):
        hint = hint.__metadata__[0].subtype
    return hint in (t.uint8, t.byte)


@st.composite
def sequences(draw: st.DrawFn, parts: st.SearchStrategy[Part]) -> Part:
    hint, values = draw(parts)
    bound = draw(st.sampled_from([None, None, 1, 3, 5]))
    if draw(st.integers(0, 5)) == 0:
        return Part(list[hint], st.lists(values, max_size=4))
    return Part(t.sequence[hint, bound] if bound else t.sequence[hint], st.lists(values, max_size=bound or 5))


@st.composite
def arrays(draw: st.DrawFn, parts: st.SearchStrategy[Part]) -> Part:
    hint, values = draw(parts)
    length = draw(st.sampled_from([1, 2, 3, 4, 40]))
    if _octet(hint):
        return Part(t.array[hint, length], st.binary(min_size=length, max_size=length))
    if length == 40 and hint not in NUMBERS:
        length = 2
    return Part(t.array[hint, length], st.lists(values, min_size=length, max_size=length))


@st.composite
def typedefs(draw: st.DrawFn, parts: st.SearchStrategy[Part]) -> Part:
    hint, values = draw(parts)
    return Part(t.typedef[_name("mod.Alias"), hint], values)


@st.composite
def structs(draw: st.DrawFn, parts: st.SearchStrategy[Part], kinds: list[str]) -> Part:
    members = draw(st.lists(parts, min_size=1, max_size=6))
    chosen: dict[str, Part] = {}
    for index, (hint, values) in enumerate(members):
        optional = "optional" in kinds and draw(st.integers(0, 3)) == 0
        if optional:  # cyclonedds does not know the other spelling of it
            hint, values = Optional[hint], st.none() | values  # noqa: UP045
        chosen[f"f{index}"] = Part(hint, values)
    name = _name("Struct")
    made = idl.make_idl_struct(name, f"mod.{name}", {key: part.hint for key, part in chosen.items()})
    if "appendable" in kinds and draw(st.booleans()):
        annotate.appendable(made)
    if "mutable" in kinds and draw(st.booleans()):
        annotate.mutable(made)
    return Part(made, st.builds(made, **{key: part.values for key, part in chosen.items()}))


@st.composite
def unions(draw: st.DrawFn, parts: st.SearchStrategy[Part], kinds: list[str]) -> Part:
    enum = draw(enums())
    discriminator, labels = draw(
        st.sampled_from([(t.int32, [0, 1, -7]), (t.uint8, [3, 4, 200]), (bool, [True]), (t.char, ["a", "b"])])
        | st.just((enum.hint, list(enum.hint)))
    )
    contents = {label: draw(parts) for label in labels}
    cases: dict[str, Any] = {f"c{i}": t.case[label, contents[label].hint] for i, label in enumerate(labels)}
    rest = discriminator is t.int32 and draw(st.booleans())
    if rest:
        contents[77] = draw(parts)
        cases["rest"] = t.default[contents[77].hint]
    name = _name("Union")
    made = idl.make_idl_union(name, f"mod.{name}", cases, discriminator)
    if "appendable" in kinds and draw(st.booleans()):
        annotate.appendable(made)
    build: Callable[..., Any] = made
    options = [st.builds(partial(build, discriminator=k), value=part.values) for k, part in contents.items()]
    return Part(made, st.one_of(options))


def _nested(parts: st.SearchStrategy[Part], kinds: list[str]) -> st.SearchStrategy[Part]:
    options = [sequences(parts), arrays(parts), typedefs(parts), structs(parts, kinds)]
    if "union" in kinds:
        options.append(unions(parts, kinds))
    return st.one_of(options)


def messages(*kinds: str) -> st.SearchStrategy[tuple[Any, Any]]:
    """A struct class and a value of it. `kinds` adds `union`, `optional`, `appendable` and `mutable` to plain types."""
    leaves = numbers | numbers | strings | octets | bounded_strings | enums() | bitmasks()
    parts = st.recursive(leaves, lambda inner: _nested(inner, list(kinds)), max_leaves=8)
    tops = structs(parts, list(kinds))
    return tops.flatmap(lambda top: st.tuples(st.just(top.hint), top.values))


def plain(value: Any) -> Any:
    """A value as nested lists, without its classes: what two classes of one structure must agree on."""
    if hasattr(value, "get") and hasattr(value, "discriminator"):
        return [plain(part) for part in value.get()]
    if hasattr(value, "__dataclass_fields__"):
        return [[member.name, plain(getattr(value, member.name))] for member in fields(value)]
    if hasattr(value, "_value_"):
        return [value.name, value.value]
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value
