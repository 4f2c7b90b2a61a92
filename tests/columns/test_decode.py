"""Columns hold what the reference decoder gives, on types and values made at random, in every encoding."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cyclonedds.idl._support import Endianness
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtmw.columns import arrow_schema, decode
from rtmw.errors import UnsupportedType, ValueMismatch
from rtmw.types import from_description, resolve
from rtmw.types.classes import describe
from rtmw.types.schema import Primitive, Sequence, nodes_of, strip
from tests.columns.payloads import expected_row, side_by_side
from tests.types.idl_strategies import messages
from tests.types.messages import Colour, Frozen, Grown, Plot, Point, Reading, Rows, Tree, Various

thorough = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
EVERY = ("union", "optional", "appendable")


def rows_of(cls: Any, payloads: list[bytes], **how: Any) -> list[dict[str, Any]]:
    batch = decode(side_by_side(payloads), resolve(cls), **how)
    batch.validate(full=True)
    assert batch.schema == arrow_schema(resolve(cls), **how)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def has_a_number_beyond(value: Any, limit: int) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (type(value) is int and value >= limit) or any(has_a_number_beyond(part, limit) for part in parts)


def has_list_of_numbers(cls: Any) -> bool:
    """In XCDR2, cyclonedds writes a size in front of a `list` of numbers, unlike of a sequence; the description of a
    type in XCDR1 has both as sequences."""
    nodes = (node for part in describe(cls)[0].types.values() for node in nodes_of(part))
    return any(
        isinstance(one, Sequence) and not one.plain and isinstance(strip(one.element), Primitive) for one in nodes
    )


@thorough
@given(messages(*EVERY), st.integers(1, 20))
def test_columns_hold_what_the_reference_decoder_gives(message: tuple[Any, Any], count: int) -> None:
    cls, value = message
    assert rows_of(cls, [value.serialize()] * count) == [expected_row(cls, value)] * count


@thorough
@given(messages(*EVERY), st.sampled_from(["widen", "long"]))
def test_numbers_without_a_sign_keep_their_value_in_columns_with_one(message: tuple[Any, Any], how: str) -> None:
    cls, value = message
    beyond = how == "long" and has_a_number_beyond(expected_row(cls, value), 1 << 63)
    with pytest.raises(ValueMismatch, match="beyond 64 bits with a sign") if beyond else nullcontext():
        assert rows_of(cls, [value.serialize()], unsigned=how) == [expected_row(cls, value)]


@thorough
@given(messages("union", "appendable"))
def test_every_byte_order_and_version_gives_the_same_rows(message: tuple[Any, Any]) -> None:
    cls, value = message
    versions = (False,) if has_list_of_numbers(cls) else (False, True)
    payloads = [value.serialize(endianness=order, use_version_2=newer) for order in Endianness for newer in versions]
    assert rows_of(cls, payloads) == [expected_row(cls, value)] * len(payloads)


@thorough
@given(messages(*EVERY))
def test_up_to_three_zero_bytes_may_follow(message: tuple[Any, Any]) -> None:
    cls, value = message
    payload = value.serialize()
    assert rows_of(cls, [payload + bytes(n) for n in range(4)]) == [expected_row(cls, value)] * 4
    for rest in (bytes(4), b"\0\1"):
        with pytest.raises(ValueMismatch, match="too many"):
            rows_of(cls, [payload, payload + rest])


@thorough
@given(messages(*EVERY), st.data())
def test_a_payload_cut_short_is_refused_by_its_row(message: tuple[Any, Any], data: st.DataObject) -> None:
    cls, value = message
    payload = value.serialize()
    shorter = payload[: data.draw(st.integers(0, len(payload) - 1))]
    with pytest.raises(ValueMismatch, match=rf"{cls.__name__}.*row 1, {len(shorter)} bytes from byte"):
        rows_of(cls, [payload, shorter])


def test_values_of_every_kind_in_many_rows() -> None:
    values: list[Any] = [Various.example(), Various([], Various.example().flags, [Colour.RED] * 2, [], None)]
    payloads = [values[i % 2].serialize() for i in range(1000)]
    assert rows_of(Various, payloads) == [expected_row(Various, values[i % 2]) for i in range(1000)]


def test_a_member_that_a_newer_writer_added_is_passed_over() -> None:
    payload = bytearray(Grown(7, "x").serialize())
    size = int.from_bytes(payload[4:8], "little")
    grown = payload[:4] + (size + 6).to_bytes(4, "little") + payload[8 : 8 + size] + b"\1\2\3\4\5\6"
    assert rows_of(Grown, [bytes(payload), bytes(grown)]) == [{"first": 7, "second": "x"}] * 2


def test_an_enumerator_without_a_name_is_its_number() -> None:
    payload = Reading("a", [], Colour.GREEN).serialize()
    other = payload.replace(b"\4\0\0\0", b"\5\0\0\0", 1)
    assert payload != other
    assert [row["colour"] for row in rows_of(Reading, [payload, other])] == ["GREEN", "5"]


def test_text_is_looked_through() -> None:
    payload = Frozen("aä", 1).serialize()
    for wrong in (b"\xc3\x28", b"\xed\xa0", b"\xc0\x80", b"\xff\xff"):
        with pytest.raises(ValueMismatch, match=r"geo.Frozen\.name: .* not UTF-8"):
            rows_of(Frozen, [payload.replace("ä".encode(), wrong)])


def test_an_error_names_the_member_however_deep_it_lies() -> None:
    plot = Plot("t", [Point(1.0, True, "a")], [1, 2, 3], b"abcd")
    payload = bytearray(plot.serialize())
    payload[payload.index(b"a", 20)] = 0x80
    with pytest.raises(ValueMismatch, match=r"geo.Plot\.points\.element\.letter: .* not ASCII"):
        rows_of(Plot, [bytes(payload)])


def test_no_payloads_give_no_rows() -> None:
    empty = np.array([], np.int64)
    assert decode((b"", empty, empty), resolve(Various)).num_rows == 0


@pytest.mark.parametrize(("position", "size"), [(0, 9), (9, 0), (-1, 4), (4, -1), (1 << 62, 1 << 62)])
def test_a_payload_outside_of_the_memory_is_not_looked_at(position: int, size: int) -> None:
    with pytest.raises(ValueError, match="lies in the data"):
        decode((bytes(8), np.array([position]), np.array([size])), resolve(Frozen))


def test_a_type_that_contains_itself_is_refused_in_plain_words() -> None:
    with pytest.raises(UnsupportedType, match=r"river\.Tree contains itself"):
        arrow_schema(resolve(Tree))


def test_a_type_without_members_is_refused_in_plain_words() -> None:
    with pytest.raises(UnsupportedType, match="read them as payloads"):
        arrow_schema(resolve(bytes))


def test_what_is_always_there_is_not_nullable() -> None:
    schema = arrow_schema(resolve(Various))
    assert [field.nullable for field in schema] == [False, False, False, False, True]
    assert schema.field("grown").type == pa.list_(
        pa.field("element", pa.struct([pa.field("first", pa.int32(), False), pa.field("second", pa.string())]), False)
    )


def test_a_type_known_by_its_description_gives_the_same_columns() -> None:
    kind = from_description(resolve(Rows).description)
    payload = Rows([1], [2], [3.0], [4.0], [5.0, 6.0]).serialize()
    row = {"counts": [1], "octets": b"\2", "doubles": [3.0], "floats": [4.0], "pair": [5.0, 6.0]}
    assert decode(side_by_side([payload]), kind).to_pylist() == [row]
