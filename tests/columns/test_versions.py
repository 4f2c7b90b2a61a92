"""Versions of a type share columns: by the names of members, without a value that changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cyclonedds.idl import IdlStruct, types

from rtmw.columns import merged_versions
from rtmw.columns.program import Unsigned
from rtmw.columns.rows import Rows
from rtmw.errors import UnsupportedType, ValueMismatch
from rtmw.types import resolve
from tests.columns.payloads import side_by_side


@dataclass
class Place(IdlStruct, typename="plant.Place"):
    x: types.float32


@dataclass
class Wide(IdlStruct, typename="plant.Wide"):
    value: types.uint64


@dataclass
class Signed(IdlStruct, typename="plant.Wide"):
    value: types.int64


@dataclass
class Old(IdlStruct, typename="plant.Pump"):
    number: types.uint8
    rpm: types.float32
    gone: str
    place: Place
    path: types.sequence[Place]


@dataclass
class FinePlace(IdlStruct, typename="plant.Place"):
    y: types.float64
    x: types.float64


@dataclass
class New(IdlStruct, typename="plant.Pump"):
    rpm: types.float64
    number: types.int16
    place: FinePlace
    path: types.sequence[FinePlace]
    last: Optional[FinePlace]  # noqa: UP045 (cyclonedds knows no other way)
    depth: FinePlace


PATH: Any = [Place(2.5), Place(3.5)]
NOWHERE: Any = []
OLD = Old(7, 0.5, "rust", Place(1.5), PATH)
NEW = New(0.1, -300, FinePlace(8.0, 0.1), NOWHERE, None, FinePlace(9.0, 0.2))
OLD_ROW: dict[str, Any] = {
    "number": 7,
    "rpm": 0.5,
    "gone": "rust",
    "place": {"x": 1.5, "y": None},
    "path": [{"x": 2.5, "y": None}, {"x": 3.5, "y": None}],
    "last": None,
    "depth": None,
}
NEW_ROW: dict[str, Any] = {
    "number": -300,
    "rpm": 0.1,
    "gone": None,
    "place": {"x": 0.1, "y": 8.0},
    "path": [],
    "last": None,
    "depth": {"y": 9.0, "x": 0.2},
}


def descriptions(*classes: Any) -> tuple[bytes, ...]:
    return tuple(resolve(cls).description for cls in classes)


def encoded(value: Any) -> bytes:
    encode = resolve(type(value)).encode
    assert encode is not None
    return bytes(encode(value))


def rows_of(values: list[Any], unsigned: Unsigned = "keep") -> pa.RecordBatch:
    """Of messages of both versions, as one batch."""
    versions = merged_versions(descriptions(Old, New), unsigned)
    which = np.array([isinstance(value, New) for value in values], np.int64)
    rows = Rows(*side_by_side([encoded(value) for value in values]))
    ((batch, damaged),) = versions.decode(rows, which, False)
    batch.validate(full=True)
    assert damaged is None
    assert batch.schema == versions.schema(False)
    return batch


def single(name: str, kind: Any) -> bytes:
    """A type with one member."""
    made = type("Single", (IdlStruct,), {"__annotations__": {name: kind}}, typename="plant.Single")
    return resolve(dataclass(made)).description


def merged_type(*kinds: Any, unsigned: Unsigned = "keep") -> pa.DataType:
    made = merged_versions(tuple(single("value", kind) for kind in kinds), unsigned)
    return made.schema(False).field("value").type


def test_a_member_that_a_version_lacks_is_null_in_its_rows() -> None:
    assert rows_of([OLD, NEW]).to_pylist() == [OLD_ROW, NEW_ROW]


@pytest.mark.parametrize("unsigned", ["keep", "widen", "long"])
def test_rows_of_several_versions_keep_their_order(unsigned: Unsigned) -> None:
    values = [NEW, OLD, OLD, NEW, OLD, NEW, NEW]
    expected = [NEW_ROW if value is NEW else OLD_ROW for value in values]
    assert rows_of(values, unsigned).to_pylist() == expected


def test_the_columns_of_the_first_version_come_first() -> None:
    assert rows_of([OLD]).schema.names == ["number", "rpm", "gone", "place", "path", "last", "depth"]


def test_a_merged_batch_can_be_written_as_parquet(tmp_path: Any) -> None:
    batch = rows_of([OLD, NEW, OLD])
    pq.write_table(pa.Table.from_batches([batch]), tmp_path / "merged.parquet")
    assert pq.read_table(tmp_path / "merged.parquet").to_pylist() == [OLD_ROW, NEW_ROW, OLD_ROW]


SEQUENCE: Any = types.sequence


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((types.int8, types.int32), pa.int32()),
        ((types.uint8, types.int8), pa.int16()),
        ((types.uint64, types.int8), pa.decimal128(20, 0)),
        ((types.uint8, types.uint16, types.uint32), pa.uint32()),
        ((types.int16, types.float32), pa.float32()),
        ((types.int32, types.float32), pa.float64()),
        ((types.float32, types.float64), pa.float64()),
        ((SEQUENCE[types.int8], SEQUENCE[types.int64]), pa.list_(pa.field("element", pa.int64(), False))),
    ],
)
def test_numbers_are_widened_to_what_holds_all_of_their_values(kinds: Any, expected: pa.DataType) -> None:
    assert merged_type(*kinds) == expected


@pytest.mark.parametrize("number", [(1 << 64) - 1, 1 << 63])
def test_the_largest_numbers_keep_their_value_beside_numbers_with_a_sign(number: int) -> None:
    payloads = [encoded(Wide(number)), encoded(Signed(-(1 << 63)))]
    versions = merged_versions(descriptions(Wide, Signed))
    ((batch, _),) = versions.decode(Rows(*side_by_side(payloads)), np.array([0, 1]), False)
    assert batch.column(0).to_pylist() == [number, -(1 << 63)]


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ((types.int32, types.int32, str), r"Single\.value: it is int32 in versions 1, 2 and string in version 3"),
        ((types.int64, types.float64), r"it is int64 in version 1 and double in version 2"),
        ((types.float32, SEQUENCE[types.float32]), r"float in version 1 and list<.*> in version 2"),
        ((SEQUENCE[bool], SEQUENCE[types.int8]), r"value\[\]: it is bool in version 1 and int8 in version"),
    ],
)
def test_a_member_that_no_column_can_hold_is_named_with_its_types(kinds: Any, said: str) -> None:
    with pytest.raises(UnsupportedType, match=said):
        merged_type(*kinds)


def test_a_damaged_row_of_any_version_is_found() -> None:
    payloads = [encoded(OLD), encoded(NEW)[:-3], encoded(OLD)[:9], encoded(NEW)]
    rows, which = Rows(*side_by_side(payloads)), np.array([0, 1, 0, 1])
    versions = merged_versions(descriptions(Old, New))
    ((batch, damaged),) = versions.decode(rows, which, True)
    assert batch.column("number").to_pylist() == [7, None, None, -300]
    assert damaged is not None
    assert damaged.tolist() == [False, True, True, False]
    with pytest.raises(ValueMismatch, match=r"plant.Pump\.rpm: the payload of row 1, 9 bytes"):
        list(versions.decode(rows, which, False))


@pytest.mark.parametrize("places", [(0,), (2,), (5, 6), (0, 3, 5), (4,)])
def test_some_columns_of_several_versions_are_as_if_all_were_asked_for(places: tuple[int, ...]) -> None:
    descriptions = resolve(Old).description, resolve(New).description
    rows = Rows(*side_by_side([OLD.serialize(), NEW.serialize(), OLD.serialize()]))
    which = np.array([0, 1, 0])
    for version in (which, 0):
        asked = rows if version is which else rows[np.array([0, 2])]
        ((whole, _),) = merged_versions(descriptions).decode(asked, version, False)
        ((some, _),) = merged_versions(descriptions, "keep", places).decode(asked, version, False)
        assert some.equals(whole.select([*places]))
