"""Descriptions that nobody's class made: each is read within bounds, or refused with words that say what is wrong."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from rtmw.errors import RegionDamaged, RtmwError, UnsupportedType
from rtmw.types import carried_type, from_description
from rtmw.types.checks import MEMBERS, TYPES
from rtmw.types.description import from_document
from rtmw.types.message_type import DESCRIPTION_LIMIT
from rtmw.types.schema import DEEPEST, LARGEST, NESTED, Named, minimum_size


def packed(document: Any) -> bytes:
    return zlib.compress(json.dumps(document, sort_keys=True, separators=(",", ":")).encode(), 9)


def document(fields: list[Any], types: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    top = {"name": "A", "kind": "cdr", "xcdr": 1, "extensibility": "final", "fields": fields, "types": types or {}}
    return top | others


def struct(*fields: list[Any]) -> dict[str, Any]:
    return {"kind": "struct", "extensibility": "final", "fields": [*fields]}


def union(discriminator: Any, *cases: list[Any], implicit: Any = 0) -> dict[str, Any]:
    head = {"kind": "union", "extensibility": "final", "discriminator": discriminator}
    return head | {"implicit": implicit, "cases": [*cases]}


def enum(*members: list[Any], bound: Any = None) -> dict[str, Any]:
    return {"kind": "enum", "members": [*members], "bit_bound": bound}


def bitmask(*bits: list[Any], bound: Any = 32) -> dict[str, Any]:
    return {"kind": "bitmask", "bits": [*bits], "bit_bound": bound}


def holding(part: dict[str, Any], **others: dict[str, Any]) -> dict[str, Any]:
    """A message with one member, of this definition."""
    return document([["a", {"type": "P"}]], {"P": part, **others})


STRANGE: dict[str, tuple[dict[str, Any], str]] = {
    "a union of a struct": (holding(union({"type": "S"}, ["a", [0], "int8"]), S=struct()), "S, which is no enum"),
    "a union of a bitmask": (holding(union({"type": "S"}, ["a", [0], "int8"]), S=bitmask(["x", 0])), "is no enum"),
    "a union of itself": (holding(union({"type": "P"}, ["a", [0], "int8"])), "P, which is no enum"),
    "a union of a text": (holding(union("string", ["a", [0], "int8"])), "a union switches on"),
    "a union of a float": (holding(union("double", ["a", [0], "int8"])), "a union switches on"),
    "a union of a sequence": (holding(union({"sequence": "int8"}, ["a", [0], "int8"])), "a union switches on"),
    "a label out of range": (holding(union("uint8", ["a", [256], "int8"])), "256 is no label of a union of uint8"),
    "a label of another kind": (holding(union("int8", ["a", ["x"], "int8"])), "'x' is no label of a union of int8"),
    "a label that no enumerator has": (
        holding(union({"type": "E"}, ["a", [7], "int8"]), E=enum(["X", 0])),
        "7 is no label of a union of E",
    ),
    "a label that is a list": (holding(union("int8", ["a", [[]], "int8"])), "is not a label"),
    "a label twice": (holding(union("int8", ["a", [1], "int8"], ["b", [1], "int8"])), "label 1 is there twice"),
    "two defaults": (holding(union("int8", ["a", [], "int8"], ["b", [], "int8"])), "two default branches"),
    "a bit out of bounds": (holding(bitmask(["x", 40])), "40 is not the position of one of 32 bits"),
    "a bit of a huge position": (holding(bitmask(["x", 1 << 30])), "is not the position of one of 32 bits"),
    "a bit twice": (holding(bitmask(["x", 1], ["y", 1])), "position 1 is there twice"),
    "too many bits": (holding(bitmask(["x", 1], bound=65)), "65 is not a bit bound"),
    "an enumerator out of range": (holding(enum(["X", 1 << 32])), "is not an enumerator's value"),
    "an enumerator that Enum keeps": (holding(enum(["_missing_", 1])), "cannot be the name of an enumerator"),
    "an enumerator twice": (holding(enum(["X", 1], ["X", 2])), "enumerator 'X' is there twice"),
    "an enum of nothing": (holding(enum()), "has no enumerators"),
    "a member of one letter": (document(["ab"]), "is not a member"),
    "members that are a number": (document(7), "7 is not fields"),  # type: ignore[arg-type]
    "an annotation nobody knows": (document([["a", "int8", {"eval": 1}]]), "is not an annotation"),
    "an id that is a text": (document([["a", "int8", {"id": "1"}]]), "is not a member id"),
    "a hash id that ends a text": (document([["a", "int8", {"hash_id": '"); x'}]]), "is not a hash id"),
    "a version that is true": (document([], xcdr=True), "is not a version of CDR"),
    "a version that is a fraction": (document([], xcdr=1.0), "is not a version of CDR"),
    "a type with something beside": (document([["a", {"type": "A", "x": 1}]]), "is not a type"),
    "an optional that is optional": (document([["a", {"optional": {"optional": "int8"}}]], xcdr=2), "optional again"),
    "a map of one thing": (document([["a", {"map": ["int8"]}]]), "is not a type"),
    "itself": (document([["a", {"type": "A"}]]), "contains itself"),
    "itself in another": (document([["a", {"type": "B"}]], {"B": struct(["a", {"type": "A"}])}), "contains itself"),
    "no extensibility": (document([], {"B": {"kind": "struct", "fields": []}}), "no extensibility"),
    "a name in its own types": (document([], {"A": struct()}), "A is defined twice"),
    "a name that is too long": (document([], name="x" * 128), "at most 127 fit"),
    "a count that is no number": (document([["a", {"array": "int8", "length": 1e3}]]), "1000.0 is not a count"),
    "a huge count": (document([["a", {"array": "int8", "length": 1 << 31}]]), "is not a count"),
    "deep in one member": (
        document([["a", json.loads('{"sequence":' * DEEPEST + '"int8"' + "}" * DEEPEST)]]),
        f"nested more than {DEEPEST} deep",
    ),
    "deep in others": (
        document([["a", {"type": "S0"}]], {f"S{i}": struct(["a", {"list": {"type": f"S{i + 1}"}}]) for i in range(99)}
                 | {"S99": struct(["a", "int8"])}),
        f"nested more than {NESTED} deep",
    ),
    "many members": (document([[f"a{i}", "int8"] for i in range(MEMBERS + 1)]), "fields has 4097 elements"),
    "many members in all": (
        document([], {f"S{i}": struct(*([f"a{j}", "int8"] for j in range(20))) for i in range(MEMBERS // 20 + 1)}),
        f"more than {MEMBERS} members",
    ),
    "many definitions": (document([], {f"S{i}": struct() for i in range(TYPES)}), f"at most {TYPES} may be"),
}  # fmt: skip


@pytest.mark.parametrize("what", STRANGE)
def test_a_description_is_refused_with_what_is_wrong(what: str) -> None:
    strange, words = STRANGE[what]
    with pytest.raises(RegionDamaged, match=words):
        from_document(strange)


@pytest.mark.parametrize("read", [from_description, carried_type])
@pytest.mark.parametrize("what", STRANGE)
def test_what_is_refused_is_refused_as_it_comes_from_the_network_too(what: str, read: Any) -> None:
    with pytest.raises(RtmwError) as refused:
        read(packed(STRANGE[what][0]))
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "text",
    [
        b'{"kind":"cdr","name":"A","name":"B"}',
        b'{"kind":"bytes","name":7}',
        b'{"kind":"numpy"}',
        b'{"kind":"cdr","name":"\\ud800","xcdr":1,"extensibility":"final","fields":[],"types":{}}',
        b'{"kind":"cdr","name":"A","xcdr":NaN,"extensibility":"final","fields":[],"types":{}}',
        b'{"kind":"cdr","name":"A","xcdr":' + b"9" * 5000 + b"}",
        b'{"kind":"\xff","name":"A"}',
        b"[" * 100_000,
        b'{"a":' * 20_000,
        '{"kind":"bytes","name":"bytes"}'.encode("utf-16"),
    ],
)
def test_text_that_is_no_strict_json_is_refused(text: bytes) -> None:
    with pytest.raises(RegionDamaged):
        from_description(zlib.compress(text))


def test_a_description_is_measured_before_it_is_unpacked() -> None:
    noise = b"\x78\x9c" + b"\xff" * DESCRIPTION_LIMIT  # no zlib data: whoever unpacks it says so
    with pytest.raises(RegionDamaged, match=f"at most {DESCRIPTION_LIMIT} may be"):
        from_description(noise)


DTYPES: dict[str, Any] = {
    "a member of no bytes": [["a", "<i4"], ["b", "|V0", [100_000_000]]],
    "a member of no elements": [["a", "<i4"], ["b", "<i4", [0]]],
    "a member with half a character": [["\ud800", "<i4"]],
    "many members": [[f"a{i}", "|i1"] for i in range(MEMBERS + 1)],
    "many dimensions": [["a", "<i4", [1] * 33]],
    "a list of dtypes in a text": ",".join(["i4"] * 1000),
    "a dtype within dtypes": json.loads('[["a",' * 20 + '"<i4"' + "]]" * 20),
    "a dtype that is a number": 7,
}


@pytest.mark.parametrize("what", DTYPES)
def test_a_dtype_that_numpy_would_take_but_no_array_has_is_refused(what: str) -> None:
    with pytest.raises(RtmwError):
        from_description(packed({"kind": "numpy", "name": "x", "dtype": DTYPES[what], "shape": []}))


def test_the_name_of_a_dtype_of_many_members_is_cut_once() -> None:
    """It was cut by a character at a time, which took minutes for what packs into some hundred bytes."""
    names = ["a" * 200 + f"{i:04}" for i in range(1000)]
    kind = from_description(packed({"kind": "numpy", "name": "x", "dtype": [[n, "|i1"] for n in names], "shape": []}))
    assert kind.name == "numpy:{" + "a" * 116 + "...}"


class Counted(dict[str, Any]):
    """The definitions of a schema, which count how often one is looked at."""

    looks = 0

    def __getitem__(self, name: str) -> Any:
        self.looks += 1
        return super().__getitem__(name)


def test_the_size_of_a_definition_is_computed_once_however_often_it_is_mentioned() -> None:
    """A sequence of it in each of a thousand members took 26 s, a thousand structs of two of the next for ever."""
    wide = struct(*([f"a{i}", "int8"] for i in range(1000)))
    schema = from_document(document([[f"s{i}", {"sequence": {"type": "X"}}] for i in range(1000)], {"X": wide}))
    counted = Counted(schema.types)
    object.__setattr__(schema, "types", counted)
    vars(schema).pop("sizes", None)
    assert minimum_size(Named("X"), schema) == 1000
    assert [minimum_size(Named("X"), schema) for _ in range(1000)] == [1000] * 1000
    assert counted.looks < 10_000


def test_sizes_stop_growing_where_no_payload_is_that_large() -> None:
    """Fifty structs, each of two arrays of the next, would have a size of a thousand digits."""
    row = {"array": {"type": ""}, "length": (1 << 31) - 1}
    chain = {f"S{i}": struct(*([name, row | {"array": {"type": f"S{i + 1}"}}] for name in "ab")) for i in range(50)}
    schema = from_document(document([["a", {"type": "S0"}]], chain | {"S50": struct(["a", "int8"])}))
    assert minimum_size(Named("S0"), schema) == LARGEST


def test_a_type_that_is_only_carried_is_the_same_type_and_its_values_are_bytes() -> None:
    data = packed(document([["a", "int32"]]))
    whole, carried = from_description(data), carried_type(data)
    assert (carried.name, carried.identity, carried.kind) == (whole.name, whole.identity, "cdr")
    assert carried.decode is not None
    assert carried.decode(memoryview(b"\0\1\0\0\7\0\0\0")) == b"\0\1\0\0\7\0\0\0"


def test_a_member_may_be_called_as_what_every_class_has() -> None:
    """`mro` of the class was taken for the member's default, and the next member then refused."""
    kind = from_description(packed(document([["mro", "int8"], ["b", "int8"]])))
    assert kind.decode is not None
    value = kind.decode(memoryview(b"\0\1\0\0\7\x08"))
    assert (value.mro, value.b) == (7, 8)


def test_a_type_too_long_to_name_is_refused() -> None:
    with pytest.raises((RegionDamaged, UnsupportedType), match="at most 127"):
        from_description(packed(document([], name="x" * 128)))
