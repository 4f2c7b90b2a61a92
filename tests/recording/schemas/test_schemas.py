"""`rtmw.recording.schemas`: from message types to what a recording says of them, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cyclonedds.idl import make_idl_struct
from cyclonedds.idl import types as t

from rtmw.errors import UnsupportedType
from rtmw.recording.contents import TYPE_KEY, Channel, Schema
from rtmw.recording.schemas import (
    CDR,
    REMARK_KEY,
    SchemaText,
    message_type_of,
    metadata_of,
    no_type,
    remark_of,
    schema_of,
    type_name,
)
from rtmw.recording.schemas.idl import in_full, unescaped
from rtmw.types import MessageType, resolve
from tests.types import messages
from topics import river

READING = resolve(river.Reading)
LOOKUP = resolve(make_idl_struct("Lookup", "mod.Lookup", {"lookup": dict[str, t.int32]}))
KINDS = [READING, LOOKUP, resolve(bytes), resolve(np.dtype("f4")), resolve(np.dtype([("a", "i4"), ("b", "f8", (2,))]))]


def as_record(schema: SchemaText) -> Schema:
    return Schema(1, schema.name, schema.encoding, schema.data)


def channel(message_encoding: str = "cdr", metadata: dict[str, str] | None = None) -> Channel:
    return Channel(1, "topic", 1, message_encoding, metadata or {})


@pytest.mark.parametrize("type", KINDS, ids=lambda type: type.name)
@pytest.mark.parametrize("ros2", [False, True])
def test_every_type_comes_back_exactly(type: MessageType, ros2: bool) -> None:
    record = schema_of(type, ros2=ros2)
    assert record == schema_of(type.description, ros2=ros2)
    found_in = channel(record.message_encoding, metadata_of(type, ros2=ros2))
    found = message_type_of(as_record(record) if record.name else None, found_in)
    assert found is not None
    assert (found.identity, found.description) == (type.identity, type.description)


def test_typed_messages_have_idl_and_others_our_description() -> None:
    record = schema_of(READING)
    assert (record.name, record.encoding, record.message_encoding) == ("river::Reading", "omgidl", "cdr")
    assert b"struct Reading {" in record.data
    assert schema_of(resolve(bytes)) == SchemaText("", "", b"", "application/octet-stream")
    dtype = resolve(np.dtype("f4"))
    assert schema_of(dtype) == SchemaText("numpy:<f4", "rtmw", dtype.description, "rtmw.numpy")


def test_a_type_without_idl_is_still_recorded_and_the_channel_says_why() -> None:
    record = schema_of(LOOKUP)
    assert record == SchemaText("mod::Lookup", "rtmw", LOOKUP.description, "cdr")
    assert remark_of(LOOKUP) == "mod::Lookup.lookup is a map, which has no place in DDS"
    assert metadata_of(LOOKUP)[REMARK_KEY] == remark_of(LOOKUP)
    assert remark_of(READING) is None
    assert [*metadata_of(READING)] == [TYPE_KEY]


def test_for_ros_2_what_it_cannot_hold_has_no_schema() -> None:
    assert schema_of(LOOKUP, ros2=True) == SchemaText("", "", b"", "cdr")
    assert schema_of(resolve(np.dtype("f4")), ros2=True) == SchemaText("", "", b"", "rtmw.numpy")
    assert "no message of ROS 2 holds what lookup is" in metadata_of(LOOKUP, ros2=True)[REMARK_KEY]


def test_a_channel_of_others_is_decoded_by_its_schema_alone() -> None:
    value = river.Reading("A1", "ph", 7.5, river.Quality.BAD, 12345)
    found = message_type_of(as_record(schema_of(READING)), channel(), value.serialize()[:4])
    assert found is not None
    assert found.identity == READING.identity
    assert found.decode is not None
    assert found.decode(value.serialize()).parameter == "ph"


def test_a_payload_says_how_a_type_is_encoded_whose_idl_does_not() -> None:
    schema = SchemaText("A", "omgidl", b"struct A { long a; double b; };", "cdr")
    values: dict[str, Any] = {}
    for word in ("final", "appendable"):
        for xcdr in (1, 2):
            made = make_idl_struct("A", "A", {"a": t.int32, "b": t.float64})
            made.__idl_annotations__["extensibility"] = word
            values[f"{word} {xcdr}"] = made(7, 8.5).serialize(use_version_2=xcdr == 2)
    for words, payload in values.items():
        type = message_type_of(as_record(schema), channel(), payload)
        assert type is not None
        assert type.decode is not None
        assert type.decode(payload).b == 8.5, words


def test_there_is_no_type_without_a_schema_or_of_another_encoding() -> None:
    assert message_type_of(None, channel()) is None
    assert no_type(None, channel()) == "its messages are cdr, and it has no schema"
    assert (
        no_type(Schema(1, "A", "ros1msg", b""), channel("ros1")) == "its messages are ros1, and its schema is ros1msg"
    )
    assert message_type_of(as_record(SchemaText("A", "jsonschema", b"{}", "")), channel("json")) is None
    assert message_type_of(as_record(SchemaText("A", "protobuf", b"\0", "")), channel()) is None


@pytest.mark.parametrize(
    ("schema", "metadata"),
    [
        (schema_of(READING), {TYPE_KEY: "AAAA"}),
        (schema_of(READING), {TYPE_KEY: "not base64!"}),
        (SchemaText("A", "rtmw", b"damaged", ""), {}),
        (SchemaText("A", "omgidl", b"struct A { \xff };", ""), {}),
        (SchemaText("A", "omgidl", b"struct B { long a; };", ""), {}),
        (SchemaText("A", "omgidl", b"struct A { B b; }; struct B { A a; };", ""), {}),
        (SchemaText("A", "omgidl", b"struct A { long ___class__; };", ""), {}),
        (SchemaText("A", "omgidl", b"struct E { }; struct A { sequence<E> es; };", ""), {}),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_type(schema: SchemaText, metadata: dict[str, str]) -> None:
    with pytest.raises(UnsupportedType, match=r"Reading|\bA\b"):
        message_type_of(as_record(schema), channel(metadata=metadata))


def test_a_mutable_type_is_kept_though_its_values_stay_bytes() -> None:
    text = b"@mutable struct A { long a; };"
    type = message_type_of(as_record(SchemaText("A", "omgidl", text, "")), channel())
    assert type is not None
    assert type.decode is not None
    assert type.decode(b"\0\x0b\0\0rest") == b"\0\x0b\0\0rest"


def test_types_of_the_tests_have_a_schema_of_some_kind() -> None:
    for cls in vars(messages).values():
        if isinstance(cls, type) and hasattr(cls, "__idl__") and hasattr(cls, "__dataclass_fields__"):
            assert schema_of(resolve(cls)).encoding == "omgidl", cls


@pytest.mark.parametrize("name", ["std_msgs::msg::String", "std_msgs::msg::_String"], ids=["of before", "as in IDL"])
def test_a_schema_is_named_as_idl_spells_its_type_or_as_before(name: str) -> None:
    text = resolve(str)
    written = schema_of(text)
    assert written.name == "std_msgs::msg::_String"
    schema = Schema(1, name, written.encoding, written.data)
    found = message_type_of(schema, Channel(1, 1, "t", CDR, {}), text.encode("x")[:4])
    assert found is not None
    assert found.name == type_name(schema) == text.name


def test_an_underscore_that_escapes_no_keyword_belongs_to_the_name() -> None:
    assert unescaped(in_full("_a::b_::String")) == "_a::b_::String"
    assert in_full("_a::module::Map") == "_a::_module::_Map"
