"""numpy arrays travel as their memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rtmw.errors import TypeMismatch, UnsupportedType, ValueMismatch
from rtmw.types import MessageType, from_description, resolve

IMAGE = np.dtype((np.float32, (4, 6)))
RECORD = np.dtype([("x", "<f4"), ("y", "<i2", (3,)), ("name", "S8")], align=True)


def both_ways(type: MessageType, value: Any) -> Any:
    assert type.encode is not None
    assert type.decode is not None
    return type.decode(memoryview(bytes(type.encode(value))))


@pytest.mark.parametrize("dtype", ["<f4", ">i8", "?", "<c16", "<M8[ns]", "<U5", "S3", "V7", RECORD, IMAGE])
def test_a_description_gives_the_same_dtype_again(dtype: Any) -> None:
    type = resolve(np.dtype(dtype))
    again = from_description(type.description)
    assert (again.name, again.identity, again.kind) == (type.name, type.identity, "numpy")
    value = np.zeros(() if np.dtype(dtype).shape else 3, dtype)
    copy = both_ways(again, value)
    assert copy.dtype == value.dtype
    assert copy.tobytes() == value.tobytes()


def test_a_numpy_type_is_named_after_its_dtype() -> None:
    assert resolve(np.float32).name == "numpy:<f4"
    assert resolve(IMAGE).name == "numpy:(4,6)<f4"
    assert resolve(RECORD).name == "numpy:{x,y,name}"
    long = np.dtype([(f"field{i}", "f4") for i in range(100)])
    assert len(resolve(long).name.encode()) <= 127


def test_a_scalar_class_and_its_dtype_are_one_type() -> None:
    assert resolve(np.float32).identity == resolve(np.dtype("f4")).identity != resolve(np.dtype("f8")).identity


def test_any_number_of_records_is_a_message() -> None:
    for count in (0, 1, 5):
        value = np.arange(count, dtype="f4")
        np.testing.assert_array_equal(both_ways(resolve(np.float32), value), value)
    assert both_ways(resolve(np.float32), np.float32(3)).tolist() == [3.0]
    assert both_ways(resolve(np.float32), np.array(3, "f4")).tolist() == [3.0]


def test_a_contiguous_array_is_handed_through_without_a_copy() -> None:
    value = np.arange(24, dtype="f4").reshape(4, 6)
    encode = resolve(IMAGE).encode
    assert encode is not None
    assert np.shares_memory(np.frombuffer(encode(value), "u1"), value)


def test_an_array_with_gaps_is_made_contiguous() -> None:
    value = np.arange(48, dtype="f4").reshape(4, 12)[:, ::2]
    np.testing.assert_array_equal(both_ways(resolve(IMAGE), value), value)
    np.testing.assert_array_equal(both_ways(resolve(IMAGE), np.asfortranarray(value)), value)


def test_a_decoded_array_is_a_view_that_keeps_the_memory_and_cannot_be_written() -> None:
    decode = resolve(np.dtype("u1")).decode
    assert decode is not None
    for memory in (bytearray(b"abc"), b"abc"):
        array = decode(memoryview(memory))
        assert np.shares_memory(array, np.frombuffer(memory, "u1"))
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("dtype", "value", "error", "message"),
    [
        ("f4", [1.0], TypeMismatch, "not list; use np.asarray"),
        ("f4", np.zeros(3), TypeMismatch, "array of float32, not of float64"),
        ("f4", np.zeros((2, 2), "f4"), ValueMismatch, r"one dimension, not of shape \(2, 2\)"),
        (IMAGE, np.zeros((6, 4), "f4"), ValueMismatch, r"shape \(4, 6\), not of shape \(6, 4\)"),
        (IMAGE, np.zeros(24, "f4"), ValueMismatch, r"not of shape \(24,\)"),
        (RECORD, np.zeros(2, "f4"), TypeMismatch, "not of float32"),
    ],
)
def test_another_dtype_or_shape_is_refused(dtype: Any, value: Any, error: type[Exception], message: str) -> None:
    encode = resolve(np.dtype(dtype)).encode
    assert encode is not None
    with pytest.raises(error, match=message):
        encode(value)


@pytest.mark.parametrize(("dtype", "size"), [("f4", 7), (IMAGE, 95), (IMAGE, 192), (IMAGE, 0)])
def test_a_payload_of_another_size_is_refused(dtype: Any, size: int) -> None:
    decode = resolve(np.dtype(dtype)).decode
    assert decode is not None
    with pytest.raises(ValueMismatch, match=f"payload of {size} bytes"):
        decode(memoryview(bytes(size)))


@pytest.mark.parametrize("dtype", ["O", [("a", "O")], "S0", "V", np.dtypes.StringDType(), ("f4", (0, 3))])
def test_a_dtype_without_a_fixed_size_is_refused(dtype: Any) -> None:
    with pytest.raises(UnsupportedType):
        resolve(np.dtype(dtype))
