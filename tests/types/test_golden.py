"""Payloads and identities as they have been from the first release on: recordings, logs and other hosts hold them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rtmw.types import from_description, resolve
from tests.types import messages
from tests.types.coded import decode, encode

m: Any = messages

GOLDEN: list[tuple[Any, int, str]] = [
    (
        m.Reading("Elbe", [1.5, -2.0], m.Colour.GREEN, "ok"),
        0x1231AEB241B808CE,
        "00010000 05000000 456c6265 00000000 02000000 00000000 0000f83f 00000000 000000c0 04000000 03000000 6f6b00",
    ),
    (
        m.Tree(7, [m.Tree(8, [])]),
        0xADEFC413A7AF095E,
        "00010000 07000000 01000000 08000000 00000000",
    ),
    (
        m.Plot("p", [m.Point(0.5, True, "x")], [1, -2, 3], [1, 2, 3, 255], b"raw", -5),
        0x8BFA348957FF9040,
        "00010000 02000000 70000000 01000000 00000000 00000000 0000e03f 01780100 feff0300 010203ff 03000000 726177fb",
    ),
    (
        m.Grown(1, "more"),
        0xA4A20BE222990F30,
        "00090000 11000000 01000000 01000000 05000000 6d6f7265 00",
    ),
    (
        m.Grown(2),
        0xA4A20BE222990F30,
        "00090000 05000000 02000000 00",
    ),
    (
        m.Various.example(),
        0x7B296900214F9CFD,
        "00090000 6e000000 2a000000 03000000 01000000 04000000 6f6e6500 02000000 02000000 01000200 ffffffff "
        "00000000 0000e03f 007a0200 08000000 00000000 04000000 21000000 02000000 0e000000 01000000 01000000 "
        "02000000 61000000 05000000 02000000 00010000 00000000 0000f03f 0162",
    ),
    (
        m.Rows([1, 2**40], [1, 2], [0.25], [0.5], [1.0, 2.0]),
        0xD4165A03FC627AE5,
        "00010000 02000000 00000000 01000000 00000000 00000000 00010000 02000000 01020000 01000000 00000000 "
        "00000000 0000d03f 01000000 0000003f 00000000 0000f03f 00000000 00000040",
    ),
    (
        m.Keyed(number=3, name="k"),
        0xA8FF58FEF3BD24EC,
        "00010000 03000000 02000000 6b00",
    ),
]
EVERY = pytest.mark.parametrize(
    ("value", "identity", "payload"),
    [pytest.param(v, i, bytes.fromhex(h), id=f"{type(v).__name__} {n}") for n, (v, i, h) in enumerate(GOLDEN)],
)


@EVERY
# Proves G7.
def test_a_value_has_the_payload_that_it_always_had(value: Any, identity: int, payload: bytes) -> None:
    assert encode(resolve(type(value)), value) == payload


@EVERY
def test_the_payload_is_read_as_what_is_written_so(value: Any, identity: int, payload: bytes) -> None:
    kind = resolve(type(value))
    assert encode(kind, decode(kind, payload)) == payload


@EVERY
def test_cyclonedds_has_the_same_payload(value: Any, identity: int, payload: bytes) -> None:
    assert value.serialize() == payload


@EVERY
# Proves G7.
def test_a_type_has_the_identity_that_it_always_had(value: Any, identity: int, payload: bytes) -> None:
    kind = resolve(type(value))
    assert hex(kind.identity) == hex(identity)
    assert from_description(kind.description).identity == identity


@EVERY
def test_the_description_alone_reads_the_payload(value: Any, identity: int, payload: bytes) -> None:
    kind = from_description(resolve(type(value)).description)
    assert encode(kind, decode(kind, payload)) == payload


def test_a_numpy_dtype_has_the_identity_that_it_always_had() -> None:
    assert resolve(np.dtype([("x", "<f8"), ("n", "<u2")])).identity == 0xA66DD6FD087ADC0F
