"""Values that do not fit are refused with the member's name; classes are made as their authors wrote them."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import replace
from typing import Any

import cyclonedds.idl as idl
import cyclonedds.idl.types as t
import numpy as np
import pytest
from cyclonedds.idl._support import Endianness
from cyclonedds.idl.annotations import appendable, mutable

from rtmw.errors import TypeMismatch, ValueMismatch
from rtmw.types import from_description, resolve
from tests.types.messages import (
    Checked,
    Colour,
    Defaulted,
    Frozen,
    FrozenSlotted,
    Grown,
    Keyed,
    Plot,
    Point,
    Raising,
    Reading,
    Rows,
    Slotted,
    Tree,
)

POINT = Point(1.5, True, "a")
PLOT = Plot("t", [POINT], [1, 2, 3], b"abcd", b"xyz", -5)
READING = Reading("A1", [1.0, 2.0], Colour.GREEN, "note")


def encode(value: Any, cls: Any = None) -> bytes:
    kind = resolve(cls or type(value))
    assert kind.encode is not None
    return bytes(kind.encode(value))


def decode(cls: Any, payload: bytes) -> Any:
    kind = resolve(cls)
    assert kind.decode is not None
    return kind.decode(memoryview(payload))


def test_an_object_of_another_class_is_refused_and_both_are_named() -> None:
    with pytest.raises(TypeMismatch, match=r"river.Reading \(tests.types.messages.Reading\), not int"):
        encode(5, Reading)


def test_a_class_of_equal_structure_is_still_another_class() -> None:
    rebuilt = from_description(resolve(Reading).description)
    assert rebuilt.decode is not None
    copy = rebuilt.decode(memoryview(encode(READING)))
    with pytest.raises(TypeMismatch, match=r"river\.Reading"):
        encode(copy, Reading)


def test_an_instance_of_a_subclass_is_accepted() -> None:
    class Special(Reading):
        pass

    assert encode(Special(*vars(READING).values()), Reading) == encode(READING)


WRONG: list[tuple[Any, type[Exception], str]] = [
    (replace(READING, station=5), TypeMismatch, r"river.Reading.station: expected a string, found 5"),
    (replace(READING, station="\ud800"), ValueMismatch, r"station: .* not valid Unicode"),
    (replace(READING, values=["x"]), TypeMismatch, r"values\[0\]: expected a value of double, found 'x'"),
    (replace(READING, values=None), TypeMismatch, r"values: expected a list, found None, a NoneType"),
    (replace(READING, colour="RED"), TypeMismatch, r"colour: expected a value of river.Colour, found 'RED'"),
    (replace(READING, colour=-1), ValueMismatch, r"colour: -1 does not fit"),
    (replace(READING, note="sixsix"), ValueMismatch, r"note: 'sixsix' has 6 characters; at most 5 fit"),
    (replace(PLOT, points=[POINT] * 5), ValueMismatch, r"points: .* has 5 elements; at most 4 fit"),
    (replace(PLOT, points=[None]), TypeMismatch, r"points\[0\]: expected a tests.types.messages.Point, found None"),
    (replace(PLOT, points=[replace(POINT, x="1")]), TypeMismatch, r"points\[0\].x: expected a value of double"),
    (replace(PLOT, points=[replace(POINT, flag="no")]), TypeMismatch, r"flag: expected a value of boolean, found 'no'"),
    (replace(PLOT, points=[replace(POINT, letter="é")]), ValueMismatch, r"letter: 'é' does not fit a char"),
    (replace(PLOT, points=[replace(POINT, letter="ab")]), ValueMismatch, r"letter: 'ab' does not fit a char"),
    (replace(PLOT, grid=[1, 2]), ValueMismatch, r"grid: \[1, 2\] has 2 elements; exactly 3 are needed"),
    (replace(PLOT, grid=[1, 2, 40_000]), ValueMismatch, r"grid\[2\]: 40000 does not fit an int16"),
    (replace(PLOT, grid=[1, 2, 0.5]), TypeMismatch, r"grid\[2\]: expected a value of int16, found 0.5"),
    (replace(PLOT, image=b"abc"), ValueMismatch, r"image: b'abc' has 3 elements; exactly 4 are needed"),
    (replace(PLOT, image=4), TypeMismatch, r"image: expected a list, found 4, an int"),
    (replace(PLOT, raw="text"), TypeMismatch, r"raw: expected bytes, found 'text'"),
    (replace(PLOT, small=200), ValueMismatch, r"geo.Plot.small: 200 does not fit an int8"),
    (Grown(1 << 31), ValueMismatch, r"geo.Grown.first: 2147483648 does not fit"),
    (Grown(1, 5), TypeMismatch, r"geo.Grown.second: expected a string, found 5"),  # type: ignore[arg-type]
    (Tree(1, [Tree(2, [Tree("3", [])])]), TypeMismatch, r"children\[0\].children\[0\].number"),
]


@pytest.mark.parametrize(("value", "error", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_a_member_that_does_not_fit_is_named(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        encode(value)


def test_a_member_that_was_never_set_is_named() -> None:
    value = replace(READING)
    del value.station
    with pytest.raises(ValueMismatch, match=r"river.Reading.station: not set"):
        encode(value)


def test_a_long_value_is_shortened_in_the_message() -> None:
    with pytest.raises(TypeMismatch) as caught:
        encode(replace(READING, station=list(range(1000))))
    assert len(str(caught.value)) < 120


def test_a_value_that_contains_itself_is_refused() -> None:
    value = Tree(1, [])
    value.children.append(value)
    with pytest.raises(ValueMismatch, match="nested too deeply"):
        encode(value)


def test_two_wrong_lengths_do_not_make_up_for_each_other() -> None:
    pair = idl.make_idl_struct("Pair", "Pair", {"a": t.array[t.int8, 3], "b": t.array[t.int8, 3]})
    with pytest.raises(ValueMismatch, match=r"Pair\.a"):
        encode(pair(a=[1, 2], b=[1, 2, 3, 4]))


def test_enumerators_without_a_name_stay_numbers() -> None:
    assert decode(Reading, encode(replace(READING, colour=3))).colour == 3


@pytest.mark.parametrize(
    "value", [Frozen("x", 3), Slotted("x", 3), FrozenSlotted("x", 3), Keyed(name="x", number=3), Defaulted("x", 4)]
)
def test_a_dataclass_of_any_make_comes_back_as_it_was(value: Any) -> None:
    assert decode(type(value), encode(value)) == value


def test_post_init_runs_when_a_value_is_decoded() -> None:
    value = Checked(4)
    assert value.history == [4]
    assert decode(Checked, encode(value)).history == [4, 4]


def test_octets_may_be_given_as_bytes_or_numbers() -> None:
    kind = idl.make_idl_struct("Octets", "Octets", {"a": t.sequence[t.uint8], "b": t.array[t.byte, 2]})
    for a, b in (([1, 2], b"xy"), (b"\1\2", [120, 121]), (bytearray(b"\1\2"), bytearray(b"xy"))):
        payload = encode(kind(a=a, b=b))
        assert payload == encode(kind(a=[1, 2], b=b"xy")) == kind(a=[1, 2], b=b"xy").serialize()
        assert vars(decode(kind, payload)) == {"a": [1, 2], "b": b"xy"}


ROWS = Rows([1, -2], [1, 2], [1.5, 2.5], [0.5, 1.0], [1, 2])
COUNTS = [1, 2, 3]


@pytest.mark.parametrize(
    "row",
    [
        (1, 2, 3),
        deque(COUNTS),
        np.array(COUNTS, "<i8"),
        np.array(COUNTS, ">i8"),
        np.array(COUNTS, "<i2"),
        np.array([1, 0, 2, 0, 3], "<i8")[::2],
        array("q", COUNTS),
        array("b", COUNTS),
        memoryview(array("q", COUNTS)),
    ],
    ids=lambda row: "memoryview" if isinstance(row, memoryview) else repr(row),
)
def test_a_row_of_integers_may_be_anything_that_holds_some(row: Any) -> None:
    for name in ("counts", "octets"):
        assert encode(replace(ROWS, **{name: row})) == encode(replace(ROWS, **{name: COUNTS}))


@pytest.mark.parametrize("kind", ["<f8", "<f4", ">f8", "<f2", "<i4"])
def test_a_row_of_floats_may_be_an_array(kind: str) -> None:
    for name in ("doubles", "floats", "pair"):
        row = np.array([1, 2], kind)
        assert encode(replace(ROWS, **{name: row})) == encode(replace(ROWS, **{name: [1.0, 2.0]}))


@pytest.mark.parametrize(
    "row",
    [
        np.array([[1, 2], [3, 4]]),
        np.array([1.5]),
        np.array(5),
        iter([1, 2]),
        "12",
        b"12",
        bytearray(b"12"),
        [1, [2]],
        {1, 2},
        frozenset({1}),
        {1: 2},
        {1: 2}.keys(),
        7,
    ],
)
def test_what_is_no_row_of_integers_is_refused(row: Any) -> None:
    with pytest.raises((TypeMismatch, ValueMismatch), match="counts"):
        encode(replace(ROWS, counts=row))


@pytest.mark.parametrize("element", [str, float, t.int8, bool, Colour])
@pytest.mark.parametrize("row", ["", "abc", b"", b"abc", bytearray(b"a"), {1.5}, set(), {"a": 1}, {}.keys()])
# Proves G3.
def test_text_bytes_sets_and_dicts_are_no_lists(element: Any, row: Any) -> None:
    """Their elements would travel: the characters of a text, the keys of a dict."""
    for hint in (list[element], t.sequence[element], t.array[element, len(row) or 1]):
        made = idl.make_idl_struct("Made", "Made", {"member": hint})
        with pytest.raises(TypeMismatch, match=rf"Made\.member: expected a list, found .*, an? {type(row).__name__}$"):
            encode(made(member=row))


def test_text_is_a_row_of_characters() -> None:
    made = idl.make_idl_struct("Made", "Made", {"member": t.sequence[t.char]})
    assert decode(made, encode(made(member="abc"))).member == ["a", "b", "c"]
    with pytest.raises(ValueMismatch, match=r"member\[1\]: 'é' does not fit a char"):
        encode(made(member="aé"))


def test_a_list_that_changes_while_it_is_read_is_refused() -> None:
    class Thief:
        def __index__(self) -> int:
            row.clear()
            return 1

    row: list[Any] = [Thief(), 2, 3]
    with pytest.raises(ValueMismatch, match="a list changed while it was read"):
        encode(replace(ROWS, counts=row))


@pytest.mark.parametrize(
    ("name", "row"),
    [("counts", [1 << 63]), ("counts", [-(1 << 63) - 1]), ("octets", [256]), ("octets", [-1]), ("floats", [1e39])],
)
def test_an_element_out_of_range_is_named(name: str, row: list[Any]) -> None:
    with pytest.raises(ValueMismatch, match=rf"{name}\[0\]: .* does not fit"):
        encode(replace(ROWS, **{name: row}))


def test_the_limits_of_each_number_travel() -> None:
    for kind, bits in ((t.int8, 8), (t.int16, 16), (t.int32, 32), (t.int64, 64)):
        check_numbers(kind, -(1 << bits - 1), (1 << bits - 1) - 1)
    for kind, bits in ((t.uint8, 8), (t.uint16, 16), (t.uint32, 32), (t.uint64, 64)):
        check_numbers(kind, 0, (1 << bits) - 1)


def check_numbers(kind: Any, least: int, most: int) -> None:
    made = idl.make_idl_struct("Numbers", "Numbers", {"least": kind, "most": kind})
    value = made(least=least, most=most)
    assert encode(value) == value.serialize()
    assert decode(made, encode(value)) == value
    for beyond in (made(least=least - 1, most=0), made(least=0, most=most + 1)):
        with pytest.raises(ValueMismatch, match="does not fit"):
            encode(beyond)


def test_what_a_class_raises_when_it_is_made_is_told() -> None:
    payload = encode(Raising(1))
    with pytest.raises(ValueMismatch, match=r"geo.Raising: .*: odd numbers only"):
        decode(Raising, payload[:4] + b"\2" + payload[5:])


def test_a_long_sequence_and_a_long_text_round_trip() -> None:
    value = Reading("x" * 100_000, [float(i) for i in range(50_000)], Colour.RED, "")
    assert encode(value) == value.serialize()
    assert decode(Reading, encode(value)) == value


@pytest.mark.parametrize("count", [2**31, 2**32 - 1, 2**28])
def test_a_length_beyond_the_payload_is_refused_before_memory_is_taken(count: int) -> None:
    payload = bytearray(encode(Plot("", [], [1, 2, 3], b"abcd")))
    for place in (4, 12):
        damaged = bytearray(payload)
        damaged[place : place + 4] = count.to_bytes(4, "little")
        with pytest.raises(ValueMismatch, match=r"geo.Plot: payload of \d+ bytes is damaged at or after byte \d+"):
            decode(Plot, bytes(damaged))


def test_a_string_of_length_0_or_without_its_end_is_refused() -> None:
    payload = bytearray(encode(READING))
    payload[4] = 0
    with pytest.raises(ValueMismatch, match="terminator"):
        decode(Reading, bytes(payload))
    payload[4] = 2
    with pytest.raises(ValueMismatch, match="terminator"):
        decode(Reading, bytes(payload))


def test_members_that_a_newer_writer_added_are_passed_over_and_missing_ones_are_an_error() -> None:
    older = appendable(idl.make_idl_struct("Grow", "Grow", {"first": t.int32}))
    newer = appendable(idl.make_idl_struct("Grow", "Grow", {"first": t.int32, "second": str}))
    assert decode(older, newer(first=1, second="b").serialize()).first == 1
    with pytest.raises(ValueMismatch, match="Grow"):
        decode(newer, older(first=1).serialize())


def test_an_encoding_that_needs_the_class_is_refused_without_it() -> None:
    payload = READING.serialize(endianness=Endianness.Big)
    assert decode(Reading, payload) == READING
    rebuilt = from_description(resolve(Reading).description)
    assert rebuilt.decode is not None
    with pytest.raises(ValueMismatch, match="begins with 0000"):
        rebuilt.decode(memoryview(payload))


def test_a_type_that_only_cyclonedds_covers_is_opaque_without_its_class() -> None:
    kind = mutable(idl.make_idl_struct("Loose", "Loose", {"a": t.int32}))
    payload = encode(kind(a=5))
    assert payload == kind(a=5).serialize()
    assert decode(kind, payload).a == 5
    rebuilt = from_description(resolve(kind).description)
    assert rebuilt.decode is not None
    assert rebuilt.decode(memoryview(payload)) == payload
    with pytest.raises(ValueMismatch, match=r"Loose\.a: 2147483648 does not fit"):
        encode(kind(a=1 << 31))
