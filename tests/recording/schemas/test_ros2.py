"""`rtmw.recording.schemas.ros2`: message definitions of ROS 2, read and written, against the rosbags library."""

from __future__ import annotations

from typing import Any

import cyclonedds.idl.types as t
import pytest
from cyclonedds.idl import make_idl_struct
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from rtmw.errors import UnsupportedType
from rtmw.recording.contents import Channel, Schema
from rtmw.recording.schemas import message_type_of, schema_of
from rtmw.recording.schemas.ros2 import PLACEHOLDER, RULER, from_ros2msg, full_name, qos_profiles, ros2_name, to_ros2msg
from rtmw.types import MessageType, resolve
from rtmw.types.schema import Array, Field, Named, Primitive, Sequence, Text
from tests.recording.layouts import described
from tests.recording.ros2_values import STORE, members, plain, sample
from tests.types import messages
from topics import river, telemetry

CHANNEL = Channel(1, "topic", 1, "cdr")


def kind_of(name: str) -> MessageType:
    """Our type for a message of ROS 2, from the definition that rosbags writes into a bag."""
    text, _ = STORE.generate_msgdef(name, ros_version=2)
    type = message_type_of(Schema(1, name, "ros2msg", text.encode()), CHANNEL)
    assert type is not None
    return type


def decodable(name: str) -> bool:
    text, _ = STORE.generate_msgdef(name, ros_version=2)
    return "/msg/" in name and "wstring" not in text


NAMES = sorted(name for name in STORE.fielddefs if decodable(name))


def test_every_message_of_ros_2_is_decoded_as_rosbags_encodes_it() -> None:
    assert len(NAMES) > 150
    for name in NAMES:
        value = sample(name)
        payload = bytes(STORE.serialize_cdr(value, name))
        kind = kind_of(name)
        assert kind.decode is not None
        found = kind.decode(payload)
        assert plain(found) == plain(value), name
        assert kind.encode is not None
        assert bytes(kind.encode(found)) == payload, name


def test_the_idl_of_ros_2_is_the_same_type_as_its_msg() -> None:
    idl = """================================================================================
IDL: geometry_msgs/msg/PointStamped
#include "geometry_msgs/msg/Point.idl"
module geometry_msgs { module msg { struct PointStamped { std_msgs::msg::Header header; geometry_msgs::msg::Point point;
}; }; };
================================================================================
IDL: std_msgs/msg/Header
module std_msgs { module msg { struct Header { builtin_interfaces::msg::Time stamp; string frame_id; }; }; };
================================================================================
IDL: builtin_interfaces/msg/Time
module builtin_interfaces { module msg { struct Time { int32 sec; uint32 nanosec; }; }; };
================================================================================
IDL: geometry_msgs/msg/Point
module geometry_msgs { module msg { @verbatim (language="comment", text= "a" "\\n" "b") struct Point {
    @unit(value="m") double x; double y; double z; }; }; };
"""
    name = "geometry_msgs/msg/PointStamped"
    type = message_type_of(Schema(1, name, "ros2idl", idl.encode()), CHANNEL)
    assert type is not None
    assert type.identity == kind_of(name).identity


def test_fields_constants_defaults_bounds_and_comments_are_understood() -> None:
    text = f"""# a comment
int32 LIMIT=5  # a constant
string NAME = "a # in it"
bool flag true
string<=8 name "one"   # with a default
Other[] others
geometry_msgs/Point[<=3] points
float32[4] row [0, 1, 2, 3]
uint8 lambda
char letter
time stamp
duration\twait
Header header
{RULER}
MSG: pack/Other
{RULER}
MSG: geometry_msgs/Point
float64 x
{RULER}
MSG: std_msgs/Header
builtin_interfaces/Time stamp
"""
    schema = from_ros2msg(text, "pack/msg/Top")
    assert schema.top.fields == (
        Field("flag", Primitive("boolean")),
        Field("name", Text(8)),
        Field("others", Sequence(Named("pack::msg::Other"))),
        Field("points", Sequence(Named("geometry_msgs::msg::Point"), 3)),
        Field("row", Array(Primitive("float"), 4)),
        Field("lambda_", Primitive("uint8"), {"name": "lambda"}),
        Field("letter", Primitive("uint8")),
        Field("stamp", Named("builtin_interfaces::msg::Time")),
        Field("wait", Named("builtin_interfaces::msg::Duration")),
        Field("header", Named("std_msgs::msg::Header")),
    )
    assert schema.types["pack::msg::Other"].fields == (Field(PLACEHOLDER, Primitive("uint8")),)  # type: ignore[union-attr]
    assert len(schema.types["builtin_interfaces::msg::Time"].fields) == 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wstring a", "has a wstring"),
        ("Other a", "needs pack::msg::Other"),
        ("int32", "a line that is no field: 'int32'"),
        ("int32[ a", "no field"),
        ("int32 1a", "no field"),
        ("int32[" + "9" * 5000 + "] a", "no field"),
        ("string<=" + "9" * 5000 + " a", "no field"),
        ("\n".join(f"int32 a{i}" for i in range(5000)), "more than 4096 members"),
        ("# " + "x" * (1 << 20), "at most 1048576 are read"),
    ],
)
def test_what_is_no_message_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(UnsupportedType, match=words):
        from_ros2msg(text, "pack/msg/Top")


def test_a_message_within_itself_is_refused() -> None:
    with pytest.raises(UnsupportedType, match="contains itself"):
        message_type_of(Schema(1, "pack/msg/Top", "ros2msg", b"Top inner"), CHANNEL)


def test_a_qos_that_is_no_number_counts_as_none() -> None:
    """What a recording says of its publishers was written by anybody."""
    strange = qos_profiles({"rtmw.history": "x" * 5000, "rtmw.depth": "-1", "rtmw.lifetime_ns": "9" * 5000})
    assert strange == qos_profiles({})


def test_names_have_the_package_first() -> None:
    assert full_name("a/B") == full_name("a/msg/B") == "a::msg::B"
    assert [ros2_name(name) for name in ("a::B", "a::msg::B", "B", "a::b::C")] == [
        "a/msg/B",
        "a/msg/B",
        "rtmw/msg/B",
        "a_b/msg/C",
    ]


VALUES = [
    river.Reading("A1", "ph", 7.5, river.Quality.BAD, 12345),
    river.Station("A1", "Bridge", "Elbe", 53.5, 9.9, 600.0),
    telemetry.Cpu("host", 1.0, 2.0, 3.0, [4.0, 5.0], 6.0, 7),
    messages.Plot("t", [messages.Point(1.0, True, "a")], [1, 2, 3], b"abcd", b"xy", -1),
    messages.Rows([1], b"ab", [1.5], [2.5], [3.0, 4.0]),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_rosbags_decodes_our_types_by_the_text_we_write_for_ros_2(value: Any) -> None:
    record = schema_of(resolve(type(value)), ros2=True)
    assert (record.encoding, record.message_encoding) == ("ros2msg", "cdr")
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg(record.data.decode(), record.name))
    found = store.deserialize_cdr(value.serialize(), record.name)
    again = bytes(store.serialize_cdr(found, record.name))
    assert again == value.serialize()
    assert members(found) == members(value)


def test_the_text_for_ros_2_says_what_numbers_mean() -> None:
    _, text = to_ros2msg(described(resolve(river.Reading).description))
    assert "uint32 quality  # river::Quality: GOOD 0, UNCERTAIN 1, BAD 2\n" in text


@pytest.mark.parametrize(
    ("hints", "words"),
    [
        ({"rows": t.sequence[t.sequence[t.int32]]}, "no message of ROS 2 holds what rows is"),
        ({"part": messages.Part}, "a union, which geo::Part is"),
        ({"grown": messages.Grown}, "travels as XCDR2"),
    ],
)
def test_what_no_message_of_ros_2_holds_is_refused(hints: dict[str, Any], words: str) -> None:
    schema = described(resolve(make_idl_struct("Made", "mod.Made", hints)).description)
    with pytest.raises(UnsupportedType, match=words):
        to_ros2msg(schema)
