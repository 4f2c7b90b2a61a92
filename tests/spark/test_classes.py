"""Members of plain classes as columns: the types that docs/types.md says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import rtmw
import rtmw.spark
from tests.recordings import Maker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class State(Enum):
    OFF = "off"
    ON = "on"


@dataclass
class Pump:
    number: rtmw.uint16


@dataclass
class Everything:
    flag: bool
    whole: int
    tiny: rtmw.int8
    small: rtmw.int16
    middle: rtmw.int32
    byte: rtmw.uint8
    word: rtmw.uint32
    largest: rtmw.uint64
    real: float
    single: rtmw.float32
    text: str
    raw: bytes
    row: list[float]
    state: State
    pump: Pump
    note: str | None = None


def test_each_member_has_the_column_that_the_page_of_types_says(spark: SparkSession, tmp_path: Path) -> None:
    value = Everything(
        True, 1, -2, -3, -4, 5, 6, 7, 0.5, 0.25, "text", b"\0\xff", [1.5], State.ON, Pump(9)
    )  # fmt: skip
    kind = rtmw.types.resolve(Everything)
    assert kind.encode is not None
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("all", Everything), 0, bytes(kind.encode(value)))
    members = [name for name in Everything.__dataclass_fields__]
    frame = rtmw.spark.read(tmp_path, topic="all", columns=members)
    assert [(column.name, column.dataType.simpleString()) for column in frame.schema] == [
        ("flag", "boolean"), ("whole", "bigint"), ("tiny", "tinyint"), ("small", "smallint"), ("middle", "int"),
        ("byte", "smallint"), ("word", "bigint"), ("largest", "decimal(20,0)"), ("real", "double"), ("single", "float"),
        ("text", "string"), ("raw", "binary"), ("row", "array<double>"), ("state", "string"),
        ("pump", "struct<number:int>"), ("note", "string"),
    ]  # fmt: skip
    (row,) = frame.collect()
    assert (row.whole, row.row, row.state, row.pump.number, row.note) == (1, [1.5], "ON", 9, None)
    page = (Path(__file__).parents[2] / "docs" / "types.md").read_text()
    rows = re.findall(r"^\| .* \| `.*` \| (.*) \|$", page, re.MULTILINE)
    said = {word.strip() for line in rows for word in line.split(", ")}
    assert {"boolean", "bigint", "tinyint", "smallint", "int", "double", "float", "string", "binary"} <= said
