"""Types that are numbers at fixed places go another way in C, to the same columns."""

from dataclasses import dataclass
from typing import Any

import cyclonedds.idl.types as t
import numpy as np
import pytest
from cyclonedds.idl import IdlStruct
from cyclonedds.idl._support import Endianness
from hypothesis import given, settings
from hypothesis import strategies as st

from rtmw.columns import decode
from rtmw.columns.program import Unsigned
from rtmw.errors import ValueMismatch
from rtmw.types import resolve
from tests.columns.payloads import expected_row, side_by_side
from tests.types.idl_strategies import NUMBERS


@dataclass
class Pose(IdlStruct, typename="fixed.Pose"):
    small: t.int8
    x: t.float64
    moving: bool


@dataclass
class Numbers(IdlStruct, typename="fixed.Numbers"):
    a: t.uint8
    b: t.uint16
    c: t.int16
    d: t.uint32
    pose: Pose
    e: t.float32
    f: t.uint64
    g: t.int64
    h: bool


poses = st.builds(Pose, NUMBERS[t.int8], NUMBERS[t.float64], st.booleans())
KINDS = (t.uint8, t.uint16, t.int16, t.uint32, poses, t.float32, t.uint64, t.int64, bool)
values = st.builds(Numbers, *[kind if kind is poses else NUMBERS[kind] for kind in KINDS])
lists = st.lists(values, min_size=1, max_size=20)


def rows_of(payloads: list[bytes], unsigned: Unsigned = "keep") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = decode(side_by_side(payloads), resolve(Numbers), unsigned).to_pylist()
    return rows


@settings(max_examples=60, deadline=None)
@given(lists, st.booleans(), st.sampled_from(["keep", "widen"]))
def test_numbers_at_fixed_places_are_gathered(values: list[Numbers], newer: bool, unsigned: Unsigned) -> None:
    payloads = [value.serialize(use_version_2=newer) for value in values]
    assert rows_of(payloads, unsigned) == [expected_row(Numbers, value) for value in values]


@settings(max_examples=60, deadline=None)
@given(lists, st.data())
def test_rows_of_different_encodings_are_decoded_one_by_one(values: list[Numbers], data: st.DataObject) -> None:
    payloads = [
        value.serialize(endianness=data.draw(st.sampled_from([*Endianness])), use_version_2=data.draw(st.booleans()))
        for value in values
    ]
    assert rows_of(payloads) == [expected_row(Numbers, value) for value in values]


@pytest.mark.parametrize("row", [0, 3, 9])
@pytest.mark.parametrize("change", [b"", b"\0\1\0\0", b"\0\3\0\0" + bytes(64), None])
def test_one_damaged_row_is_found_among_whole_ones(row: int, change: bytes | None) -> None:
    payloads = [Numbers(n, 0, 0, 0, Pose(0, 0.5, True), 0.0, 0, 0, False).serialize() for n in range(10)]
    payloads[row] = payloads[row] + b"\1" if change is None else change
    with pytest.raises(ValueMismatch, match=f"fixed.Numbers.*row {row},"):
        rows_of(payloads)


THOUSANDS = 3001


def many() -> list[bytes]:
    return [
        Numbers(n % 256, n, -n, n, Pose(0, n / 2, n % 2 == 0), 0, n, -n, True).serialize() for n in range(THOUSANDS)
    ]


def test_three_thousand_rows_keep_their_order() -> None:
    batch = decode(side_by_side(many()), resolve(Numbers))
    numbers = np.arange(THOUSANDS)
    assert (batch["g"].to_numpy() == -numbers).all()
    assert (batch["pose"].field("x").to_numpy() == numbers / 2).all()
    assert (batch["pose"].field("moving").to_numpy(zero_copy_only=False) == (numbers % 2 == 0)).all()
    assert batch["h"].to_numpy(zero_copy_only=False).all()


@pytest.mark.parametrize("row", [255, 256, THOUSANDS - 1])
def test_a_row_of_another_encoding_far_behind_leaves_all_as_they_are(row: int) -> None:
    payloads, numbers = many(), np.arange(THOUSANDS)
    payloads[row] = Numbers(7, row, -row, row, Pose(0, 0.5, True), 0, row, -row, False).serialize(
        endianness=Endianness.Big, use_version_2=True
    )
    batch = decode(side_by_side(payloads), resolve(Numbers))
    batch.validate(full=True)
    assert (batch["g"].to_numpy() == -numbers).all()
    assert batch["h"].to_numpy(zero_copy_only=False).tolist() == [n != row for n in range(THOUSANDS)]
