"""What is a message type, and how it is described to a program that does not have it."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from dataclasses import replace
from typing import Any, Optional

import cyclonedds.idl as idl
import cyclonedds.idl.types as t
import numpy as np
import pytest

from rtmw.errors import RegionDamaged, UnsupportedType
from rtmw.types import ANY, MessageType, carried_type, from_description, resolve
from rtmw.types.message_type import make, read_document
from tests.types.messages import Colour, Reading, Tree


def packed(document: Any) -> bytes:
    return zlib.compress(json.dumps(document).encode())


def document_of(type: MessageType) -> Any:
    return json.loads(zlib.decompress(type.description))


def test_bytes_need_no_codec() -> None:
    type = resolve(bytes)
    assert (type.name, type.kind, type.encode, type.decode) == ("bytes", "bytes", None, None)
    assert from_description(type.description) == type


def test_the_description_of_bytes_is_the_one_that_would_be_made() -> None:
    made = make({"name": "bytes", "kind": "bytes"})
    assert read_document(resolve(bytes).description) == read_document(made.description)
    assert replace(made, description=resolve(bytes).description) == resolve(bytes)


def test_any_has_one_value_that_prints_as_it_is_written() -> None:
    assert repr(ANY) == "rtmw.ANY"
    with pytest.raises(UnsupportedType, match="subscribers only"):
        resolve(ANY)


@pytest.mark.parametrize("given", [int, list, [], "f4", None, object(), np.ndarray, idl.IdlStruct, Colour])
def test_what_is_no_message_type_is_refused_and_the_message_says_what_is(given: Any) -> None:
    with pytest.raises(UnsupportedType, match="numpy dtype"):
        resolve(given)


def test_a_type_is_resolved_once() -> None:
    assert resolve(Reading) is resolve(Reading)


def test_the_name_is_the_one_that_dds_knows() -> None:
    assert resolve(Reading).name == "river::Reading"


def test_the_description_is_readable_and_complete() -> None:
    document = document_of(resolve(Reading))
    assert document["fields"] == [
        ["station", "string", {"key": True}],
        ["values", {"sequence": "double"}],
        ["colour", {"type": "river::Colour"}],
        ["note", {"string": 5}],
    ]
    assert document["types"]["river::Colour"]["members"] == [["RED", 0], ["GREEN", 4]]


def test_the_identity_is_the_same_in_every_process_and_another_for_another_structure() -> None:
    script = (
        "from tests.types.messages import Reading; from rtmw.types import resolve; print(resolve(Reading).identity)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) == resolve(Reading).identity
    other = idl.make_idl_struct("Reading", "river.Reading", {"station": str})
    assert resolve(other).identity != resolve(Reading).identity


def test_a_class_with_string_annotations_is_understood() -> None:
    """`from __future__ import annotations` is in force in this file's neighbour, as in most programs."""
    from tests.types.postponed import Outer

    assert document_of(resolve(Outer))["fields"] == [["inner", {"type": "Inner"}], ["number", "int32"]]


def test_a_type_that_contains_itself_is_encoded_and_rebuilt() -> None:
    type = resolve(Tree)
    assert type.encode is not None
    value = Tree(1, [Tree(2, []), Tree(3, [Tree(4, [])])])
    payload = bytes(type.encode(value))
    assert payload == value.serialize()
    assert type.decode is not None
    assert type.decode(memoryview(payload)) == value
    rebuilt = from_description(type.description).decode
    assert rebuilt is not None
    assert rebuilt(memoryview(payload)).children[1].children[0].number == 4


def test_a_type_too_large_to_describe_is_refused_with_its_size() -> None:
    names = {f"field_{i:04x}_{i * 7919 % 65536:04x}_{i * 104729 % 65536:04x}": t.int32 for i in range(2000)}
    with pytest.raises(UnsupportedType, match=r"\d+ bytes to describe; at most 8000"):
        resolve(idl.make_idl_struct("Huge", "Huge", names))


def test_a_type_name_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UnsupportedType, match="at most 127"):
        resolve(idl.make_idl_struct("Long", "x" * 128, {"a": t.int32}))


def test_two_classes_of_one_name_in_a_type_are_refused() -> None:
    one = idl.make_idl_struct("Part", "Part", {"a": t.int32})
    two = idl.make_idl_struct("Part", "Part", {"a": t.int64})
    with pytest.raises(UnsupportedType, match="two classes are called Part"):
        resolve(idl.make_idl_struct("Whole", "Whole", {"a": one, "b": two}))


def test_a_member_that_cannot_travel_is_refused() -> None:
    with pytest.raises(UnsupportedType, match="Odd"):
        resolve(idl.make_idl_struct("Odd", "Odd", {"a": complex}))


def test_a_sequence_of_empty_structs_is_refused_because_no_payload_bounds_its_length() -> None:
    empty = idl.make_idl_struct("Empty", "Empty", {})
    assert resolve(empty).name == "Empty"
    with pytest.raises(UnsupportedType, match="without content"):
        resolve(idl.make_idl_struct("Many", "Many", {"a": t.sequence[empty]}))


GOOD = {"name": "A", "kind": "cdr", "xcdr": 1, "extensibility": "final", "fields": [["a", "int32"]], "types": {}}


def test_the_smallest_description_works() -> None:
    decode = from_description(packed(GOOD)).decode
    assert decode is not None
    assert decode(memoryview(b"\0\1\0\0\7\0\0\0")).a == 7


@pytest.mark.parametrize(
    "change",
    [
        {"fields": [["a; import os", "int32"]]},
        {"fields": [["class", "int32"]]},
        {"fields": [["__class__", "int32"]]},
        {"fields": [["a", "int32"], ["a", "int32"]]},
        {"fields": [["a", "int33"]]},
        {"fields": [["a", {"type": "Missing"}]]},
        {"fields": [["a", {"type": "A"}]]},
        {"fields": [["a", {"array": "int32", "length": -1}]]},
        {"fields": [["a", {"array": "int32", "length": "1"}]]},
        {"fields": [["a", {"sequence": "int32", "bound": 0}]]},
        {"fields": [["a", {"sequence": {"type": "E"}}]], "types": {"E": {**GOOD, "kind": "struct", "fields": []}}},
        {
            "fields": [["a", {"type": "E"}]],
            "types": {"E": {"kind": "enum", "members": [["mro", 1]], "bit_bound": None}},
        },
        {
            "fields": [["a", {"type": "E"}]],
            "types": {"E": {"kind": "enum", "members": [["x", "1"]], "bit_bound": None}},
        },
        {"fields": 7},
        {"fields": [[]]},
        {"name": "A B"},
        {"name": ["A"]},
        {"xcdr": 3},
        {"extensibility": "loose"},
        {"types": None},
        {"kind": "other"},
        {"kind": ["cdr"]},
        {"kind": "numpy"},
        {"kind": "numpy", "dtype": "<f4", "shape": [-1]},
        {"kind": "numpy", "dtype": "no such", "shape": []},
        {"kind": "numpy", "dtype": "|O", "shape": []},
    ],
)
def test_a_corrupt_description_is_refused_and_nothing_of_it_runs(change: dict[str, Any]) -> None:
    with pytest.raises((RegionDamaged, UnsupportedType)):
        from_description(packed(GOOD | change))


@pytest.mark.parametrize("data", [b"", b"junk", zlib.compress(b"[1"), zlib.compress(b"[]"), zlib.compress(b"{}")[:-1]])
def test_bytes_that_are_no_description_are_refused(data: bytes) -> None:
    with pytest.raises(RegionDamaged):
        from_description(data)


def test_a_description_that_unpacks_to_gigabytes_is_refused_before_it_does() -> None:
    with pytest.raises(RegionDamaged):
        from_description(zlib.compress(b" " * (64 << 20)))


def test_deep_nesting_in_a_description_is_refused() -> None:
    text = '{"kind":"cdr","name":"A","xcdr":1,"extensibility":"final","types":{},"fields":[["a",'
    deep = '{"sequence":' * 900 + '"int8"' + "}" * 900
    with pytest.raises((RegionDamaged, UnsupportedType)):
        from_description(zlib.compress(f"{text}{deep}]]}}".encode()))


def test_a_message_type_resolves_to_itself() -> None:
    assert resolve(resolve(Reading)) is resolve(Reading)


def test_resolving_bytes_imports_neither_numpy_nor_cyclonedds() -> None:
    script = (
        "import sys; from rtmw.types import resolve, from_description as f; f(resolve(bytes).description);"
        f"f(bytes.fromhex('{resolve(Reading).description.hex()}'));"
        "print({'numpy', 'cyclonedds'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"


def test_bytes_resolve_also_after_all_parts_of_the_codec_are_loaded() -> None:
    """The parts are modules beside the functions of the package; none may take another's name."""
    script = (
        "from tests.types.messages import Reading; from rtmw.types import resolve;"
        "resolve(Reading); print(resolve(bytes).name)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "bytes"


def test_a_list_is_described_as_the_sequence_whose_bytes_it_has() -> None:
    """cyclonedds makes no DDS type of a list; and its lists of numbers in XCDR2 have a size that no sequence has."""
    pairs = (list[int], t.sequence[int]), (list[str], t.sequence[str]), (list[list[str]], t.sequence[t.sequence[str]])
    for pair in pairs:
        one, other = (idl.make_idl_struct("A", "A", {"a": hint}) for hint in pair)
        assert resolve(one).identity == resolve(other).identity
    optional: Any = {"b": Optional[int]}  # noqa: UP045 (cyclonedds does not know the other spelling)
    one, other = (idl.make_idl_struct("A", "A", {"a": hint, **optional}) for hint in (list[int], t.sequence[int]))
    assert resolve(one).identity != resolve(other).identity
    assert one(a=[1], b=None).serialize() != other(a=[1], b=None).serialize()


def test_a_description_of_an_older_rtmw_that_says_list_is_the_same_type() -> None:
    document = {"name": "A", "kind": "cdr", "xcdr": 1, "extensibility": "final", "types": {}}
    old = zlib.compress(json.dumps(document | {"fields": [["a", {"list": "int64"}]]}).encode())
    made = idl.make_idl_struct("A", "A", {"a": list[int]})
    assert from_description(old).identity == carried_type(old).identity == resolve(made).identity
