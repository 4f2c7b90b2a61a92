"""`rtmw.spark.analyse`: rates, latency, deadlines, resampling and joins are what plain Python computes."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rtmw.recording.contents import Cause
from rtmw.spark.reading import read
from tests.recordings import Maker
from tests.spark.analyse.rows import BEGIN, Sent, collected, frame, gaps, groups, rank, time_of, traffic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MS = 1_000_000
ROWS = traffic()
TOPICS = groups(ROWS, lambda row: row.topic)


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> DataFrame:
    return frame(spark, ROWS).cache()


# Proves G160.
def test_rates_and_gaps_of_each_topic(messages: DataFrame) -> None:
    from rtmw.spark import analyse

    expected: list[tuple[Any, ...]] = []
    for topic, rows in TOPICS.items():
        between = gaps(rows)
        seconds = sum(between) / 1e9
        first = min(row.publish_time_ns for row in rows)
        median = rank(between, 0.5)
        ends = time_of(first), time_of(first + sum(between))
        spread = rank(between, 0.5) / 1e6, rank(between, 0.99) / 1e6, max(between) / 1e6
        jitter = rank((abs(gap - median) for gap in between), 0.99) / 1e6
        expected.append((topic, len(rows), *ends, seconds, (len(rows) - 1) / seconds, *spread, jitter))
    assert collected(analyse.rates(messages)) == expected


def test_a_topic_with_one_message_has_no_rate(spark: SparkSession) -> None:
    from rtmw.spark import analyse

    (row,) = collected(analyse.rates(frame(spark, ROWS[:1])))
    assert row[:2] == (ROWS[0].topic, 1)
    assert row[4:] == (0.0, None, None, None, None, None)


def test_rates_over_time(messages: DataFrame) -> None:
    from rtmw.spark import analyse

    at = groups(ROWS, lambda row: (row.topic, row.publish_time_ns // (250 * MS) * 250 * MS))
    step, times = 250 * MS, [row.publish_time_ns for row in ROWS]
    expected: list[tuple[Any, ...]] = []
    for topic in TOPICS:
        for ns in range(min(times) // step * step, max(times) + 1, step):
            count = len(at.get((topic, ns), ()))
            expected.append((topic, time_of(ns), count, count / 0.25, ns < min(times) or ns + step > max(times)))
    assert {row[2] for row in expected} > {0}
    assert collected(analyse.rates_over_time(messages, 0.25)) == expected


def sent(topic: str, *seconds: float) -> list[Sent]:
    """Messages so many seconds after BEGIN."""
    at = [BEGIN + round(second * 1e9) for second in seconds]
    return [Sent(topic, time_of(ns), None, ns, ns) for ns in at]


OUTAGE = [
    *sent("steady", *range(10)),
    *sent("broken", 0, 1, 2, 7, 8, 9),
    *sent("dead", 0, 1, 2, 3),
    *sent("late", 6, 9),
]


def test_an_interval_without_a_message_has_rate_0_and_those_at_the_ends_are_marked(spark: SparkSession) -> None:
    from rtmw.spark import analyse

    found = collected(analyse.rates_over_time(frame(spark, OUTAGE), 1.0, until=BEGIN + 10_500 * MS))
    hz = {topic: [row[3] for row in rows] for topic, rows in groups(found, lambda row: row[0]).items()}
    assert hz == {
        "broken": [1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0],
        "dead": [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0],
        "late": [0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0],
        "steady": [1] * 10 + [0],
    }
    assert [row[4] for row in found if row[0] == "steady"] == [False] * 10 + [True]


def seconds_of(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(row[0], (row[1] - time_of(BEGIN)).total_seconds(), *row[3:]) for row in rows]


def test_a_topic_that_dies_is_silent_until_the_end_of_the_recording(spark: SparkSession) -> None:
    from rtmw.spark import analyse

    rows = frame(spark, OUTAGE)
    middle = [("broken", 2.0, 5.0, "between"), ("late", 6.0, 3.0, "between")]
    assert seconds_of(collected(analyse.silences(rows, 3.0))) == [("dead", 3.0, 6.0, "end"), *middle]
    known = ["late", "steady", "never"]
    found = seconds_of(collected(analyse.silences(rows, 3.0, until=time_of(BEGIN + 13_000 * MS), known=known)))
    ends = [("broken", 9.0, 4.0, "end"), ("late", 9.0, 4.0, "end"), ("steady", 9.0, 4.0, "end")]
    whole = [("never", 0.0, 13.0, "all"), ("dead", 3.0, 10.0, "end"), ("late", 0.0, 6.0, "begin")]
    assert found == [*whole, middle[0], *ends, middle[1]]


def test_a_topic_that_dies_misses_its_deadline(spark: SparkSession) -> None:
    from rtmw.spark import analyse

    rows = frame(spark, OUTAGE)
    found = collected(analyse.deadline_misses(rows, 2.0, known=["never", "late"]))
    assert found == [
        ("broken", 6, 2.0, 1, 5.0, 3.0),
        ("dead", 4, 2.0, 1, 6.0, 4.0),
        ("late", 2, 2.0, 2, 6.0, 5.0),
        ("never", 0, 2.0, 1, 9.0, 7.0),
        ("steady", 10, 2.0, 0, 1.0, 0.0),
    ]


LAST = max(row.publish_time_ns for row in ROWS)


def test_silences_are_the_long_gaps(messages: DataFrame) -> None:
    from rtmw.spark import analyse

    expected: list[tuple[Any, ...]] = []
    for topic, rows in TOPICS.items():
        times = sorted(row.publish_time_ns for row in rows)
        for begin, end in pairwise(times):
            if end - begin >= 100 * MS:
                expected.append((topic, time_of(begin), time_of(end), (end - begin) / 1e9, "between"))
        if LAST - times[-1] >= 100 * MS:
            expected.append((topic, time_of(times[-1]), time_of(LAST), (LAST - times[-1]) / 1e9, "end"))
    expected.sort(key=lambda row: (-row[3], row[0], row[1]))
    assert expected
    assert collected(analyse.silences(messages, 0.1)) == expected


def latencies(rows: list[Sent]) -> tuple[Any, ...]:
    found = [row.log_time_ns - row.publish_time_ns for row in rows]
    spread = [rank(found, share) / 1e3 for share in (0.5, 0.9, 0.99, 0.999)]
    return (len(rows), min(found) / 1e3, *spread, max(found) / 1e3)


def test_latency_of_each_topic_and_over_time(messages: DataFrame) -> None:
    from rtmw.spark import analyse

    assert collected(analyse.latency(messages)) == [(topic, *latencies(rows)) for topic, rows in TOPICS.items()]
    at = groups(ROWS, lambda row: (row.topic, row.publish_time_ns // (1000 * MS) * 1000 * MS))
    expected = [(topic, time_of(ns), *latencies(rows)) for (topic, ns), rows in at.items()]
    assert collected(analyse.latency_over_time(messages)) == expected


@pytest.mark.parametrize("deadline", [0.01, {"b": 0.01, "c/d": 0.06, "never": 1.0}], ids=["one", "by topic"])
def test_deadline_misses(messages: DataFrame, deadline: Any) -> None:
    from rtmw.spark import analyse

    expected: list[tuple[Any, ...]] = []
    for topic, rows in TOPICS.items():
        limit_s = deadline.get(topic) if isinstance(deadline, dict) else deadline
        if limit_s is not None:
            limit, between = round(limit_s * 1e9), [*gaps(rows), LAST - max(row.publish_time_ns for row in rows)]
            over = [gap - limit for gap in between if gap > limit]
            expected.append((topic, len(rows), limit_s, len(over), max(between) / 1e9, sum(over) / 1e9))
    assert collected(analyse.deadline_misses(messages, deadline)) == expected


def test_lifetime_misses(messages: DataFrame) -> None:
    from rtmw.spark import analyse

    rows = [row for row in ROWS if row.expires is not None]
    over = [(row.log_time - row.expires) // timedelta(microseconds=1) for row in rows if row.expires is not None]
    late = [us for us in over if us > 0]
    assert 0 < len(late) < len(rows)
    expected = [("c/d", len(rows), len(late), len(late) / len(rows), max(late) / 1e3, None)]
    assert collected(analyse.lifetime_misses(messages)) == expected


# Proves G161.
def test_lifetime_misses_count_what_expired_before_the_recorder_came_to_it(spark: SparkSession, tmp_path: Path) -> None:
    from rtmw.spark import analyse

    for number in range(2):
        with Maker(tmp_path / f"run_{number}.mcap", chunk_bytes=100) as maker:
            brief, last, other = maker.channel("brief"), maker.channel("last"), maker.channel("other")
            for at in range(10):
                maker.write(brief, at * MS, b"x", left=MS if at % 5 else -2 * MS)
                maker.write(other, at * MS, b"x")
                maker.writer.missed(brief, Cause.EXPIRED, 3)
                maker.writer.missed(brief, Cause.MISSED, 1)
            if number:
                maker.write(last, 11 * MS, b"x", left=MS)
            maker.writer.missed(last, Cause.EXPIRED, 7)
            maker.write(other, 12 * MS, b"x")
    rows = read(tmp_path, typed=False, spark=spark)
    expected = [("brief", 20, 4, 64 / 80, 2.0, 60), ("last", 1, 0, 14 / 15, None, 14)]
    assert collected(analyse.lifetime_misses(rows)) == expected
    assert collected(analyse.lifetime_misses(rows.where("topic = 'brief'"))) == expected[:1]


VALUES = [("x", BEGIN + at * MS, value) for at, value in ((3, 1.5), (4, 2.5), (9, 4.25), (31, -1.0), (32, 8.0))]
VALUES += [("y", BEGIN + 12 * MS, 7.0)]


@pytest.mark.parametrize(
    ("how", "values"),
    [("last", [4.25, 8.0]), ("first", [1.5, -1.0]), ("mean", [2.75, 3.5]), ("min", [1.5, -1.0]), ("max", [4.25, 8.0])],
)
def test_values_are_resampled_to_even_times(spark: SparkSession, how: str, values: list[float]) -> None:
    from rtmw.spark import analyse

    rows = frame(spark, VALUES, "topic string, publish_time_ns long, value double")
    expected = [("x", time_of(BEGIN), values[0]), ("x", time_of(BEGIN + 30 * MS), values[1])]
    expected += [("y", time_of(BEGIN + 10 * MS), 7.0)]
    assert collected(analyse.resample(rows, 0.01, ["value"], how=how)) == expected


def test_resampling_can_hold_what_was_there_before(spark: SparkSession) -> None:
    from rtmw.spark import analyse

    rows = frame(spark, VALUES, "topic string, publish_time_ns long, value double")
    found = collected(analyse.resample(rows, 0.01, ["value"], hold=True))
    steps = [("x", at, value) for at, value in ((0, 4.25), (10, 4.25), (20, 4.25), (30, 8.0))] + [("y", 10, 7.0)]
    assert found == [(topic, time_of(BEGIN + at * MS), value) for topic, at, value in steps]


def test_another_way_to_resample_is_refused(messages: DataFrame) -> None:
    from rtmw.spark import analyse

    with pytest.raises(ValueError, match="how='median' is none of last, first, mean, min, max"):
        analyse.resample(messages, 1.0, ["log_time_ns"], how="median")
    with pytest.raises(ValueError, match="0 s is no length of time"):
        analyse.rates_over_time(messages, 0)


@pytest.mark.parametrize("within", [None, 0.004])
def test_topics_are_joined_as_of_a_time(spark: SparkSession, within: float | None) -> None:
    from rtmw.spark import analyse

    left = [(key, BEGIN + at * MS, at) for key in "pq" for at in range(0, 60, 7)]
    right = [(key, BEGIN + at * MS, f"{key}{at}") for key in "pr" for at in range(5, 40, 6)]
    found = analyse.as_of(
        frame(spark, left, "key string, publish_time_ns long, number long"),
        frame(spark, right, "key string, publish_time_ns long, word string"),
        ["word"],
        by=["key"],
        within=within,
    )
    expected: list[tuple[Any, ...]] = []
    for key, at, number in left:
        before = [(when, word) for other, when, word in right if other == key and when <= at]
        when, word = max(before, default=(None, None))
        if when is None or (within is not None and at - when > within * 1e9):
            expected.append((key, at, number, None, None))
        else:
            expected.append((key, at, number, word, (at - when) / 1e9))
    assert sorted(collected(found)) == expected


def test_a_join_refuses_two_columns_of_one_name(messages: DataFrame) -> None:
    from rtmw.spark import analyse

    with pytest.raises(ValueError, match="left has a column 'log_time' already"):
        analyse.as_of(messages, messages, ["log_time"])


def test_results_are_drawn(messages: DataFrame) -> None:
    from rtmw.spark import analyse

    figure = analyse.lines(analyse.rates_over_time(messages, 0.5), "time", "hz", title="Rates")
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.get_lines()] == ["a", "b", "c/d"]
    dotted = analyse.lines(analyse.rates_over_time(messages, 0.5), "time", "hz", hollow="partial", apart=0.1)
    circles = [line for line in dotted.axes[0].get_lines() if line.get_markerfacecolor() == "none"]
    assert [len(line.get_xdata()) for line in circles] == [1] * 6
    figure = analyse.bars(analyse.rates(messages), "topic", "messages")
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a", "b", "c/d"]
    assert [bar.get_width() for bar in figure.axes[0].patches] == [300, 300, 300]
