"""Rows become the payloads that the reference encoder writes, on types and values made at random."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtmw.columns import arrow_schema, decode, encode
from rtmw.columns.program import Unsigned
from rtmw.errors import TypeMismatch, UnsupportedType, ValueMismatch
from rtmw.types import resolve
from tests.columns.payloads import side_by_side
from tests.types.idl_strategies import messages
from tests.types.messages import Colour, Flags, Frozen, Grown, Plot, Point, Reading, Rows, Various

thorough = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
EVERY = ("union", "optional", "appendable")


def payloads_of(batch: pa.RecordBatch, cls: Any) -> list[bytes]:
    data, position, size = encode(batch, resolve(cls))
    memory = memoryview(data)
    return [bytes(memory[at : at + count]) for at, count in zip(position.tolist(), size.tolist(), strict=True)]


def table(cls: Any, *values: Any, unsigned: Unsigned = "keep") -> pa.RecordBatch:
    return decode(side_by_side([value.serialize() for value in values]), resolve(cls), unsigned)


@thorough
@given(messages(*EVERY), st.integers(1, 9), st.sampled_from(["keep", "widen"]))
def test_rows_become_the_bytes_that_they_were_read_from(
    message: tuple[Any, Any], count: int, unsigned: Unsigned
) -> None:
    cls, value = message
    batch = table(cls, *[value] * count, unsigned=unsigned)
    assert payloads_of(batch, cls) == [value.serialize()] * count


VALUES = [Various.example(), Various([], Flags(True, True), [Colour.RED] * 2, [Grown(1)], None)]


@pytest.mark.parametrize("start", range(5))
@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_a_part_of_a_batch_is_encoded_as_the_whole(start: int, count: int) -> None:
    values = [VALUES[n % 2] for n in range(10)]
    batch = table(Various, *values).slice(start, count)
    assert payloads_of(batch, Various) == [value.serialize() for value in values[start : start + count]]


def test_columns_are_found_by_name_and_others_left_alone() -> None:
    batch = pa.RecordBatch.from_pydict({"topic": ["a"], "number": pa.array([7], pa.int64()), "name": ["x"]})
    assert payloads_of(batch, Frozen) == [Frozen("x", 7).serialize()]


def test_an_optional_member_may_be_missing() -> None:
    batch = pa.RecordBatch.from_pydict({"first": pa.array([7])})
    assert payloads_of(batch, Grown) == [Grown(7).serialize()]


def test_other_types_of_the_same_values_are_taken() -> None:
    batch = table(Rows, Rows([1], [2], [3.0], [4.0], [5.0, 6.0]))
    wider = {
        "counts": pa.array([[1]], pa.large_list(pa.int32())),
        "octets": pa.array([b"\2"], pa.large_binary()),
        "doubles": pa.array([[3]], pa.list_(pa.int64())),
        "floats": pa.array([[4.0]], pa.list_(pa.float64())),
        "pair": pa.array([[5.0, 6.0]], pa.list_(pa.float64(), 2)),
    }
    assert payloads_of(pa.RecordBatch.from_pydict(wider), Rows) == payloads_of(batch, Rows)
    names = pa.array(["a", "a"]).dictionary_encode()
    batch = pa.RecordBatch.from_pydict({"name": names, "number": [1, 2]})
    assert payloads_of(batch, Frozen) == [Frozen("a", 1).serialize(), Frozen("a", 2).serialize()]


def test_enumerators_are_names_digits_or_numbers() -> None:
    rest = {"station": ["a"] * 3, "values": [[1.0]] * 3, "note": [""] * 3}
    named = pa.RecordBatch.from_pydict({**rest, "colour": ["GREEN", "4", "17"]})
    numbered = pa.RecordBatch.from_pydict({**rest, "colour": [4, 4, 17]})
    assert payloads_of(named, Reading) == payloads_of(numbered, Reading)
    assert payloads_of(named, Reading)[0] == Reading("a", [1.0], Colour.GREEN).serialize()


ROW: dict[str, Any] = {
    "title": ["t"],
    "points": [[{"x": 1.0, "flag": True, "letter": "a"}]],
    "grid": [[1, 2, 3]],
    "image": [b"abcd"],
    "raw": [b""],
    "small": [1],
}
WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"title": [None]}, ValueMismatch, r"geo.Plot\.title: row 0: it is null"),
    ({"grid": [[1, None, 3]]}, ValueMismatch, r"geo.Plot\.grid\.element: row 0: it is null"),
    ({"grid": [[1, 2]]}, ValueMismatch, r"geo.Plot\.grid: row 0: 2 elements, where exactly 3 are needed"),
    ({"grid": [[1, 2, 70_000]]}, TypeMismatch, r"geo.Plot\.grid cannot be made of int64"),
    ({"image": [b"abc"]}, ValueMismatch, "3 elements, where exactly 4"),
    ({"points": [[ROW["points"][0][0]] * 5]}, ValueMismatch, "5 elements, where at most 4"),
    ({"points": [[{"x": 1.0, "flag": True, "letter": "ab"}]]}, ValueMismatch, "one ASCII character is needed"),
    ({"points": [[{"x": 1.0, "flag": True}]]}, TypeMismatch, r"geo.Plot\.points needs a member 'letter'"),
    ({"points": [[1]]}, TypeMismatch, r"geo.Plot\.points cannot be made of int64: a struct is needed"),
    ({"small": ["many"]}, TypeMismatch, r"geo.Plot\.small cannot be made of string"),
]


@pytest.mark.parametrize(("change", "error", "message"), WRONG, ids=[str(case[0]) for case in WRONG])
def test_what_does_not_fit_is_refused_by_member_and_row(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    assert payloads_of(pa.RecordBatch.from_pydict(ROW), Plot) == [
        Plot("t", [Point(1.0, True, "a")], [1, 2, 3], b"abcd", b"", 1).serialize()
    ]
    with pytest.raises(error, match=message):
        encode(pa.RecordBatch.from_pydict(ROW | change), resolve(Plot))


def test_a_column_that_is_missing_is_named() -> None:
    with pytest.raises(TypeMismatch, match=r"geo\.Frozen needs a column 'number'; there are"):
        encode(pa.RecordBatch.from_pydict({"name": ["a"]}), resolve(Frozen))


def test_a_type_without_members_is_refused() -> None:
    with pytest.raises(UnsupportedType, match="give their payloads"):
        encode(pa.RecordBatch.from_pydict({"value": [b"a"]}), resolve(bytes))


def test_a_schema_has_what_encoding_needs() -> None:
    empty = pa.RecordBatch.from_pylist([], schema=arrow_schema(resolve(Various)))
    assert payloads_of(empty, Various) == []
