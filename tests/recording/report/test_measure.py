"""The figures of a topic: as a plain loop over its messages has them."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtmw.recording import Recording
from rtmw.recording.batch import CARRIED
from rtmw.recording.contents import UNSET_NS
from rtmw.recording.report.figures import (
    KINDS,
    Distribution,
    Gathered,
    Grid,
    Measuring,
    Run,
    Silence,
    TopicColumns,
    TopicFigures,
    distribution,
    grid_of,
    loaded,
    numbered,
)
from tests.recording.report import made
from tests.recordings import BEGIN_NS, MS, SECOND, Maker

GRID = Grid(BEGIN_NS, BEGIN_NS + 60 * SECOND, SECOND)


def rows(publish: list[int], **columns: list[int]) -> TopicColumns:
    """Columns of a topic; what is not given is as usual."""
    count = len(publish)
    usual: dict[str, Any] = {
        "place": range(count), "publish": publish, "log": publish, "size": [8] * count, "expires": [0] * count,
        "band": [0] * count, "sequence": range(1, count + 1),
    }  # fmt: skip
    return {name: np.array((usual | columns)[name], kind) for name, kind in KINDS.items()}


def figures(
    found: TopicColumns, grid: Grid = GRID, known: tuple[str, ...] = (), bases: tuple[int, ...] = (0,)
) -> TopicFigures:
    run = Run(grid.since_ns, grid.until_ns, frozenset(known), frozenset(known))
    return Measuring(grid, (run,), bases).figures("t", found)


def nearest_rank(values: list[int], share: float) -> int:
    """The definition, by counting."""
    return next(value for value in sorted(values) if sum(one <= value for one in values) >= share * len(values))


def test_gaps_jitter_and_latency_are_what_a_plain_loop_computes() -> None:
    numbers = random.Random(3)
    publish = [BEGIN_NS + numbers.randrange(59 * SECOND) for _ in range(500)]
    log = [at + numbers.randrange(1, 5 * MS) for at in publish]
    found = figures(rows(publish, log=log))
    ordered = sorted(publish)
    gaps = [after - before for before, after in pairwise(ordered)]
    median = nearest_rank(gaps, 0.5)
    assert found.gaps is not None
    assert (found.gaps.p50, found.gaps.p99, found.gaps.most) == (median, nearest_rank(gaps, 0.99), max(gaps))
    assert found.jitter_p99 == nearest_rank([abs(gap - median) for gap in gaps], 0.99)
    took = [after - before for before, after in zip(publish, log, strict=True)]
    shares = (0.5, 0.9, 0.99, 0.999)
    assert found.latency == Distribution(500, min(took), *(nearest_rank(took, share) for share in shares), max(took))
    for instant in found.latencies:
        here = [t for at, t in zip(publish, took, strict=True) if at // SECOND - GRID.first == instant.interval]
        assert (instant.p50, instant.p99, instant.most) == (
            nearest_rank(here, 0.5), nearest_rank(here, 0.99), max(here),
        )  # fmt: skip
    assert sum(found.counts) == 500
    assert found.counts[7] == sum(at // SECOND - GRID.first == 7 for at in publish)
    assert [size / 8 for size in found.sizes] == [*found.counts]


def test_the_order_in_which_rows_are_gathered_changes_nothing() -> None:
    numbers = random.Random(4)
    publish = [BEGIN_NS + at * 100 * MS for at in range(300)]
    one = rows(publish, sequence=[numbers.randrange(1000) for _ in publish], band=[at % 3 for at in range(300)])
    shuffled = np.array(numbers.sample(range(300), 300))
    assert figures({name: column[shuffled] for name, column in one.items()}) == figures(one)


def test_figures_survive_their_text() -> None:
    found = figures(rows([BEGIN_NS + at * SECOND for at in range(40)], expires=[BEGIN_NS] * 40))
    assert found.silences
    assert loaded(found.dumped()) == found


def test_an_interval_without_messages_has_zero() -> None:
    outage = figures(rows([BEGIN_NS + at * 100 * MS for at in range(600) if not 200 <= at < 240]))
    assert outage.counts[19:25] == (10, 0, 0, 0, 0, 10)


def test_messages_that_were_kept_for_the_recorder_have_no_latency_and_are_in_no_interval() -> None:
    publish = [BEGIN_NS - 3600 * SECOND] + [BEGIN_NS + at * SECOND for at in range(30)]
    found = figures(rows(publish, log=[max(at, BEGIN_NS) + MS for at in publish]))
    assert (found.messages, sum(found.counts)) == (31, 30)
    assert found.latency is not None
    assert (found.latency.count, found.latency.most) == (30, MS)


def test_messages_that_were_published_at_another_time_count_by_when_they_were_recorded() -> None:
    publish = [at * SECOND for at in range(30)]
    found = figures(rows(publish, log=[BEGIN_NS + at * 500 * MS for at in range(30)]))
    assert (found.clock, found.latency, found.hz) == ("recorded", None, 2.0)


def test_a_time_that_nobody_set_counts_nowhere() -> None:
    found = figures(rows([BEGIN_NS, UNSET_NS, UNSET_NS], log=[BEGIN_NS + 1, BEGIN_NS + SECOND, UNSET_NS]))
    assert (found.messages, sum(found.counts)) == (3, 2)
    assert (found.first_ns, found.last_ns) == (BEGIN_NS, BEGIN_NS + SECOND)


def test_publish_times_that_are_the_recording_times_measure_nothing() -> None:
    assert figures(rows([BEGIN_NS, BEGIN_NS + SECOND])).latency is None


def test_sequences_that_are_missing_count_within_a_file_and_a_priority() -> None:
    publish = [BEGIN_NS + at for at in range(8)]
    found = figures(
        rows(publish, sequence=[1, 2, 5, 1, 9, 10, 3, 4], band=[0, 0, 0, 3, 0, 0, 3, 0]), bases=(0, 4)
    )  # 3, 4 of priority 0 in the first file; then it begins again at 4
    assert (found.lost, [(jump.at_ns, jump.lost) for jump in found.jumps]) == (2, [(BEGIN_NS + 2, 2)])


def test_what_was_carried_over_does_not_count(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        channel = maker.channel("t")
        maker.write(channel, 0, b"old", flags=CARRIED)
        maker.write(channel, MS, b"new")
    with Recording(maker.path) as recording:
        gathered = Gathered()
        gathered.add(recording, numbered(recording), 0)
        ((topic, found),) = gathered.topics()
    assert (topic, found["place"].tolist(), found["size"].tolist()) == ("t", [1], [3])


def test_messages_of_several_topics_in_a_chunk_are_kept_apart(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        channels = [maker.channel(name) for name in ("b", "a")]
        for at in range(10):
            maker.write(channels[at % 3 > 0], at * MS, bytes(at))
    with Recording(maker.path) as recording:
        gathered = Gathered()
        gathered.add(recording, numbered(recording), 100)
        found = {topic: found["place"].tolist() for topic, found in gathered.topics()}
    assert found == {"a": [101, 102, 104, 105, 107, 108], "b": [100, 103, 106, 109]}


def test_a_regular_topic_that_dies_is_silent_until_the_end(tmp_path: Path) -> None:
    topics = {one.topic: one for one in made.facts(made.night(tmp_path / "a.mcap")).topics}
    last = BEGIN_NS + 7900 * MS
    assert topics["dies"].silences == (Silence(last, BEGIN_NS + 20 * SECOND, "end"),)
    assert topics["breaks"].silences == (Silence(BEGIN_NS + 4900 * MS, BEGIN_NS + 9 * SECOND, "between"),)
    assert topics["fine"].silences == ()


def run(path: Path, begin: int, topics: dict[str, int], known: str = "[]") -> Path:
    """A recording of 20 seconds from a second on, of topics that send ten messages a second until another second."""
    with Maker(path) as maker:
        for topic, until in topics.items():
            channel = maker.channel(topic)
            for at in range(begin * SECOND, until * SECOND, 100 * MS):
                maker.write(channel, at + made.LATENCY, b"x", published=at)
        ends = {"started_ns": str(BEGIN_NS + begin * SECOND), "ended_ns": str(BEGIN_NS + (begin + 20) * SECOND)}
        maker.writer.metadata("rtmw.recorder", made.told(known=known, **ends))
    return path


# Proves G150.
def test_a_topic_that_no_later_run_knew_is_expected_until_its_own_run_ended(tmp_path: Path) -> None:
    first = run(tmp_path / "a_0.mcap", 0, {"stays": 20, "ended": 20, "died": 12, "paused": 20})
    later = run(tmp_path / "b_0.mcap", 3600, {"stays": 3620, "new": 3620, "paused": 3605}, '["new", "stays"]')
    topics = {one.topic: one for one in made.facts(first, later, deadline=2.0).topics}
    assert {name: topics[name].silences for name in ("stays", "ended", "new")} == {"stays": (), "ended": (), "new": ()}
    assert {name: one.deadline.misses for name, one in topics.items() if one.deadline} == {
        "stays": 0, "ended": 0, "new": 0, "died": 1, "paused": 1,
    }  # fmt: skip
    assert topics["died"].silences == (Silence(BEGIN_NS + 11900 * MS, BEGIN_NS + 20 * SECOND, "end"),)
    assert topics["paused"].silences == (Silence(BEGIN_NS + 3604900 * MS, BEGIN_NS + 3620 * SECOND, "end"),)


# Proves G150.
def test_files_of_one_run_are_judged_together_also_the_last_one_of_a_recorder_that_was_killed(tmp_path: Path) -> None:
    first = run(tmp_path / "a_0.mcap", 0, {"stays": 20, "died": 20})
    with Maker(tmp_path / "a_1.mcap") as maker:
        made.regular(maker, maker.channel("stays"), until=60 * SECOND, without=range(20 * SECOND))
    topics = {one.topic: one for one in made.facts(first, maker.path).topics}
    assert topics["died"].silences == (Silence(BEGIN_NS + 19900 * MS, BEGIN_NS + 59900 * MS + made.LATENCY, "end"),)


def test_a_topic_that_was_never_regular_is_silent_only_if_it_is_so_for_long() -> None:
    bursts = [BEGIN_NS + second * SECOND + at for second in (0, 3, 4, 9, 10) for at in (0, MS, 2 * MS)]
    assert figures(rows(bursts)).silences == (Silence(bursts[-1], GRID.until_ns, "end"),)
    short = Grid(BEGIN_NS, BEGIN_NS + 30 * SECOND, SECOND)
    assert figures(rows(bursts), short).silences == ()


def test_a_deadline_counts_until_the_end_and_for_known_topics_from_the_beginning() -> None:
    grid = Grid(BEGIN_NS, BEGIN_NS + 10 * SECOND, SECOND, 2 * SECOND)
    publish = [BEGIN_NS + at * SECOND for at in (3, 4, 7)]
    found = figures(rows(publish), grid).deadline
    assert found is not None
    assert (found.misses, found.longest_ns, found.over_ns) == (2, 3 * SECOND, 2 * SECOND)
    known = figures(rows(publish), grid, known=("t",)).deadline
    assert known is not None
    assert (known.misses, known.over_ns) == (3, 3 * SECOND)


def test_lifetimes_that_were_over_are_counted_with_the_worst() -> None:
    found = figures(
        rows([BEGIN_NS] * 4, log=[BEGIN_NS + 5] * 4, expires=[0, BEGIN_NS + 5, BEGIN_NS + 4, BEGIN_NS])
    ).lifetimes
    assert found is not None
    assert (found.messages, found.late, found.worst_ns) == (3, 2, 5)


def test_quantiles_are_values_that_were_seen() -> None:
    assert distribution(np.arange(0)) is None
    found = distribution(np.arange(1, 101))
    assert found == Distribution(100, 1, 50, 90, 99, 100, 100)
    assert distribution(np.array([5])) == Distribution(1, 5, 5, 5, 5, 5, 5)


@pytest.mark.parametrize(("seconds", "every"), [(0, 0.001), (10, 0.1), (121, 2), (86400, 1200), (10**9, 604800)])
def test_intervals_are_even_and_about_a_hundred(seconds: int, every: float) -> None:
    assert grid_of(BEGIN_NS, BEGIN_NS + seconds * SECOND, None, None).every_ns == round(every * SECOND)


def test_the_intervals_cover_the_recording_and_the_first_and_last_may_be_partial() -> None:
    grid = Grid(BEGIN_NS + 300 * MS, BEGIN_NS + 2 * SECOND, SECOND)
    assert (grid.count, [grid.is_partial(number) for number in range(3)]) == (3, [True, False, True])
    assert grid.begin_ns(0) == BEGIN_NS


def test_intervals_that_are_too_short_are_refused_with_what_would_do() -> None:
    with pytest.raises(ValueError, match=r"3600\.000 s in intervals of 0\.001 s are too many .* take 1 s or more"):
        grid_of(BEGIN_NS, BEGIN_NS + 3600 * SECOND, 0.001, None)
