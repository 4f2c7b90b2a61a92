"""Plain classes are message types: those of dataclasses, msgspec and pydantic, each the type of the equal IdlStruct."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
import typing
import uuid
from dataclasses import dataclass, field, make_dataclass
from enum import Enum, Flag, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, Optional

import cyclonedds.idl as idl
import cyclonedds.idl.types as t
import msgspec
import numpy as np
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import rtmw
from rtmw.types import from_description, resolve
from rtmw.types.classes import describe, describe_class
from rtmw.types.codec import compile_program
from rtmw.types.message_type import read_document
from rtmw.types.schema import Plan
from tests.child import Spawn
from tests.types import postponed_classes as postponed
from tests.types.class_strategies import MAKERS, twins
from tests.types.coded import decode, encode
from tests.types.messages import Checked, Colour, Frozen, Part, Point, Raising, Reading, Various
from tests.types.test_codec import thorough


@dataclass
class Speed:
    pump: rtmw.int32
    rpm: float
    note: str = ""
    marks: list[float] = field(default_factory=list)


class Number(Enum):
    ONE = 1
    TWO = 2


class Grade(StrEnum):
    LOW = "low"
    HIGH = "high"


def class_of(hint: Any, name: str = "Odd", **more: Any) -> Any:
    """A dataclass with one member."""
    return make_dataclass(name, [("member", hint)], **more)


@pytest.mark.parametrize("kind", MAKERS)
@settings(thorough, max_examples=80)
@given(st.data())
# Proves G1.
def test_a_class_is_the_type_of_the_equal_idlstruct_and_has_its_bytes(kind: str, data: st.DataObject) -> None:
    cls, value, twin, same = data.draw(twins(kind))
    type, other = resolve(cls), resolve(twin)
    assert (type.name, type.identity, type.description) == (other.name, other.identity, other.description)
    payload = encode(type, value)
    assert payload == encode(other, same) == same.serialize()
    assert decode(type, payload) == value
    assert decode(other, payload) == same


@pytest.mark.parametrize("kind", MAKERS)
@settings(thorough, max_examples=30)
@given(st.data())
def test_a_program_without_the_class_reads_the_same_members(kind: str, data: st.DataObject) -> None:
    cls, value, _, _ = data.draw(twins(kind))
    rebuilt = from_description(resolve(cls).description)
    payload = encode(resolve(cls), value)
    assert encode(rebuilt, decode(rebuilt, payload)) == payload


def test_a_publisher_of_a_dataclass_meets_subscribers_of_the_idlstruct_and_of_any_type(domain: rtmw.Domain) -> None:
    members = {"pump": t.int32, "rpm": float, "note": str, "marks": list[float]}
    twin = idl.make_idl_struct("Speed", "Speed", members)
    in_words = idl.make_idl_struct("Speed", "Speed", members | {"rpm": t.float64, "marks": t.sequence[t.float64]})
    assert resolve(Speed).identity == resolve(twin).identity == resolve(in_words).identity
    with (
        rtmw.Publisher("t", Speed, domain=domain) as publisher,
        rtmw.Subscriber("t", Speed, domain=domain) as own,
        rtmw.Subscriber("t", twin, domain=domain) as idl_struct,
        rtmw.Subscriber("t", rtmw.ANY, domain=domain) as any_type,
    ):
        publisher.publish(Speed(7, 1.5, marks=[2.5]))
        assert own.receive(5).value == Speed(7, 1.5, "", [2.5])
        assert idl_struct.receive(5).value == twin(pump=7, rpm=1.5, note="", marks=[2.5])
        sample = any_type.receive(5)
        assert (sample.type_name, sample.value.marks) == ("Speed", [2.5])


def test_a_class_in_the_main_modules_of_two_programs_is_one_type(domain: rtmw.Domain, spawn: Spawn) -> None:
    source = """
        from dataclasses import dataclass
        import rtmw

        @dataclass
        class Speed:
            pump: rtmw.int32
            rpm: float
            note: str
            marks: list[float]

        rtmw.Publisher("t", Speed).publish(Speed(3, 4.5, "from afar", []))
    """
    with rtmw.Subscriber("t", Speed, domain=domain) as subscriber:
        child = spawn(source)
        assert subscriber.receive(60).value == Speed(3, 4.5, "from afar")
        assert child.wait() == 0, child.stderr


# ---- what members may be ----


@pytest.mark.parametrize(
    ("hint", "twin"),
    [
        (rtmw.int8, t.int8),
        (rtmw.uint64, t.uint64),
        (rtmw.float32, t.float32),
        (t.byte, t.byte),
        (t.char, t.char),
        (t.sequence[t.int16, 3], t.sequence[t.int16, 3]),
        (t.array[float, 2], t.array[float, 2]),
        (t.bounded_str[5], t.bounded_str[5]),
        (t.typedef["mod.Metres", t.float64], t.typedef["mod.Metres", t.float64]),
        (int | None, Optional[int]),  # noqa: UP045 (cyclonedds does not know the other spelling)
        (typing.Optional[rtmw.int32], Optional[t.int32]),  # noqa: UP045
        (typing.List[rtmw.int32], t.sequence[t.int32]),  # noqa: UP006
        (list[list[str]], t.sequence[t.sequence[str]]),
        (list[float], list[float]),
        (list[Point], list[Point]),
        (Annotated[int, "metres", pydantic.Field(ge=0)], int),
        (Annotated[rtmw.int32, msgspec.Meta(ge=0)], t.int32),
        (Annotated[int | None, "metres"], Optional[int]),  # noqa: UP045
        (NewType("Number", int), int),
        (Colour, Colour),
        (Point, Point),
        (list[Part], list[Part]),
        (Various, Various),
    ],
    ids=str,
)
def test_a_member_has_the_type_that_it_has_in_an_idlstruct(hint: Any, twin: Any) -> None:
    assert resolve(class_of(hint)).identity == resolve(idl.make_idl_struct("Odd", "Odd", {"member": twin})).identity


def test_the_name_is_the_classs_own_or_that_of_its_idl_typename() -> None:
    @dataclass
    class Named:
        __idl_typename__ = "plant.Speed"
        rpm: float

    @dataclass
    class Derived(Named):
        pass

    class Model(pydantic.BaseModel):
        __idl_typename__ = "plant::Model"
        rpm: float

    assert [resolve(cls).name for cls in (Speed, Named, Derived, Model)] == [
        "Speed", "plant::Speed", "Derived", "plant::Model",
    ]  # fmt: skip


def test_the_program_of_a_class_is_that_of_the_equal_idlstruct() -> None:
    """So that no value of a dataclass takes longer to encode or to decode."""
    twin = idl.make_idl_struct(
        "Speed", "Speed", {"pump": t.int32, "rpm": float, "note": str, "marks": t.sequence[t.float64]}
    )
    one, other = compile_program(Plan(*describe_class(Speed))), compile_program(Plan(*describe(twin)))
    assert [op._replace(type=None) for op in one] == [op._replace(type=None) for op in other]
    assert one[0].extra is None, "its class is not called"


def test_postponed_annotations_are_understood() -> None:
    for cls, value in postponed.EXAMPLES:
        type = resolve(cls)
        assert decode(type, encode(type, value)) == value


def test_an_idlstruct_within_a_plain_class_is_what_it_is_elsewhere() -> None:
    @dataclass
    class Envelope:
        reading: Reading
        various: Various

    value = Envelope(Reading("A1", [7.5], Colour.GREEN), Various.example())
    payload = encode(resolve(Envelope), value)
    copy = decode(resolve(Envelope), payload)
    assert (copy.reading, copy.various.grown) == (value.reading, value.various.grown)
    assert encode(resolve(Envelope), copy) == payload


def test_an_enum_of_whole_numbers_travels_as_they_are_and_another_as_the_places_of_its_names() -> None:
    class Level(IntEnum):
        OFF = 5
        ON = 9

    for cls, names in ((Level, [["OFF", 5], ["ON", 9]]), (Grade, [["LOW", 0], ["HIGH", 1]])):
        made = class_of(cls)
        type = resolve(made)
        assert read_document(type.description)["types"][cls.__name__]["members"] == names
        for member in cls:
            assert decode(type, encode(type, made(member))).member is member


def test_an_enumerator_has_to_be_one_of_its_enum() -> None:
    made = class_of(Grade)
    with pytest.raises(rtmw.TypeMismatch, match=r"Odd\.member: expected a value of Grade, found 'high'"):
        encode(resolve(made), made("high"))


def test_the_number_of_an_enumerator_may_stand_for_it_and_one_without_a_name_arrives_as_a_number() -> None:
    made = class_of(Number)
    type = resolve(made)
    assert decode(type, encode(type, made(2))).member is Number.TWO
    numbers = Enum("Number", ["ONE", "TWO", "THREE"])
    newer = class_of(numbers)
    payload = encode(resolve(newer), newer(numbers["THREE"]))
    assert decode(type, payload).member == 3
    rebuilt = from_description(type.description)
    assert encode(rebuilt, decode(rebuilt, payload)) == payload, "who passes a message on has no say in its numbers"


@dataclass
class Signal:
    samples: NDArray[np.float32]
    raw: NDArray[np.uint8]
    counts: NDArray[np.int64]
    note: str | None = None


def test_a_member_that_is_an_array_comes_as_one() -> None:
    members = {"samples": t.sequence[t.float32], "raw": t.sequence[t.uint8], "counts": t.sequence[t.int64]}
    arrays = {"samples": NDArray[np.float32], "raw": NDArray[np.uint8], "counts": NDArray[np.int64]}
    twin, plain = idl.make_idl_struct("Signal", "Signal", members), make_dataclass("Signal", arrays.items())
    assert resolve(plain).identity == resolve(twin).identity
    for count in (0, 1, 5, 100_000):
        value = plain(np.arange(count, dtype="f4"), np.arange(count).astype("u1"), -np.arange(count))
        payload = encode(resolve(plain), value)
        same = twin(samples=value.samples.tolist(), raw=value.raw.tolist(), counts=value.counts.tolist())
        assert payload == encode(resolve(twin), same)
        copy = decode(resolve(plain), payload)
        for name in members:
            array, given = getattr(copy, name), getattr(value, name)
            assert isinstance(array, np.ndarray)
            assert (array.dtype, array.tolist()) == (given.dtype, given.tolist())


def test_an_array_within_a_class_with_an_optional_member_keeps_its_bytes() -> None:
    value = Signal(np.ones(3, "f4"), np.zeros(2, "u1"), np.array([7]), "x")
    payload = encode(resolve(Signal), value)
    assert encode(resolve(Signal), decode(resolve(Signal), payload)) == payload
    with pytest.raises(rtmw.ValueMismatch, match="damaged at or after"):
        decode(resolve(Signal), payload[:12])


@pytest.mark.parametrize("hint", [NDArray[np.bool_], NDArray[np.str_], NDArray[Any], np.ndarray])
def test_an_array_of_what_is_no_number_is_refused(hint: Any) -> None:
    with pytest.raises(rtmw.UnsupportedType, match=r"Odd\.member.*cannot be a member.*use .*NDArray\[np\.float32\]"):
        resolve(class_of(hint))


# ---- what is refused ----


class Bits(Flag):
    ONE = 1


class Minus(Enum):
    ONE = -1


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Any, "Any cannot be a member.*dict"),
        (object, "object cannot be a member.*dict"),
        (int | str, r"one type, and not one of int \| str; use a class"),
        (int | str | None, "one type, and not one of"),
        (set[int], r"set\[int\] cannot be a member.*use list\[T\]"),
        (set, r"set cannot be a member.*use list\[T\]"),
        (tuple[int, int], r"use list\[T\], or a class"),
        (dict[str, int], "a list of a class with key and value"),
        (datetime.datetime, "datetime cannot be a member.*float for seconds since 1970"),
        (datetime.timedelta, "float for seconds"),
        (decimal.Decimal, "use str, or float"),
        (uuid.UUID, "use str, or bytes"),
        (Path, "use str"),
        (list, r"list cannot be a member.*use list\[T\]"),
        (typing.List, r"use list\[T\]"),  # noqa: UP006
        (typing.Sequence[int], r"use list\[T\]"),
        (list[Any], r"\[\]: Any cannot be a member"),
        (list[int | None], "an element of a list is never None"),
        (Literal["a"], "use an Enum"),
        (Bits, "use rtmw.uint32"),
        (Minus, r"Minus\.ONE has the number -1"),
        (complex, "use two members of float"),
        (bytearray, "use bytes"),
        (np.float32, r"float32 cannot be a member.*use rtmw\.float32$"),
        (list[np.uint16], r"uint16 cannot be a member.*use rtmw\.uint16$"),
        (np.bool_, "use bool$"),
        (np.str_, "use str$"),
        (None, "use bool, int"),
    ],
    ids=str,
)
def test_a_member_that_cannot_travel_is_refused_by_name_and_with_what_to_write(hint: Any, words: str) -> None:
    with pytest.raises(rtmw.UnsupportedType, match=rf"Odd\.member.*{words}"):
        resolve(class_of(hint))


def test_an_annotation_that_names_nothing_is_refused_with_its_name() -> None:
    with pytest.raises(rtmw.UnsupportedType, match=r"Odd.*'Nowhere' is not defined; define .* at the top of module"):
        resolve(class_of("Nowhere"))


def test_a_member_that_is_no_argument_of_the_class_is_refused() -> None:
    made = make_dataclass("Odd", [("member", int), ("area", int, field(init=False, default=0))])
    with pytest.raises(rtmw.UnsupportedType, match=r"Odd\.area.*init=False.*use a property"):
        resolve(made)


@pytest.mark.parametrize("base", [pydantic.BaseModel, object])
def test_a_class_of_pydantic_that_allows_extra_members_is_refused(base: type) -> None:
    if base is object:
        made: Any = pydantic.dataclasses.dataclass(config=pydantic.ConfigDict(extra="allow"))(class_of(int, "Extra"))
    else:
        made = pydantic.create_model("Extra", __config__=pydantic.ConfigDict(extra="allow"), member=(int, ...))
    for cls in (made, class_of(made), class_of(list[made])):
        with pytest.raises(rtmw.UnsupportedType, match=r"Extra has extra='allow'.*extra='ignore' or 'forbid'.*`dict`"):
            resolve(cls)


def test_the_members_that_a_subclass_adds_do_not_travel_on_a_topic_of_its_base() -> None:
    @dataclass
    class Base:
        number: int

    @dataclass
    class Wider(Base):
        width: int = 0

    type = resolve(Base)
    assert decode(type, encode(type, Wider(1, 5))) == Base(1)


@pytest.mark.parametrize("given", [5, None, b"plant.Speed"])
def test_a_name_of_a_type_that_is_no_text_is_refused(given: Any) -> None:
    made = class_of(int, namespace={"__idl_typename__": given})
    with pytest.raises(rtmw.UnsupportedType, match=rf"Odd\.__idl_typename__ is {given!r}; use a str"):
        resolve(made)


@pytest.mark.parametrize("given", [5, object, class_of(set), [1]], ids=str)
def test_a_refusal_stands_alone_in_its_traceback(given: Any) -> None:
    with pytest.raises(rtmw.UnsupportedType) as caught:
        resolve(given)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_two_classes_of_one_name_are_refused() -> None:
    one, two = class_of(int, "Twice"), class_of(str, "Twice")
    made = make_dataclass("Both", [("one", one), ("two", two)])
    with pytest.raises(rtmw.UnsupportedType, match=r"Both\.two: two classes are called Twice.*__idl_typename__"):
        resolve(made)


@pytest.mark.parametrize("cls", [postponed.Tree, postponed.Chain, postponed.ModelTree])
def test_a_class_that_contains_itself_is_refused(cls: Any) -> None:
    with pytest.raises(rtmw.UnsupportedType, match=rf"{cls.__name__}\.\w+.*{cls.__name__} would contain itself"):
        resolve(cls)


def test_a_class_too_large_to_describe_is_refused() -> None:
    names = [(f"field_{i:04x}_{i * 7919 % 65536:04x}_{i * 104729 % 65536:04x}", int) for i in range(2000)]
    with pytest.raises(rtmw.UnsupportedType, match=r"\d+ bytes to describe; at most 8000"):
        resolve(make_dataclass("Huge", names))


@pytest.mark.parametrize("base", [msgspec.Struct, pydantic.BaseModel])
def test_a_base_class_is_no_type(base: Any) -> None:
    with pytest.raises(rtmw.UnsupportedType):
        resolve(base)


@pytest.mark.parametrize(
    ("hint", "value", "error", "words"),
    [
        (rtmw.int8, 128, rtmw.ValueMismatch, "128 does not fit an int8"),
        (rtmw.uint16, -1, rtmw.ValueMismatch, "-1 does not fit a uint16"),
        (int, 1 << 63, rtmw.ValueMismatch, "does not fit an int64"),
        (rtmw.float32, 1e300, rtmw.ValueMismatch, "does not fit a float"),
        (int, 1.5, rtmw.TypeMismatch, "expected a value of int64, found 1.5"),
        (str, None, rtmw.TypeMismatch, "expected a string, found None"),
        (Speed, Frozen("x", 1), rtmw.TypeMismatch, "expected a .*Speed"),
        (Number, 7, rtmw.ValueMismatch, "Number has no number 7; it has ONE = 1, TWO = 2$"),
        (list[Number], [Number.ONE, 7], rtmw.ValueMismatch, r"\[1\]: Number has no number 7"),
        (Number | None, -1, rtmw.ValueMismatch, "Number has no number -1"),
        (Grade, 2, rtmw.ValueMismatch, "Grade has no number 2; it has LOW = 0, HIGH = 1$"),
        (Enum("Many", [f"n{i}" for i in range(50)]), 0, rtmw.ValueMismatch, r"it has n0 = 1, .*n7 = 8, \.\.\.$"),
        (list[str], "abc", rtmw.TypeMismatch, "expected a list, found 'abc', a str"),
        (list[float], {1.5}, rtmw.TypeMismatch, r"expected a list, found \{1.5\}, a set"),
        (NDArray[np.float32], {1: 2}, rtmw.TypeMismatch, r"expected a list, found \{1: 2\}, a dict"),
        (bytes, "", rtmw.TypeMismatch, "expected bytes, found ''"),
        (list[rtmw.int8], [1, 500], rtmw.ValueMismatch, "500 does not fit an int8"),
    ],
)
# Proves G3.
def test_a_value_that_does_not_fit_is_refused_with_its_member(
    hint: Any, value: Any, error: type[Exception], words: str
) -> None:
    made = class_of(hint)
    with pytest.raises(error, match=rf"Odd\.member.*{words}"):
        encode(resolve(made), made(value))


# ---- classes that check their values ----


class Bounded(pydantic.BaseModel):
    level: rtmw.int32 = pydantic.Field(ge=0, alias="Level")
    name: str = "x"

    @pydantic.field_validator("name")
    @classmethod
    def not_empty(cls, value: str) -> str:
        if not value:
            raise ValueError("a name is needed")
        return value.upper()


class Positive(msgspec.Struct):
    level: rtmw.int32

    def __post_init__(self) -> None:
        if self.level < 0:
            raise ValueError("below nothing")


class Holder(msgspec.Struct):
    inner: Positive


def unchecked(cls: Any, **members: Any) -> Any:
    made = object.__new__(cls)
    vars(made).update(members)
    return made


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Bounded.model_construct(level=-1, name="x"), "greater than or equal to 0"),
        (Bounded.model_construct(level=1, name=""), "a name is needed"),
        (unchecked(Raising, number=2), "odd numbers only"),
    ],
    ids=["a bound of pydantic", "a validator of pydantic", "__post_init__ of an IdlStruct"],
)
# Proves G2.
def test_what_a_class_refuses_is_a_valuemismatch_with_its_text(bad: Any, words: str) -> None:
    type = resolve(bad.__class__)
    payload = encode(type, bad)
    with pytest.raises(rtmw.ValueMismatch, match=rf"the class refuses the values of the message: [\s\S]*{words}"):
        decode(type, payload)


def test_a_msgspec_class_within_another_checks_its_values() -> None:
    positive = Positive(1)
    positive.level = -1
    payload = encode(resolve(Holder), Holder(positive))
    with pytest.raises(rtmw.ValueMismatch, match=r"Holder: the class refuses .*below nothing"):
        decode(resolve(Holder), payload)


def test_validators_of_pydantic_may_change_what_is_received() -> None:
    type = resolve(Bounded)
    assert decode(type, encode(type, Bounded.model_construct(level=1, name="low"))) == Bounded(Level=1, name="LOW")


# Proves G2.
def test_a_damaged_payload_is_not_said_to_be_refused_by_the_class() -> None:
    type = resolve(Bounded)
    with pytest.raises(rtmw.ValueMismatch, match="damaged at or after byte"):
        decode(type, encode(type, Bounded(Level=1))[:-3])


def test_an_alias_that_is_no_name_is_refused_unless_the_class_takes_its_members_by_name() -> None:
    class Choosing(pydantic.BaseModel):
        level: int = pydantic.Field(validation_alias=pydantic.AliasChoices("a", "b"))

    class ByName(Choosing):
        model_config = pydantic.ConfigDict(validate_by_name=True)

    with pytest.raises(rtmw.UnsupportedType, match=r"Choosing\.level.*validate_by_name"):
        resolve(Choosing)
    assert decode(resolve(ByName), encode(resolve(ByName), ByName(level=3))) == ByName(level=3)


def test_a_pydantic_dataclass_is_checked_like_a_model() -> None:
    @pydantic.dataclasses.dataclass
    class Short:
        name: Annotated[str, pydantic.Field(max_length=3)]

    value = Short("abc")
    assert decode(resolve(Short), encode(resolve(Short), value)) == value
    value.name = "too long"
    with pytest.raises(rtmw.ValueMismatch, match="at most 3 characters"):
        decode(resolve(Short), encode(resolve(Short), value))


# ---- what is imported ----


@pytest.mark.parametrize("missing", ["cyclonedds", "msgspec", "pydantic"])
def test_a_dataclass_needs_no_other_package(missing: str) -> None:
    script = f"""
import sys
sys.modules["{missing}"] = None
from dataclasses import dataclass
import rtmw.types
@dataclass
class Speed:
    rpm: float
    marks: list[rtmw.types.int32]
type = rtmw.types.resolve(Speed)
assert type.decode(type.encode(Speed(1.5, [2]))) == Speed(1.5, [2])
text = rtmw.types.resolve(dict)
assert text.decode(text.encode({{"a": "b"}})) == {{"a": "b"}}
print(sorted({{"cyclonedds", "numpy", "msgspec", "pydantic"}} & {{key for key, value in sys.modules.items() if value}}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_dataclass_with_a_check_of_its_own_is_called() -> None:
    value = Checked(1, [])
    copy = decode(resolve(Checked), encode(resolve(Checked), value))
    assert copy.history == [1, 1]
