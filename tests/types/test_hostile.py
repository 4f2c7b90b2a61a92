"""Bytes that nobody encoded: never read beyond, never trusted, and refused in plain words."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
import zlib
from typing import Any

import pytest

from rtmw.errors import RegionDamaged, ValueMismatch
from rtmw.types import MessageType, from_description, resolve
from tests.types.messages import Reading, Rows, Tree

ROUNDS = 3000


def described(fields: list[Any], types: dict[str, Any] | None = None) -> MessageType:
    document = {"name": "A", "kind": "cdr", "xcdr": 1, "extensibility": "final", "fields": fields, "types": types or {}}
    return from_description(zlib.compress(json.dumps(document).encode()))


def struct(*fields: list[Any]) -> dict[str, Any]:
    return {"kind": "struct", "extensibility": "final", "fields": [*fields]}


def decode(type: MessageType, content: bytes) -> Any:
    assert type.decode is not None
    return type.decode(memoryview(b"\0\1\0\0" + content))


def test_no_payload_makes_the_decoder_read_beyond_it_or_raise_anything_but_value_mismatch() -> None:
    command = [sys.executable, "-m", "tests.types.hostile", "20261122", str(ROUNDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    refused, taken = map(int, done.stdout.split())
    assert refused > taken > 0


def test_a_message_that_is_nested_for_ever_is_refused() -> None:
    level = b"\1\0\0\0" * 2  # number, and one child
    with pytest.raises(ValueMismatch, match="nested more than 256 deep"):
        decode(resolve(Tree), level * 100_000 + b"\1\0\0\0\0\0\0\0")


@pytest.mark.parametrize("count", [3, 1 << 20, (1 << 32) - 1])
@pytest.mark.parametrize("type", [resolve(Rows), resolve(Tree), resolve(Reading)], ids=lambda type: type.name)
def test_memory_is_taken_for_what_is_there_only(type: MessageType, count: int) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueMismatch):
            decode(type, count.to_bytes(4, "little") * 4)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_values_that_take_no_bytes_have_a_limit() -> None:
    """Thirty structs, each of two of the next, the last one empty: a thousand million objects in no bytes."""
    chain = {f"S{i}": struct(["a", {"type": f"S{i + 1}"}], ["b", {"type": f"S{i + 1}"}]) for i in range(30)}
    kind = described([["a", {"type": "S0"}], ["n", "int32"]], chain | {"S30": struct()})
    with pytest.raises(ValueMismatch, match="more than 65536 values without content"):
        decode(kind, bytes(4))


def test_an_array_of_structs_that_take_no_bytes_has_a_limit() -> None:
    kind = described([["a", {"array": {"type": "E"}, "length": 1 << 30}]], {"E": struct()})
    with pytest.raises(ValueMismatch, match="without content"):
        decode(kind, b"")


def test_a_few_structs_that_take_no_bytes_are_read() -> None:
    kind = described([["a", {"array": {"type": "E"}, "length": 3}], ["n", "int32"]], {"E": struct()})
    value = decode(kind, b"\7\0\0\0")
    assert (len(value.a), value.n) == (3, 7)


def test_a_struct_of_structs_a_hundred_deep_is_refused_in_plain_words() -> None:
    chain = {f"S{i}": struct(["a", {"type": f"S{i + 1}"}]) for i in range(100)}
    with pytest.raises(RegionDamaged, match="nested more than 64 deep"):
        described([["a", {"type": "S0"}]], chain | {"S100": struct(["n", "int32"])})


@pytest.mark.parametrize("element", [{"array": "octet", "length": 0}, {"array": "int16", "length": 0}, {"type": "Box"}])
def test_rows_of_elements_that_take_no_bytes_have_a_limit_whatever_the_elements_are(element: Any) -> None:
    """Four bytes would become a hundred million objects."""
    boxes = {"Box": struct(["a", {"type": "Inner"}]), "Inner": struct(["a", {"array": "octet", "length": 0}])}
    kind = described([["a", {"array": element, "length": 100_000_000}]], boxes)
    with pytest.raises(ValueMismatch, match="more than 65536 values without content"):
        decode(kind, b"")
