"""The figures of a topic, from its columns. All of them are whole numbers, so that no order of rows changes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rtmw.recording.report.figures import Deadline, Instant, Jump, Lifetimes, Silence, Spread, TopicFigures
from rtmw.recording.report.gather import UNNUMBERED, Rows
from rtmw.recording.times import UNSET_NS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.report.grid import Grid

    Numbers = NDArray[np.int64]

MOST_EVENTS: Final = 20
"""Silences and jumps that are kept of a topic."""
FEWEST: Final = 10
"""Messages from which on a topic has a usual gap."""
REGULAR: Final = 4
"""A topic is regular if nine of ten gaps are at most so many medians."""
UNUSUAL: Final = 10
"""Of a regular topic, a silence of so many such gaps is told; of another one, at the end, half as many longest gaps."""
SHORTEST_NS: Final = 1_000_000_000
"""A silence that is shorter is not told, unless a deadline says so."""
SLACK_NS: Final = 1_000_000_000
"""A message may have been published so long before the first one was recorded, and by a clock that is ahead."""


@dataclass(frozen=True)
class Measuring:
    """What is the same for all topics."""

    grid: Grid
    known: frozenset[str]
    """Topics that were there, or were named, when the recorder began: silence before their first message counts."""
    bases: tuple[int, ...]
    """The number of the first message of each file: sequences follow each other within a file."""

    def figures(self, topic: str, rows: Rows) -> TopicFigures:
        """Of a topic with at least one message; its rows may come in any order."""
        rows = in_order(rows)
        published = published_of(rows)
        is_published = bool(2 * np.count_nonzero(self._inside(published)) >= len(published))
        at = published if is_published else rows["log"]
        times = np.sort(at[at != UNSET_NS])
        gaps, (count, jumps) = np.diff(times), self._jumps(rows)
        first, last = (int(times[0]), int(times[-1])) if len(times) else (0, 0)
        silences = self._silences(topic, times, gaps)
        latency, latencies = self._latency(rows)
        return TopicFigures(
            topic=topic,
            messages=len(at),
            bytes=int(rows["size"].sum()),
            clock="published" if is_published else "recorded",
            first_ns=first,
            last_ns=last,
            gaps=spread(gaps),
            jitter_p99=quantile(np.sort(np.abs(gaps - quantile(np.sort(gaps), 0.5))), 0.99) if len(gaps) else 0,
            latency=latency,
            lifetimes=lifetimes(rows),
            lost=count,
            jumps=jumps,
            counts=self._by_interval(at, np.ones_like(at)),
            sizes=self._by_interval(at, rows["size"]),
            latencies=latencies,
            silences=tuple(silences[:MOST_EVENTS]),
            silence_count=len(silences),
            deadline=self._deadline(topic, times, gaps),
        )

    def _inside(self, times: Numbers) -> NDArray[np.bool_]:
        return (times >= self.grid.since_ns - SLACK_NS) & (times <= self.grid.until_ns + SLACK_NS)

    def _interval(self, times: Numbers) -> Numbers:
        """Numbers of the intervals of times that are inside."""
        found: Numbers = np.clip(times // self.grid.every_ns - self.grid.first, 0, self.grid.count - 1)
        return found

    def _by_interval(self, times: Numbers, values: Numbers) -> tuple[int, ...]:
        """Sums of each interval; what lies outside of the recording is in none."""
        inside = self._inside(times)
        sums = np.zeros(self.grid.count, np.int64)
        np.add.at(sums, self._interval(times[inside]), values[inside])
        return tuple(sums.tolist())

    def _latency(self, rows: Rows) -> tuple[Spread | None, tuple[Instant, ...]]:
        """Messages from before the recorder began were kept for it: they took no time. Where every publish time is the
        recording time, nobody has measured.
        """
        published = rows["publish"]
        whole = (rows["log"] != UNSET_NS) & self._inside(published)
        at, took = published[whole], (rows["log"] - published)[whole]
        if not np.count_nonzero(took):
            return None, ()
        number = self._interval(at)
        order = np.lexsort((took, number))
        intervals, starts, counts = np.unique(number[order], return_index=True, return_counts=True)
        ordered = took[order]
        picked = [ordered[starts + ranks(counts, share)].tolist() for share in (0.5, 0.99, 1.0)]
        return spread(took), tuple(map(Instant, intervals.tolist(), *picked))

    def _jumps(self, rows: Rows) -> tuple[int, tuple[Jump, ...]]:
        """Sequences are dense within a priority; one that goes back is of a topic that began again."""
        numbered = rows["band"] != UNNUMBERED
        place, band = rows["place"][numbered], rows["band"][numbered].astype(np.int64)
        file = np.searchsorted(np.asarray(self.bases), place, side="right")
        key = file << 8 | band
        order = np.argsort(key, kind="stable")
        same = key[order][1:] == key[order][:-1]
        lost = np.diff(rows["sequence"][numbered][order]) - 1
        lost[~same | (lost < 0)] = 0
        found, at = np.flatnonzero(lost), rows["log"][numbered][order][1:]
        largest = found[np.argsort(-lost[found], kind="stable")][:MOST_EVENTS]
        return int(lost.sum()), tuple(Jump(int(at[row]), int(lost[row])) for row in largest)

    def _open_ends(self, topic: str, times: Numbers) -> list[Silence]:
        """Behind the last message, and of known topics before the first."""
        ends: list[Silence] = []
        if len(times) and times[-1] < self.grid.until_ns:
            ends.append(Silence(int(times[-1]), self.grid.until_ns, "end"))
        if len(times) and topic in self.known and times[0] > self.grid.since_ns:
            ends.append(Silence(self.grid.since_ns, int(times[0]), "begin"))
        return ends

    def _silences(self, topic: str, times: Numbers, gaps: Numbers) -> list[Silence]:
        between, at_end = self._limits(gaps)
        found = [one for one in self._open_ends(topic, times) if at_end and one.end_ns - one.begin_ns > at_end]
        for row in np.flatnonzero(gaps > between) if between else ():
            found.append(Silence(int(times[row]), int(times[row + 1]), "between"))
        return sorted(found, key=lambda one: (one.begin_ns - one.end_ns, one.begin_ns))

    def _limits(self, gaps: Numbers) -> tuple[int, int]:
        """How long a silence is worth telling between two messages, and at an end; 0: however long, it is not."""
        if self.grid.deadline_ns is not None:
            return self.grid.deadline_ns, self.grid.deadline_ns
        if len(gaps) + 1 < FEWEST:
            return 0, 0
        ordered = np.sort(gaps)
        median, usual = quantile(ordered, 0.5), quantile(ordered, 0.9)
        if usual <= REGULAR * median:
            limit = max(UNUSUAL * usual, SHORTEST_NS)
            return limit, limit
        return 0, max(UNUSUAL // 2 * int(ordered[-1]), SHORTEST_NS)

    def _deadline(self, topic: str, times: Numbers, gaps: Numbers) -> Deadline | None:
        limit = self.grid.deadline_ns
        if limit is None:
            return None
        ends = [one.end_ns - one.begin_ns for one in self._open_ends(topic, times)]
        every = np.concatenate([gaps, np.asarray(ends, np.int64)])
        over = np.maximum(every - limit, 0)
        return Deadline(int(np.count_nonzero(over)), int(every.max(initial=0)), int(over.sum()))


def in_order(rows: Rows) -> Rows:
    """By the numbers of the messages; without a copy, which would be the largest of a report, where they are so."""
    place = rows["place"]
    if (place[1:] > place[:-1]).all():
        return rows
    order = np.argsort(place, kind="stable")
    return {name: column[order] for name, column in rows.items()}


def published_of(rows: Rows) -> Numbers:
    """When messages were published; where nobody says it, when they were recorded."""
    return np.where(rows["publish"] == UNSET_NS, rows["log"], rows["publish"])


def lifetimes(rows: Rows) -> Lifetimes | None:
    has = (rows["expires"] != 0) & (rows["log"] != UNSET_NS)
    if not np.count_nonzero(has):
        return None
    over = (rows["log"] - rows["expires"])[has]
    return Lifetimes(len(over), int(np.count_nonzero(over > 0)), max(int(over.max()), 0))


def ranks(counts: Numbers, share: float) -> Numbers:
    """Of so many ordered values, the place of the smallest that the share of all does not exceed."""
    found: Numbers = np.maximum(np.ceil(share * counts).astype(np.int64) - 1, 0)
    return found


def quantile(ordered: Numbers, share: float) -> int:
    return int(ordered[ranks(np.asarray([len(ordered)]), share)[0]])


def spread(values: Numbers) -> Spread | None:
    if not len(values):
        return None
    ordered = np.sort(values)
    p50, p90, p99, p999 = (quantile(ordered, share) for share in (0.5, 0.9, 0.99, 0.999))
    return Spread(len(ordered), int(ordered[0]), p50, p90, p99, p999, int(ordered[-1]))
