"""Messages of numpy types: one column, which holds what the array held."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rtmw.columns import arrow_schema, decode, decoder
from rtmw.columns.rows import Rows
from rtmw.errors import UnsupportedType, ValueMismatch
from rtmw.types import resolve
from tests.columns.payloads import side_by_side

INNER = np.dtype([("x", "<f8"), ("flag", "?")])
RECORD = np.dtype(
    [("id", "<u4"), ("at", ">i2"), ("name", "U3"), ("key", "S2"), ("inner", INNER), ("grid", "<f4", (2, 2))]
)


def rows_of(dtype: np.dtype[Any], arrays: list[Any]) -> list[Any]:
    kind = resolve(dtype)
    assert kind.encode is not None
    batch = decode(side_by_side([bytes(kind.encode(array)) for array in arrays]), kind, "widen")
    batch.validate(full=True)
    assert batch.schema == arrow_schema(kind, "widen")
    return [row["value"] for row in batch.to_pylist()]


@pytest.mark.parametrize("code", ["?", "i1", "u1", "<i2", ">u2", "<i4", "u4", ">i8", "u8", "<f4", ">f8"])
def test_arrays_of_numbers_of_any_length(code: str) -> None:
    dtype = np.dtype(code)
    arrays = [np.arange(n).astype(dtype) for n in (3, 0, 1, 5)]
    assert rows_of(dtype, arrays) == [array.tolist() for array in arrays]


def test_an_unsigned_number_of_64_bits_keeps_its_value() -> None:
    assert rows_of(np.dtype("u8"), [np.array([(1 << 64) - 1], "u8")]) == [[(1 << 64) - 1]]


def test_arrays_of_a_shape_are_lists_within_lists() -> None:
    dtype = np.dtype(("<i2", (2, 3)))
    arrays = [np.arange(6, dtype="<i2").reshape(2, 3) + n for n in range(3)]
    assert rows_of(dtype, arrays) == [array.tolist() for array in arrays]


def test_a_structured_type_gives_structs() -> None:
    array = np.array([(7, -2, "abc", b"xy", (1.5, True), [[1, 2], [3, 4]])], RECORD)
    element = {"id": 7, "at": -2, "name": "abc", "key": b"xy", "inner": {"x": 1.5, "flag": True}}
    assert rows_of(RECORD, [array, array]) == [[element | {"grid": [[1, 2], [3, 4]]}]] * 2


def test_complex_numbers_have_two_parts() -> None:
    assert rows_of(np.dtype("c16"), [np.array([1 + 2j])]) == [[{"real": 1.0, "imaginary": 2.0}]]


def test_half_numbers_are_widened() -> None:
    assert rows_of(np.dtype("f2"), [np.array([0.5], "f2")]) == [[0.5]]


def test_a_payload_of_another_size_is_refused_or_null() -> None:
    kind = resolve(np.dtype(("<i2", (2,))))
    payloads = side_by_side([b"\1\0\2\0", b"\1\0\2", b"\3\0\4\0"])
    with pytest.raises(ValueMismatch, match=r"row 1, 3 bytes .* 4 bytes were expected"):
        decode(payloads, kind)
    ((batch, damaged),) = decoder(kind).decode(Rows(*payloads), True)
    assert batch["value"].to_pylist() == [[1, 2], None, [3, 4]]
    assert damaged is not None
    assert damaged.tolist() == [False, True, False]


def test_what_has_no_column_is_refused() -> None:
    with pytest.raises(UnsupportedType, match="no column"):
        arrow_schema(resolve(np.dtype("g")))


def test_no_messages_give_no_rows() -> None:
    empty = np.array([], np.int64)
    batch = decode((b"", empty, empty), resolve(RECORD))
    assert batch.num_rows == 0
    assert batch.schema.field("value").type.value_type.field("inner").type.field("x").type == pa.float64()
