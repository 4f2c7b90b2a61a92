"""`str` travels as ROS's String, `dict` as JSON text, and programs get their values as they were given."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cyclonedds.idl as idl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rtmw
from rtmw.types import resolve
from rtmw.types.plain import maker
from rtmw.types.text import content
from tests.types.coded import decode, encode
from tests.types.idl_strategies import texts

String = idl.make_idl_struct("String", "std_msgs.msg.String", {"data": str})
Json = idl.make_idl_struct("Json", "rtmw.Json", {"text": str})

_leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(_leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4))


@given(texts)
def test_a_str_is_the_string_of_ros(text: str) -> None:
    assert resolve(str).identity == resolve(String).identity
    payload = encode(resolve(str), text)
    assert payload == String(data=text).serialize()
    assert decode(resolve(str), payload) == text


@given(values)
def test_any_json_value_comes_as_it_was_given(value: Any) -> None:
    assert resolve(dict).identity == resolve(Json).identity
    payload = encode(resolve(dict), value)
    assert decode(resolve(dict), payload) == value
    assert json.loads(Json.deserialize(payload).text) == value


def test_a_large_text_is_written_where_it_will_lie() -> None:
    in_place = resolve(str).in_place
    assert in_place is not None
    text = "ü" * 40_000
    payload = encode(resolve(str), text)
    assert in_place.begin(text) == len(payload)
    memory = bytearray(len(payload))
    in_place.write(text, memoryview(memory))
    assert memory == payload


def test_texts_and_json_cross_between_programs_of_a_domain(domain: rtmw.Domain) -> None:
    large = "x" * 100_000
    with (
        rtmw.Publisher("chatter", str, domain=domain) as chatter,
        rtmw.Publisher("settings", dict, domain=domain, history=1) as settings,
        rtmw.Subscriber("chatter", str, domain=domain) as heard,
        rtmw.Subscriber("chatter", rtmw.ANY, domain=domain) as any_type,
        rtmw.Subscriber("chatter", String, domain=domain) as struct,
    ):
        for text in ("hello", large):
            chatter.publish(text)
            assert heard.receive(5).value == text
            assert any_type.receive(5).value.data == text
            assert struct.receive(5).value == String(data=text)
        settings.publish({"limit": 3, "names": ["a", "b"]})
        with rtmw.Subscriber("settings", dict, domain=domain, history=1) as late:
            assert late.receive(5).value == {"limit": 3, "names": ["a", "b"]}


def circle() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["self"] = made
    return made


@dataclass
class Other:
    number: int


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ({"a": [1, float("nan")]}, rtmw.ValueMismatch, r"value\['a'\]\[1\] is nan, which is no number of JSON"),
        (float("-inf"), rtmw.ValueMismatch, "value is -inf, which is no number of JSON"),
        ({"a": {3: 1}}, rtmw.TypeMismatch, r"value\['a'\] has the key 3; keys of JSON are text"),
        ({None: 1}, rtmw.TypeMismatch, "value has the key None"),
        ({"a": {1}}, rtmw.TypeMismatch, r"value\['a'\] is \{1\}, a set; JSON has dict"),
        ([b"x"], rtmw.TypeMismatch, r"value\[0\] is b'x', a bytes"),
        ({"a": Other(1)}, rtmw.TypeMismatch, "an Other; JSON has"),
        ({"a": np.int32(1)}, rtmw.TypeMismatch, r"value\['a'\] is .*an int32; JSON has .* and None: use int\(x\)$"),
        ([np.float32(1)], rtmw.TypeMismatch, r"use float\(x\)"),
        ([np.True_], rtmw.TypeMismatch, r"use bool\(x\)"),
        ([np.ones(2)], rtmw.TypeMismatch, r"ndarray; .*use x\.tolist\(\)"),
        ({"a": Enum("Grade", ["LOW"])["LOW"]}, rtmw.TypeMismatch, r"a Grade; .*use its \.value"),
        ({"a": "\ud800"}, rtmw.ValueMismatch, "not valid Unicode"),
        (circle(), rtmw.ValueMismatch, "contains itself"),
    ],
    ids=str,
)
def test_what_is_no_json_is_refused_with_its_place(value: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        encode(resolve(dict), value)


def test_a_topic_of_texts_refuses_another_value() -> None:
    with pytest.raises(rtmw.TypeMismatch, match="expected a string, found 5"):
        encode(resolve(str), 5)


@pytest.mark.parametrize("text", ["", "{", "NaN", '{"a": Infinity}', "[" * 100_000, "1 2"])
def test_a_text_that_is_no_json_is_a_valuemismatch(text: str) -> None:
    with pytest.raises(rtmw.ValueMismatch, match=r"rtmw\.Json: a text of \d+ characters is no JSON"):
        decode(resolve(dict), Json(text=text).serialize())


@pytest.mark.parametrize(("kind", "value"), [(str, "{bad"), (str, ""), (dict, {"text": "{bad"}), (dict, None)])
def test_tools_without_the_type_make_and_show_the_value_itself(kind: type, value: Any, domain: rtmw.Domain) -> None:
    made, make = maker(resolve(kind).description)
    given: Any = made
    with (
        rtmw.Publisher("t", given, domain=domain) as publisher,
        rtmw.Subscriber("t", rtmw.ANY, domain=domain) as any_type,
    ):
        publisher.publish(make(value))
        sample = any_type.receive(5)
        assert content(sample.type_name, sample.value) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rtmw.Json", Json(text="{bad")),
        ("rtmw.Json", Json(text="[" * 400 + "]" * 400)),
        ("other.Json", Json(text="{}")),
    ],
    ids=["bad", "deep", "other"],
)
def test_tools_show_the_struct_of_what_is_no_json_and_of_other_types(name: str, value: Any) -> None:
    assert content(name, value) is value
