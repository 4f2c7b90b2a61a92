"""What lies between members is nobody's: other writers leave there whatever was in memory."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from cyclonedds.idl import IdlStruct, types

from rtmw.errors import ValueMismatch
from rtmw.types import resolve


@dataclass
class Padded(IdlStruct, typename="test.Padded"):
    name: str
    number: types.int32


@pytest.mark.parametrize("head", ["00070000", "00010000"])
@pytest.mark.parametrize("padding", ["00", "01", "ff"])
# Proves G6.
def test_a_payload_whose_padding_is_not_zero_is_valid(head: str, padding: str) -> None:
    payload = bytes.fromhex(f"{head}03000000686800{padding}02000000")
    decode = resolve(Padded).decode
    assert decode is not None
    assert decode(memoryview(payload)) == Padded("hh", 2)


def test_a_payload_whose_text_does_not_end_is_refused() -> None:
    decode = resolve(Padded).decode
    assert decode is not None
    with pytest.raises(ValueMismatch):
        decode(memoryview(bytes.fromhex("00070000030000006868010002000000")))
