"""Protobuf payloads as columns, by their FileDescriptorSet: what the library reads, field by field."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("google.protobuf")

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, struct_pb2, timestamp_pb2

from rtmw.columns import Decoder, describe, described_decoder
from rtmw.columns.program import Unsigned
from rtmw.errors import UnsupportedType, ValueMismatch
from tests.columns.rows import rows_of

Field = descriptor_pb2.FieldDescriptorProto
TYPES = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()  # of the library, not of what is tested
}
IMPORTED = (timestamp_pb2, duration_pb2, struct_pb2)


def field(name: str, number: int, kind: str, repeated: bool = False, **more: Any) -> Any:
    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    named = {"type_name": kind, "type": TYPES["message"]} if kind.startswith(".") else {"type": TYPES[kind]}
    return Field(**{"name": name, "number": number, "label": label, **named, **more})


def file_of(fields: Iterable[Any], syntax: str = "proto3", **more: Any) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="plant.proto", package="plant", syntax=syntax)
    file.dependency.extend(module.DESCRIPTOR.name for module in IMPORTED)
    file.enum_type.add(name="State").value.extend(
        descriptor_pb2.EnumValueDescriptorProto(name=name, number=number) for name, number in (("OFF", 0), ("ON", 4))
    )
    file.message_type.add(name="Point").field.extend([field("x", 1, "double"), field("y", 2, "float")])
    file.message_type.add(name="Tree").field.extend([field("v", 1, "int32"), field("left", 2, ".plant.Tree")])
    thing = file.message_type.add(name="Thing")
    thing.field.extend(fields)
    for name, value in more.items():
        getattr(thing, name).extend(value)
    return file


def set_of(file: Any) -> bytes:
    """With what the file needs behind it: the order is the reader's affair."""
    found = descriptor_pb2.FileDescriptorSet(file=[file])
    for module in IMPORTED:
        module.DESCRIPTOR.CopyToProto(found.file.add())
    return found.SerializeToString()


def class_of(file: Any) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for module in IMPORTED:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("plant.Thing"))


def decoder_of(file: Any, unsigned: Unsigned = "keep") -> Decoder:
    return described_decoder(describe("protobuf", "plant.Thing", set_of(file)), unsigned)


def decoded(file: Any, *messages: Any, unsigned: Unsigned = "keep") -> list[dict[str, Any]]:
    payloads = [one if isinstance(one, bytes) else one.SerializeToString() for one in messages]
    batches = [batch for batch, _ in decoder_of(file, unsigned).decode(rows_of(payloads), False)]
    return pa.Table.from_batches(batches).to_pylist()


SCALARS = {
    "double": (pa.float64(), -1.5),
    "float": (pa.float32(), 0.25),
    "int32": (pa.int32(), -(1 << 31)),
    "int64": (pa.int64(), -(1 << 63)),
    "uint32": (pa.uint32(), (1 << 32) - 1),
    "uint64": (pa.uint64(), (1 << 64) - 1),
    "sint32": (pa.int32(), -7),
    "sint64": (pa.int64(), (1 << 63) - 1),
    "fixed32": (pa.uint32(), 1 << 31),
    "fixed64": (pa.uint64(), 1 << 63),
    "sfixed32": (pa.int32(), -9),
    "sfixed64": (pa.int64(), -9),
    "bool": (pa.bool_(), True),
    "string": (pa.string(), "ä"),
    "bytes": (pa.binary(), b"\xff\0"),
}


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
@pytest.mark.parametrize("is_repeated", [False, True], ids=["single", "repeated"])
def test_each_scalar_is_of_its_arrow_type(syntax: str, is_repeated: bool) -> None:
    file = file_of([field(f"m_{kind}", n, kind, is_repeated) for n, kind in enumerate(SCALARS, 1)], syntax)
    schema = decoder_of(file).schema(False)
    types = [pa.list_(pa.field("element", kind)) if is_repeated else kind for kind, _ in SCALARS.values()]
    assert schema.types == types
    values = {f"m_{kind}": [value, value] if is_repeated else value for kind, (_, value) in SCALARS.items()}
    full, empty = decoded(file, class_of(file)(**values), b"")
    assert full == values
    if is_repeated:
        assert empty == {name: [] for name in values}
    elif syntax == "proto2":
        assert empty == dict.fromkeys(values)
    else:
        assert set(empty.values()) == {0, "", b""}


def test_unsigned_numbers_are_as_spark_has_them() -> None:
    file = file_of([field("a", 1, "uint32"), field("b", 2, "fixed64")])
    message = class_of(file)(a=(1 << 32) - 1, b=(1 << 64) - 1)
    assert decoded(file, message, unsigned="widen") == [{"a": (1 << 32) - 1, "b": Decimal((1 << 64) - 1)}]
    assert decoder_of(file, "long").schema(False).types == [pa.int64(), pa.int64()]
    with pytest.raises(ValueMismatch, match="row 0"):
        decoded(file, message, unsigned="long")


def test_messages_are_structs_and_null_where_they_were_not_set() -> None:
    file = file_of([field("at", 1, ".plant.Point"), field("path", 2, ".plant.Point", True)])
    kind = class_of(file)
    assert decoded(file, kind(at={"x": 1.5}, path=[{}, {"y": 2}]), kind()) == [
        {"at": {"x": 1.5, "y": 0.0}, "path": [{"x": 0.0, "y": 0.0}, {"x": 0.0, "y": 2.0}]},
        {"at": None, "path": []},
    ]


def test_of_a_oneof_all_but_one_are_null() -> None:
    file = file_of(
        [field("n", 1, "int32", oneof_index=0), field("at", 2, ".plant.Point", oneof_index=0), field("p", 3, "int32")],
        oneof_decl=[descriptor_pb2.OneofDescriptorProto(name="which")],
    )
    kind = class_of(file)
    assert decoded(file, kind(n=0), kind(at={}), kind()) == [
        {"n": 0, "at": None, "p": 0},
        {"n": None, "at": {"x": 0.0, "y": 0.0}, "p": 0},
        {"n": None, "at": None, "p": 0},
    ]


def test_enums_are_their_names_and_a_number_without_a_name_is_digits() -> None:
    state = {"type_name": ".plant.State"}
    file = file_of([field("s", 1, "enum", **state), field("all", 2, "enum", True, **state)])
    kind = class_of(file)
    assert decoded(file, kind(s=4, all=[0, 4, 9]), kind(s=77)) == [
        {"s": "ON", "all": ["OFF", "ON", "9"]},
        {"s": "77", "all": []},
    ]


def test_maps_are_entries_in_the_order_of_their_keys() -> None:
    entry = descriptor_pb2.DescriptorProto(name="MEntry", options=descriptor_pb2.MessageOptions(map_entry=True))
    entry.field.extend([field("key", 1, "string"), field("value", 2, ".plant.Point")])
    file = file_of([field("m", 1, ".plant.Thing.MEntry", True)], nested_type=[entry])
    message = class_of(file)()
    for name in "cab":
        message.m[name].x = ord(name)
    entries = [{"key": name, "value": {"x": float(ord(name)), "y": 0.0}} for name in "abc"]
    assert decoded(file, message, b"") == [{"m": entries}, {"m": []}]


def test_timestamps_and_durations_are_such_and_null_beyond_what_protobuf_allows() -> None:
    file = file_of([field("t", 1, ".google.protobuf.Timestamp"), field("d", 2, ".google.protobuf.Duration")])
    kind = class_of(file)
    good = kind(t={"seconds": -1, "nanos": 999_999_999}, d={"seconds": -1, "nanos": -1999})
    bad = kind(t={"seconds": (1 << 63) - 1}, d={"seconds": 1, "nanos": 2_000_000_000})
    last = kind(t={"seconds": 253_402_300_799}, d={"seconds": 315_576_000_000})
    found = decoded(file, good, bad, kind(), last)
    assert found[0] == {
        "t": datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        "d": -timedelta(seconds=1, microseconds=1),
    }
    assert found[1] == found[2] == {"t": None, "d": None}
    assert found[3] == {"t": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), "d": timedelta(seconds=315_576_000_000)}


def test_a_message_that_contains_itself_is_json() -> None:
    file = file_of([field("tree", 1, ".plant.Tree"), field("free", 2, ".google.protobuf.Struct")])
    message = class_of(file)(tree={"v": 1, "left": {"v": 2}})
    message.free.update({"a": [1, None]})
    assert decoded(file, message, b"") == [
        {"tree": '{"v": 1, "left": {"v": 2}}', "free": '{"a": [1.0, null]}'},
        {"tree": None, "free": None},
    ]


def test_fields_that_the_schema_does_not_know_are_ignored() -> None:
    newer = file_of([field("n", 1, "int32"), field("more", 9, "string"), field("deep", 10, ".plant.Tree")])
    message = class_of(newer)(n=5, more="x", deep={"left": {"v": 1}})
    assert decoded(file_of([field("n", 1, "int32")]), message) == [{"n": 5}]


def test_an_empty_message_has_a_row_without_columns() -> None:
    ((batch, _),) = decoder_of(file_of([])).decode(rows_of([b"", b"\x08\x01"]), False)
    assert (batch.num_rows, batch.num_columns) == (2, 0)


def nested(depth: int) -> bytes:
    payload = b""
    for _ in range(depth):
        size, head = len(payload), b"\x12"
        while size > 127:
            head, size = head + bytes([size & 127 | 128]), size >> 7
        payload = head + bytes([size]) + payload
    return payload


@pytest.mark.parametrize(
    "payload",
    [b"\x08", b"\xff" * 11, b"\x0a\x05abc", b"\x0b", b"\x0a\x01\xff", b"\x12\x7f" + bytes(3), nested(2000)],
    ids=["cut", "tag", "length", "group", "text", "inner", "deep"],
)
@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_a_damaged_payload_is_one_row_and_its_neighbours_stay(payload: bytes, syntax: str) -> None:
    file = file_of([field("s", 1, "string"), field("t", 2, ".plant.Tree"), field("n", 3, "int32")], syntax)
    kind = class_of(file)
    rows = rows_of([kind(n=1).SerializeToString(), payload, kind(n=2).SerializeToString()])
    ((batch, damaged),) = decoder_of(file).decode(rows, True)
    assert damaged is not None
    assert damaged.tolist() == [False, True, False]
    assert batch.column("n").to_pylist() == [1, None, 2]
    assert set(batch.to_pylist()[1].values()) == {None}
    with pytest.raises(ValueMismatch, match=f"row 1, {len(payload)} bytes"):
        list(decoder_of(file).decode(rows, False))


def test_a_schema_that_multiplies_itself_is_refused() -> None:
    file = file_of([field("a", 1, ".plant.P0")])
    for n in range(20):
        inner = "double" if n == 19 else f".plant.P{n + 1}"
        file.message_type.add(name=f"P{n}").field.extend(field(k, i, inner) for i, k in enumerate("abcdefgh", 1))
    with pytest.raises(UnsupportedType, match="more than 4096 columns"):
        decoder_of(file)


@pytest.mark.parametrize("schema", [b"\xff", b"", b"\x0a\x05abc"])
def test_a_schema_that_is_none_is_refused_with_words(schema: bytes) -> None:
    with pytest.raises(UnsupportedType, match=r"the protobuf schema of plant\.Thing cannot be read"):
        described_decoder(describe("protobuf", "plant.Thing", schema))


def test_files_that_import_each_other_are_refused() -> None:
    files = [descriptor_pb2.FileDescriptorProto(name=a, dependency=[b]) for a, b in (("a", "b"), ("b", "a"))]
    schema = descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
    with pytest.raises(UnsupportedType, match="import each other: a, b"):
        described_decoder(describe("protobuf", "plant.Thing", schema))


def test_two_recordings_may_call_different_types_the_same() -> None:
    one, other = file_of([field("n", 1, "int32")]), file_of([field("n", 1, "string")])
    assert decoded(one, class_of(one)(n=3)) == [{"n": 3}]
    assert decoded(other, class_of(other)(n="x")) == [{"n": "x"}]
