"""JSON payloads as columns, by their JSON Schema: for each what the standard library reads, or a damaged row."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from rtmw.columns import LARGEST, Decoder, describe, described_decoder, type_name
from rtmw.columns.rows import Rows
from rtmw.errors import UnsupportedType, ValueMismatch
from tests.columns.rows import rows_of

SCHEMA = {
    "type": "object",
    "properties": {
        "stamp": {"type": "object", "properties": {"sec": {"type": "integer"}, "nsec": {"type": "integer"}}},
        "x": {"type": "number"},
        "not a name!": {"type": ["string", "null"]},
        "on": {"type": "boolean"},
        "data": {"type": "string", "contentEncoding": "base64"},
        "points": {"type": "array", "items": {"$ref": "#/$defs/point"}},
        "tree": {"$ref": "#/$defs/tree"},
        "either": {"type": ["string", "number"]},
        "open": {},
    },
    "$defs": {
        "point": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}},
        "tree": {"properties": {"v": {"type": "integer"}, "left": {"$ref": "#/$defs/tree"}}},
    },
}


def decoder_of(schema: Any) -> Decoder:
    return described_decoder(describe("json", "plant.Thing", b"" if schema is None else json.dumps(schema).encode()))


def decoded(schema: Any, *payloads: bytes) -> list[dict[str, Any]]:
    batches = [batch for batch, _ in decoder_of(schema).decode(rows_of(payloads), False)]
    return pa.Table.from_batches(batches).to_pylist()


def one_integer(text: str) -> list[dict[str, Any]]:
    return decoded({"type": "object", "properties": {"n": {"type": "integer"}}}, f'{{"n": {text}}}'.encode())


def test_each_property_is_a_column_of_its_type() -> None:
    schema = decoder_of(SCHEMA).schema(False)
    point, numbers = pa.struct({"x": pa.float64(), "y": pa.float64()}), {"sec": pa.int64(), "nsec": pa.int64()}
    assert dict(zip(schema.names, schema.types, strict=True)) == {
        "stamp": pa.struct(numbers),
        "x": pa.float64(),
        "not a name!": pa.string(),
        "on": pa.bool_(),
        "data": pa.binary(),
        "points": pa.list_(pa.field("element", point)),
        "tree": pa.struct({"v": pa.int64(), "left": pa.string()}),
        "either": pa.string(),
        "open": pa.string(),
    }
    assert all(field.nullable for field in schema)


def test_values_are_those_of_the_message_and_what_is_missing_is_null() -> None:
    full = {
        "stamp": {"sec": 3, "nsec": None},
        "x": 1,
        "not a name!": "ä\u2028",
        "on": True,
        "data": "aGk=",
        "points": [{"x": 1.5}, None, {"x": 2, "y": -1e300}],
        "tree": {"v": 1, "left": {"v": 2, "left": {"v": 3}}},
        "either": 4,
        "open": [1, {"a": "b"}],
        "beyond the schema": [[[]]],
    }
    first, empty, null = decoded(SCHEMA, json.dumps(full).encode(), b"{}", json.dumps(dict.fromkeys(full)).encode())
    points = [{"x": 1.5, "y": None}, None, {"x": 2.0, "y": -1e300}]
    as_they_are = {name: first[name] for name in ("stamp", "x", "not a name!", "on")}
    assert as_they_are == {name: full[name] for name in as_they_are}
    assert (first["data"], first["points"], first["either"]) == (b"hi", points, "4")
    assert first["tree"]["v"] == 1
    assert json.loads(first["tree"]["left"]) == full["tree"]["left"]
    assert json.loads(first["open"]) == full["open"]
    assert empty == null == dict.fromkeys(SCHEMA["properties"])


def test_of_a_member_that_comes_twice_the_last_one_counts() -> None:
    assert one_integer('1, "n": 2') == [{"n": 2}]


@pytest.mark.parametrize("text", ["9223372036854775807", "-9223372036854775808", "1.0", "-0.0", "1e3"])
def test_whole_numbers_of_64_bits_are_exact_however_they_are_written(text: str) -> None:
    assert one_integer(text) == [{"n": int(json.loads(text))}]


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "-9223372036854775809", "1e19", "1.5", "true", '"1"', "[]", "1" * 5000, "01", "NaN"]
)
def test_what_no_integer_column_can_hold_is_a_damaged_payload(text: str) -> None:
    with pytest.raises(ValueMismatch, match=r"plant\.Thing: the payload of row 0"):
        one_integer(text)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{} {}",
        b'{"open": "\xff"}',
        b'{"beyond": "\xff"}',
        b'{"not a name!": "\\ud800"}',
        b'{"data": "!"}',
        b'{"x": 1e400}',
        b'{"open": ' + b"[" * 200_000,
        b'{"beyond": ' + b'{"a":' * 200_000,
        b'{"tree": {"left": ' + b'{"left": ' * 100_000 + b"}" * 100_002,
    ],
    ids=lambda payload: repr(payload[:16]),
)
def test_a_damaged_payload_is_one_row_and_its_neighbours_stay(payload: bytes) -> None:
    rows = rows_of([b'{"x": 1}', payload, b'{"x": 2}'])
    ((batch, damaged),) = decoder_of(SCHEMA).decode(rows, True)
    assert damaged is not None
    assert damaged.tolist() == [False, True, False]
    assert batch.column("x").to_pylist() == [1.0, None, 2.0]
    assert set(batch.to_pylist()[1].values()) == {None}
    with pytest.raises(ValueMismatch, match=f"row 1, {len(payload)} bytes"):
        list(decoder_of(SCHEMA).decode(rows, False))


def test_rows_beyond_one_batch_keep_their_numbers() -> None:
    payloads = [b'{"x": %d}' % number for number in range(40_000)]
    assert [row["x"] for row in decoded(SCHEMA, *payloads)] == [*range(40_000)]
    payloads[39_000] = b"{"
    with pytest.raises(ValueMismatch, match="row 39000,"):
        decoded(SCHEMA, *payloads)


@pytest.mark.parametrize("schema", [None, {}, True, {"type": "object"}, {"oneOf": [{"type": "object"}]}])
def test_without_a_type_the_message_is_one_column_of_its_text(schema: Any) -> None:
    assert decoded(schema, b'{"a": [1]}', b"3", b"null") == [{"value": '{"a": [1]}'}, {"value": "3"}, {"value": None}]


def test_a_schema_of_something_else_than_an_object_is_one_column() -> None:
    assert decoded({"type": "array", "items": {"type": "integer"}}, b"[1, 2]", b"[]") == [
        {"value": [1, 2]},
        {"value": []},
    ]


def test_references_that_lead_nowhere_or_in_a_circle_are_text() -> None:
    circle = {"$ref": "#/$defs/b"}
    schema = {"properties": {"a": {"$ref": "#/$defs/a"}, "c": {"$ref": "#/none"}, "d": {"$ref": "http://x/y"}}}
    schema |= {"$defs": {"a": circle, "b": {"$ref": "#/$defs/a"}}}
    assert decoder_of(schema).schema(False).types == [pa.string()] * 3


def test_a_schema_that_multiplies_itself_is_refused() -> None:
    parts = {f"p{n}": {"properties": {k: {"$ref": f"#/$defs/p{n + 1}"} for k in "abcdefgh"}} for n in range(20)}
    with pytest.raises(UnsupportedType, match="more than 4096 columns"):
        decoder_of({"$ref": "#/$defs/p0", "$defs": parts})


@pytest.mark.parametrize("schema", [b"{", b"\xff", b"[" * 100_000])
def test_a_schema_that_is_none_is_refused_with_words(schema: bytes) -> None:
    with pytest.raises(UnsupportedType, match=r"the JSON schema of plant\.Thing cannot be read"):
        described_decoder(describe("json", "plant.Thing", schema))


@pytest.mark.parametrize("name", ["a\0b", "\0", "", "é" * 300])
def test_a_type_may_have_any_name(name: str) -> None:
    found = describe("json", name, b'{"properties": {"a": {"type": "integer"}}}')
    assert type_name(found) == name
    assert described_decoder(found).schema(False).names == ["a"]


def test_a_schema_beyond_the_limit_is_refused() -> None:
    with pytest.raises(UnsupportedType, match="at most"):
        describe("json", "plant.Thing", bytes(LARGEST + 1))


def test_no_rows_are_an_empty_batch() -> None:
    none = np.zeros(0, np.int64)
    ((batch, damaged),) = decoder_of(SCHEMA).decode(Rows(b"", none, none), False)
    assert batch.num_rows == 0
    assert damaged is None
