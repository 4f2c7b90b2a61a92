"""`rtmw.spark.analyse.river` and `.airport`: hourly means, alarms and delays are what plain Python computes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tests.spark.analyse.rows import BEGIN, collected, frame, groups, rank, time_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


S = 1_000_000_000
HOUR = 3600 * S
READING = "station string, parameter string, value double, quality string, measured_ns long"


def readings() -> list[tuple[str, str, float, str, int]]:
    """Values in eighths, so that their sums are exact in any order."""
    dice = random.Random(3)
    qualities = ("GOOD", "GOOD", "GOOD", "UNCERTAIN", "BAD")
    return [
        (f"S{dice.randrange(3)}", p, dice.randrange(400) / 8, dice.choice(qualities), BEGIN + dice.randrange(9 * HOUR))
        for p in ("oxygen", "ph")
        for _ in range(400)
    ]


def test_hourly_means_leave_out_what_cannot_be_trusted(spark: SparkSession) -> None:
    from rtmw.spark.analyse import river

    good = [row for row in readings() if row[3] != "BAD"]
    at = groups(good, lambda row: (row[0], row[1], row[4] // HOUR * HOUR))
    expected: list[tuple[Any, ...]] = []
    for (station, parameter, ns), rows in at.items():
        values = [row[2] for row in rows]
        mean = sum(values) / len(values)
        expected.append((station, parameter, time_of(ns), len(values), mean, min(values), max(values)))
    assert collected(river.hourly_means(frame(spark, readings(), READING))) == expected


def test_values_outside_of_the_limits_are_counted_by_the_newest_limits(spark: SparkSession) -> None:
    from rtmw.spark.analyse import river

    limits = [("ph", 20.0, 30.0, 1), ("ph", 6.0, 48.0, 2), ("oxygen", -1.0, 100.0, 1)]
    parameters = frame(spark, limits, "code string, low double, high double, publish_time_ns long")
    expected: list[tuple[Any, ...]] = []
    trusted = [row for row in readings() if row[1] == "ph" and row[3] != "BAD"]
    for station, rows in groups(trusted, lambda row: row[0]).items():
        values = [row[2] for row in rows]
        out = sum(not 6 <= value <= 48 for value in values)
        assert out
        expected.append((station, "ph", len(values), out, out / len(values), min(values), max(values)))
    assert collected(river.exceedances(frame(spark, readings(), READING), parameters)) == expected


def test_an_alarm_lasts_until_the_value_is_back_inside(spark: SparkSession) -> None:
    from rtmw.spark.analyse import river

    rows = [
        ("A", "ph", False, 7.0, 9.0, 1, "inside"),
        ("A", "ph", True, 9.5, 9.0, 10, "too high"),
        ("A", "ph", True, 11.0, 9.0, 20, "higher"),
        ("A", "ph", False, 8.5, 9.0, 40, "inside again"),
        ("A", "ph", True, 4.0, 5.0, 70, "too low"),
        ("B", "ph", True, 3.0, 5.0, 15, "too low"),
        ("B", "ph", False, 6.0, 5.0, 16, "inside"),
    ]
    columns = (
        "station string, parameter string, raised boolean, value double, limit double, measured_ns long, text string"
    )
    timed = [(*row[:5], BEGIN + row[5] * S, row[6]) for row in rows]

    def at(second: int) -> Any:
        return time_of(BEGIN + second * S)

    assert collected(river.alarms(frame(spark, timed, columns))) == [
        ("A", "ph", at(10), at(40), 30.0, 2, 11.0, 9.0, "too high"),
        ("B", "ph", at(15), at(16), 1.0, 1, 3.0, 5.0, "too low"),
        ("A", "ph", at(70), None, None, 1, 4.0, 5.0, "too low"),
    ]


MOVEMENT = "airport string, direction string, carrier string, scheduled_s long, delay_minutes float, cancelled boolean"


def movements() -> list[tuple[str, str, str, int, float, bool]]:
    dice = random.Random(5)
    return [
        (
            dice.choice(("JFK", "LGA")),
            dice.choice(("DEPARTURE", "ARRIVAL")),
            dice.choice(("AA", "UA", "B6")),
            BEGIN // S + dice.randrange(86400 * 3),
            dice.randrange(-80, 600) / 8,
            dice.random() < 0.05,
        )
        for _ in range(600)
    ]


def figures(rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    delays = [row[4] for row in rows if not row[5]]
    late = sum(delay >= 15 for delay in delays)
    mean = sum(delays) / len(delays)
    spread = rank(delays, 0.5), rank(delays, 0.9), max(delays)
    return (len(rows), len(rows) - len(delays), late, late / len(delays), mean, *spread)


# Proves G160.
def test_delays_of_each_carrier_and_of_each_hour(spark: SparkSession) -> None:
    from rtmw.spark.analyse import airport

    flights = frame(spark, movements(), MOVEMENT).cache()
    carriers = groups(movements(), lambda row: row[:3])
    expected = sorted(((*key, *figures(rows)) for key, rows in carriers.items()), key=lambda row: (-row[3], *row[:3]))
    assert collected(airport.delays(flights)) == expected
    hours = groups(movements(), lambda row: (*row[:2], row[3] % 86400 // 3600))
    assert collected(airport.delays_by_hour(flights)) == [(*key, *figures(rows)) for key, rows in hours.items()]


def test_flights_that_were_all_cancelled_have_no_delays(spark: SparkSession) -> None:
    from rtmw.spark.analyse import airport

    rows = [("JFK", "ARRIVAL", "AA", 0, 0.0, True)]
    found = collected(airport.delays(frame(spark, rows, MOVEMENT)))
    assert found == [("JFK", "ARRIVAL", "AA", 1, 1, 0, None, None, None, None, None)]
