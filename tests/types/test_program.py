"""A program is looked through before it runs; the compiled codec takes nothing that would lead out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rtmw.types import _cdr, resolve
from rtmw.types.classes import describe
from rtmw.types.codec import Op, compile_program
from rtmw.types.idl_type import members_type
from rtmw.types.schema import Plan
from tests.types.messages import Checked, Point, Reading, Tree


class Plain:
    pass


def codec(*ops: Any, align: int = 8) -> _cdr.Codec:
    return _cdr.Codec([*ops], 0x100, align, explain, rescue)


def explain(value: Any, error: Exception) -> Exception:
    return error


def rescue(data: memoryview, position: int, error: Exception) -> Any:
    raise error


def program(cls: Any) -> list[Op]:
    return compile_program(Plan(*describe(cls)))


def test_the_members_of_a_struct_lie_side_by_side_behind_it() -> None:
    top, *members = program(Point)
    assert (top.code, top.first, top.length, top.type) == (_cdr.STRUCT, 1, 3, Point)
    assert [(op.name, op.code, op.size) for op in members] == [
        ("x", _cdr.FLOAT, 8),
        ("flag", _cdr.BOOLEAN, 1),
        ("letter", _cdr.CHAR, 1),
    ]


def test_a_sequence_leads_to_its_element_and_knows_its_least_size() -> None:
    ops = program(Reading)
    values = next(op for op in ops if op.name == "values")
    assert (values.code, values.least, ops[values.first].code) == (_cdr.SEQUENCE, 8, _cdr.FLOAT)


def test_a_struct_within_itself_leads_back_to_its_members() -> None:
    ops = program(Tree)
    children = next(op for op in ops if op.name == "children")
    assert ops[children.first]._replace(name="") == ops[0]


def test_a_class_with_code_of_its_own_is_called_with_the_names_of_its_members() -> None:
    assert program(Checked)[0].extra == ("number", "history")
    assert program(Point)[0].extra is None


GOOD = Op(_cdr.STRUCT, first=1, length=1, type=Plain)
BAD: dict[str, list[Any]] = {
    "a message is a struct": [Op(_cdr.SIGNED, 4)],
    "leads out of the program": [GOOD._replace(length=2), Op(_cdr.SIGNED, 4)],
    "does not exist": [GOOD, Op(99)],
    "a number of a size": [GOOD, Op(_cdr.SIGNED, 3)],
    "a float of a size": [GOOD, Op(_cdr.FLOAT, 2)],
    "elements without content": [GOOD, Op(_cdr.SEQUENCE, first=0)],
    "an op is a tuple": [7],
    "without the objects it needs": [GOOD._replace(type=7), Op(_cdr.SIGNED, 4)],
    "needs": [GOOD._replace(type=int), Op(_cdr.SIGNED, 4)],
    "it needs": [GOOD._replace(extra=("a", "b")), Op(_cdr.SIGNED, 4)],
    "objects": [GOOD, Op(_cdr.BOOLEAN, 1)],
    "the objects": [GOOD, Op(_cdr.ENUM, 4, type=Plain, extra=({},))],
    "the objects it": [GOOD, Op(_cdr.UNION, first=1, type=Plain, extra=({}, 0, None, ()))],
    "objects it needs": [GOOD, Op(_cdr.BITMASK, 4, type=Plain)],
}


@pytest.mark.parametrize("fault", BAD)
def test_a_program_with_a_fault_is_refused(fault: str) -> None:
    with pytest.raises((ValueError, TypeError), match=fault):
        codec(*BAD[fault])


def test_a_program_needs_an_op_and_an_alignment() -> None:
    with pytest.raises(ValueError, match="a message is a struct"):
        codec()
    with pytest.raises(ValueError, match="alignment"):
        codec(GOOD, Op(_cdr.SIGNED, 4, name="a"), align=3)


def test_a_good_program_runs() -> None:
    made = codec(GOOD, Op(_cdr.SIGNED, 4, name="a"))
    value = Plain()
    value.a = -2  # type: ignore[attr-defined]
    assert made.encode(value) == b"\0\1\0\0\xfe\xff\xff\xff"
    assert made.decode(made.encode(value)).a == -2


@pytest.mark.parametrize("size", [0, 7, 9])
def test_a_value_is_written_only_into_memory_of_its_size(size: int) -> None:
    made = codec(GOOD, Op(_cdr.SIGNED, 4, name="a"))
    value = Plain()
    value.a = 1  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="it changed while it was encoded"):
        made.write(value, bytearray(size))
    memory = bytearray(8)
    made.write(value, memory)
    assert memory == made.encode(value) == made.begin(value)


@dataclass
class Pair:
    first: int
    second: str


def test_values_of_a_members_type_are_tuples_with_the_bytes_of_the_class() -> None:
    kind, whole = members_type(Pair, explain), resolve(Pair)
    assert kind.encode is not None
    assert whole.encode is not None
    assert kind.decode is not None
    payload = bytes(whole.encode(Pair(1, "x")))
    assert bytes(kind.encode((1, "x"))) == payload
    assert kind.decode(payload) == (1, "x")
    assert (kind.identity, kind.description) == (whole.identity, whole.description)


@pytest.mark.parametrize("value", [(), (1,), ("x", 1), [1, "x"], Pair(1, "x"), None], ids=repr)
def test_what_is_no_tuple_of_the_members_is_refused(value: object) -> None:
    encode = members_type(Pair, explain).encode
    assert encode is not None
    with pytest.raises(TypeError):
        encode(value)
