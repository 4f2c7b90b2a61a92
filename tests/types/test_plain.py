"""Values that are made of plain data by the description of their type alone."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from rtmw.cli.values import to_plain
from rtmw.errors import MessageError, TypeMismatch, ValueMismatch
from rtmw.text.strict_json import as_json
from rtmw.types import resolve
from rtmw.types.plain import maker
from tests.types.idl_strategies import messages
from tests.types.messages import Point, Reading, Various


def payload_of(kind: Any, value: Any) -> bytes:
    """As a message of that type."""
    encode = resolve(kind).encode
    assert encode is not None
    return bytes(encode(value))


def remade(kind: Any, plain: Any) -> bytes:
    """The payload of what plain data describes, by the description of the type."""
    made, make = maker(resolve(kind).description)
    assert made.identity == resolve(kind).identity
    assert made.encode is not None
    return bytes(made.encode(make(plain)))


def printed(kind: Any, payload: bytes) -> Any:
    """The payload as `rtmw topic echo --json` prints it in a program without the class, read again."""
    decode = maker(resolve(kind).description)[0].decode
    assert decode is not None
    return json.loads(as_json(to_plain(decode(memoryview(payload)))))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(messages("union", "optional", "appendable"))
def test_what_is_printed_of_any_message_can_be_published_again(message: tuple[Any, Any]) -> None:
    kind, value = message
    payload = payload_of(kind, value)
    assert remade(kind, printed(kind, payload)) == payload


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.5, np.nan, np.inf], np.float32),
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.array([(7, [1.0, 2.0], "abc")], [("id", "u4"), ("at", "f8", (2,)), ("name", "S4")]),
        np.array([[(1, (2.5,)), (3, (4.5,))]], [("x", "i2"), ("inner", [("y", "f4")])]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_what_is_printed_of_an_array_can_be_published_again(array: Any) -> None:
    dtype = array.dtype if array.ndim == 1 else np.dtype((array.dtype, array.shape))
    payload = payload_of(dtype, array)
    assert remade(dtype, printed(dtype, payload)) == payload


def test_members_may_come_in_any_order_and_optional_ones_may_be_left_out() -> None:
    plain = {"grown": [], "colours": ["RED", 4], "flags": {"high": True}, "parts": []}
    _, make = maker(resolve(Various).description)
    value = make(plain)
    assert (value.maybe, value.flags.low, value.flags.high) == (None, False, True)
    assert remade(Various, plain) == remade(Various, {**plain, "maybe": None})


@pytest.mark.parametrize(
    ("kind", "plain", "error", "said"),
    [
        (Point, 5, TypeMismatch, "geo.Point: expected an object of geo.Point, found 5"),
        (Point, {"x": 1.0}, ValueMismatch, "geo.Point: .* not set"),
        (Point, {"X": 1.0}, ValueMismatch, "geo.Point: there is no X; there are x, "),
        (Reading, {"station": "A1", "values": 7, "colour": "RED", "note": ""}, TypeMismatch, "values: expected a list"),
        (np.dtype(np.int32), [1.5], ValueMismatch, "does not fit int32"),
        (np.dtype(np.int8), [300], ValueMismatch, "no such array"),
        (np.dtype([("x", "i4")]), [{"y": 1}], ValueMismatch, "has not the fields x"),
    ],
)
def test_plain_data_of_another_structure_is_refused_with_what_there_is(
    kind: Any, plain: Any, error: type[MessageError], said: str
) -> None:
    _, make = maker(resolve(kind).description)
    with pytest.raises(error, match=said):
        make(plain)
