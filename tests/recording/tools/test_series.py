"""Members of messages as series: which are meant, their values, and fewer points that look the same."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import cyclonedds.idl.types as t
import numpy as np
import pytest
from cyclonedds.idl import IdlStruct

from rtmw.recording import Recording
from rtmw.recording.frames.scan import TimeRange
from rtmw.recording.tools.series import Series, series
from rtmw.types import resolve
from tests.recordings import BEGIN_NS, MS, Maker


@dataclass
class Rates(IdlStruct, typename="arm.Rates"):
    x: t.float64
    y: t.float64


@dataclass
class State(IdlStruct, typename="arm.State"):
    rates: Rates
    angles: t.array[t.float32, 2]
    forces: t.sequence[t.int32]
    is_moving: bool
    name: str
    maybe: Optional[t.float64] = None  # noqa: UP045 (cyclonedds reads it)


def state(number: int) -> State:
    maybe = number / 2 if number % 2 else None
    return State(Rates(number, -number), [number, 2 * number], [*range(number % 3)], number > 1, "arm", maybe)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Maker(tmp_path / "a.mcap") as maker:
        channel = maker.channel("arm.left", State)
        for number in (0, 2, 1, 3):  # recorded in another order than published
            maker.write(channel, 10 * MS + [0, 2, 1, 3].index(number), state(number).serialize(), published=number * MS)
        maker.write(maker.channel("arm"), 20 * MS, b"raw")
    return maker.path


def found(path: Path, wanted: str, selection: TimeRange | None = None) -> Series:
    with Recording(path) as recording:
        return series([recording], wanted, selection or TimeRange())


@pytest.mark.parametrize(
    ("member", "values"),
    [
        ("rates.x", [0, 1, 2, 3]),
        ("rates.y", [0, -1, -2, -3]),
        ("angles[1]", [0, 2, 4, 6]),
        ("forces[0]", [None, 0, 0, None]),
        ("forces[1]", [None, None, 1, None]),
        ("angles[2]", [None] * 4),
        ("is_moving", [0, 0, 1, 1]),
        ("maybe", [None, 0.5, None, 1.5]),
        ("sequence", [1, 3, 2, 4]),
    ],
)
def test_a_member_is_a_series_in_the_order_of_publishing(path: Path, member: str, values: list[Any]) -> None:
    one = found(path, f"arm.left.{member}")
    assert [None if math.isnan(value) else value for value in one.values.tolist()] == values
    assert one.times_ns.tolist() == [BEGIN_NS + number * MS for number in range(4)]


def test_a_part_of_the_time_may_be_chosen(path: Path) -> None:
    assert found(path, "arm.left.rates.x", TimeRange(None, BEGIN_NS + 10 * MS + 1)).values.tolist() == [0]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ("leg.x", r"no member of a topic, as TOPIC\.member; there are the topics arm, arm\.left"),
        ("arm.left", "no number and no text of arm; there are none"),
        (
            "arm.left.speed",
            r"no number and no text of arm\.left; there are arm\.left\.rates\.x, .*angles\[0\], .*is_moving",
        ),
        ("arm.left.rates", r"no number and no text of arm\.left"),
        ("arm.left.angles", r"no number and no text of arm\.left"),
        ("arm.left.rates..x", r"no member of arm\.left, as rates\.x or angles\[2\]"),
        ("arm.left.angles[x]", r"no member of arm\.left"),
    ],
)
def test_what_is_no_number_is_an_error_that_names_what_there_is(path: Path, wanted: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        found(path, wanted)


def test_a_thinned_series_keeps_the_extremes_of_each_column() -> None:
    values = np.sin(np.arange(100_000) / 50)
    values[12_345], values[54_321] = 7, -9
    thin = Series("t", np.arange(100_000), values).thinned(200)
    assert len(thin.values) <= 4 * 200
    assert (thin.values.max(), thin.values.min()) == (7, -9)
    assert thin.times_ns[[0, -1]].tolist() == [0, 99_999]


def test_a_thinned_series_of_one_time_or_of_nothing_is_possible() -> None:
    assert len(Series("t", np.zeros(1000, np.int64), np.arange(1000.0)).thinned(10).values) == 2
    assert len(Series("t", np.arange(1000), np.full(1000, np.nan)).thinned(10).values) == 20
    assert len(Series("t", np.zeros(0, np.int64), np.zeros(0)).thinned(10).values) == 0


def test_members_of_the_values_of_a_dict_topic_are_series_too(tmp_path: Path) -> None:
    values: list[Any] = [
        {"rate": 1, "at": [{"x": 0.5}]},
        {"rate": 2.5},
        [3],
        {"rate": None, "name": "fast"},
        {"text": 7},
    ]
    encode = resolve(dict).encode
    assert encode is not None
    with Maker(tmp_path / "a.mcap") as maker:
        channel = maker.channel("settings", dict)
        for number, value in enumerate(values):
            maker.write(channel, number * MS, encode(value), published=number * MS)
    with Recording(maker.path) as recording:
        nan = math.nan
        for wanted, found in (("rate", [1, 2.5, nan, nan, nan]), ("at[0].x", [0.5, nan, nan, nan, nan])):
            np.testing.assert_array_equal(series([recording], f"settings.{wanted}", TimeRange()).values, found)
        names = series([recording], "settings.name", TimeRange())
        assert names.names == ("fast",)
        with pytest.raises(ValueError, match=r"settings.speed is in no value, and a series is of numbers or of texts"):
            series([recording], "settings.speed", TimeRange())
