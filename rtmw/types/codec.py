"""Compiles a schema to the program that `_cdr` runs, once per type; `cdr.h` shows what a program looks like.

What an op consists of lies together. A struct or union that is met again, also within itself, leads to what was laid
out for it the first time. The bytes are those of cyclonedds: XCDR1 for final types, XCDR2 for types with optional
members or appendable parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, assert_never

from rtmw.types import _cdr
from rtmw.types._cdr import Codec
from rtmw.types.classes import BOOLEANS, enum_number, enumerator_numbers, keywords, mask_number, mask_value
from rtmw.types.schema import (
    Array,
    Bitmask,
    Enumeration,
    Map,
    Maybe,
    Named,
    Node,
    Octets,
    Plan,
    Primitive,
    Schema,
    Sequence,
    Struct,
    Text,
    Typedef,
    Union,
    code_of,
    is_octet,
    minimum_size,
    strip,
)

_WORDS: Final = {"boolean": _cdr.BOOLEAN, "char": _cdr.CHAR, "float": _cdr.FLOAT, "double": _cdr.FLOAT}


class Op(NamedTuple):
    """One op, as `_cdr.Codec` takes it: `struct cdr_op`."""

    code: int
    size: int = 0
    sized: bool = False
    first: int = 0
    length: int = 0
    least: int = 0
    name: str = ""
    type: Any = None
    extra: Any = None


def compile_program(plan: Plan) -> list[Op]:
    """The program of a plan's message, which is its first op."""
    compiler = _Compiler(plan)
    compiler.lay_out([("", Named(plan.schema.name))])
    return compiler.ops


class _Compiler:
    def __init__(self, plan: Plan) -> None:
        self.ops: list[Op] = []
        self._plan = plan
        self._made: dict[str, Op] = {}
        """Ops by the definition that they are of: made once, however often it is mentioned."""

    def lay_out(self, parts: list[tuple[str, Node]], inner: bool = False) -> int:
        """Ops for named parts, side by side; the index of the first. `inner`: directly within an array."""
        first = len(self.ops)
        self.ops += [Op(_cdr.SIGNED, 1)] * len(parts)  # the places; what these consist of comes behind
        for index, (name, node) in enumerate(parts):
            self.ops[first + index] = self._op(strip(node), inner)._replace(name=name)
        return first

    def _op(self, node: Node, inner: bool) -> Op:
        match node:
            case Primitive():
                return self._primitive(node)
            case Text():
                return Op(_cdr.TEXT, length=node.bound or 0)
            case Octets():
                return Op(_cdr.OCTETS)
            case Sequence():
                return self._sequence(node)
            case Array():
                return self._array(node, inner)
            case Maybe():
                return Op(_cdr.OPTIONAL, first=self.lay_out([("", node.element)]))
            case Named():
                return self._named(node)
            case Map() | Typedef():
                raise AssertionError(f"{node} is not covered")
            case _:
                assert_never(node)

    def _primitive(self, node: Primitive) -> Op:
        letter, size = self._number(node)
        code = _WORDS.get(node.name, _cdr.UNSIGNED if letter.isupper() else _cdr.SIGNED)
        return Op(code, size, extra=BOOLEANS if code == _cdr.BOOLEAN else None)

    def _number(self, node: Node) -> tuple[str, int]:
        code = code_of(node, self._plan.schema)
        assert code is not None
        return code

    def _sequence(self, node: Sequence) -> Op:
        sized, bound = self._plan.sized(node), node.bound or 0
        if is_octet(node.element) and not sized:
            return Op(_cdr.OCTET_LIST, length=bound, extra=self._array_maker(node))
        first, least = self.lay_out([("", node.element)]), self._least(node.element)
        return Op(_cdr.SEQUENCE, 0, sized, first, bound, least, extra=self._array_maker(node))

    def _array_maker(self, node: Sequence) -> Any:
        """Returns what makes a numpy array of bytes, for a member that is one; None for other members."""
        if not node.as_array:
            return None
        import numpy as np  # the class that has the member has imported it

        return partial(np.frombuffer, dtype=self._number(node.element)[0])

    def _array(self, node: Array, inner: bool) -> Op:
        sized = self._plan.sized(node) and not inner
        if is_octet(node.element):
            return Op(_cdr.OCTET_ROW, length=node.length)
        first = self.lay_out([("", node.element)], inner=True)
        return Op(_cdr.ARRAY, 0, sized, first, node.length, self._least(node.element))

    def _least(self, element: Node) -> int:
        return minimum_size(element, self._plan.schema)

    def _named(self, node: Named) -> Op:
        return self._made[node.name] if node.name in self._made else self._make(node)

    def _make(self, node: Named) -> Op:
        part, cls = self._plan.schema.types[node.name], self._plan.classes[node.name]
        match part:
            case Enumeration():
                made = self._enumeration(self._number(node)[1], cls)
            case Bitmask():
                both = mask_number(cls, part), mask_value(cls, part)
                made = Op(_cdr.BITMASK, self._number(node)[1], type=cls, extra=both)
            case Struct():
                names = tuple(member.name for member in part.fields)
                parts = [(member.name, member.node) for member in part.fields]
                return self._object(_cdr.STRUCT, node.name, parts, len(parts), keywords(cls, names))
            case Union():
                return self._union(node.name, part)
        self._made[node.name] = made
        return made

    def _enumeration(self, size: int, cls: Any) -> Op:
        numbers = enumerator_numbers(cls)
        members = {number: member for member, number in numbers.items()}
        # C reads the value of an object of `type`; no value is of None's, so all of them go through enum_number
        reads_value = all(member.value is number for member, number in numbers.items())
        extra = ("_value_", members, enum_number(cls, self._plan.strict_enums))
        return Op(_cdr.ENUM, size, type=cls if reads_value else type(None), extra=extra)

    def _union(self, name: str, part: Union) -> Op:
        default = next((at for at, case in enumerate(part.cases) if not case.labels), -1)
        extra = self._plan.branches(part), default, part.implicit, ("discriminator", "value")
        parts = [("", part.discriminator), *((case.name, case.node) for case in part.cases)]
        return self._object(_cdr.UNION, name, parts, len(part.cases), extra)

    def _object(self, code: int, name: str, parts: list[tuple[str, Node]], count: int, extra: Any) -> Op:
        part = self._plan.schema.types[name]
        assert isinstance(part, Struct | Union)
        cls, place = self._plan.classes[name], len(self.ops)
        made = Op(code, 0, self._plan.delimited(part), place, count, type=cls, extra=extra)
        self._made[name] = made  # known before its parts are, which may lead back to it
        self.lay_out(parts)
        return made


_ENCODINGS: Final = {
    ("final", 1): 0x01,
    ("appendable", 1): 0x01,
    ("mutable", 1): 0x03,
    ("final", 2): 0x07,
    ("appendable", 2): 0x09,
    ("mutable", 2): 0x0B,
}
"""Second byte of the encapsulation header: format, little endian."""

Explain = Callable[[Any, Exception], Exception]
"""Makes the error to raise from a value that could not be encoded."""
Rescue = Callable[[memoryview, int, Exception], Any]
"""Gives the value, or raises, when a payload could not be decoded; it got as far as the position."""


def header_word(schema: Schema) -> int:
    """The first two bytes of the payload, as a little-endian number."""
    return _ENCODINGS[schema.top.extensibility, schema.xcdr] << 8


def compile_codec(plan: Plan, explain: Explain, rescue: Rescue) -> Codec:
    """The codec of a plan: `encode` from a value to its payload, `decode` back."""
    return Codec([*compile_program(plan)], header_word(plan.schema), plan.max_align, explain, rescue)
