"""The figures of a topic, from its columns. All of them are whole numbers, so that no order of rows changes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from rtmw.recording.report.figures import Deadline, Distribution, Instant, Jump, Lifetimes, Silence, TopicFigures
from rtmw.recording.report.gather import UNNUMBERED, TopicColumns
from rtmw.recording.times import UNSET_NS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.report.grid import Grid, Run

    Numbers = NDArray[np.int64]
    _Number = TypeVar("_Number", bound=np.integer[Any])

MOST_EVENTS: Final = 20
"""Silences and jumps that are kept of a topic."""
FEWEST: Final = 10
"""Messages from which on a topic has a usual gap."""
REGULAR: Final = 4
"""A topic is regular if nine of ten gaps are at most REGULAR times the median gap."""
UNUSUAL: Final = 10
"""A silence of a regular topic is told from UNUSUAL times the gap that nine of ten gaps do not exceed. Other topics
have only their silence at the end told, from half as many times their longest gap."""
SHORTEST_NS: Final = 1_000_000_000
"""A silence that is shorter is not told, unless a deadline says so."""
BLOCK: Final = 1 << 20
"""Messages that are counted at a time."""
SLACK_NS: Final = 1_000_000_000
"""A message may have been published so long before the first one was recorded, and by a clock that is ahead."""


@dataclass(frozen=True)
class Measuring:
    """The parameters of a measurement that are the same for all topics."""

    grid: Grid
    runs: tuple[Run, ...]
    """When recorders ran, by their begin."""
    bases: tuple[int, ...]
    """The number of the first message of each file: sequences follow each other within a file."""

    def figures(self, topic: str, rows: TopicColumns) -> TopicFigures:
        """Returns the figures of a topic with at least one message; its rows may come in any order.

        Columns are as long as the topic has messages, so that few are held at a time.
        """
        rows = in_order(rows)
        at, clock = self._moments(rows)
        count, jumps = self._jumps(rows)
        latency, latencies = self._latency(rows)
        counts, sizes = self._by_interval(at), self._by_interval(at, rows["size"])
        times = at if at.max() < UNSET_NS else at[at != UNSET_NS]
        times.sort()
        gaps = np.diff(times)
        usual = np.sort(gaps)
        self._leave_out_unrecorded(times, gaps)
        silences = self._silences(topic, times, gaps, usual)
        return TopicFigures(
            topic=topic,
            messages=len(at),
            bytes=int(rows["size"].sum()),
            clock=clock,
            first_ns=int(times[0]) if len(times) else 0,
            last_ns=int(times[-1]) if len(times) else 0,
            gaps=distribution(usual),
            jitter_p99=jitter(usual, 0.99),
            latency=latency,
            lifetimes=lifetimes(rows),
            lost=count,
            jumps=jumps,
            counts=counts,
            sizes=sizes,
            latencies=latencies,
            silences=tuple(silences[:MOST_EVENTS]),
            silence_count=len(silences),
            deadline=self._deadline(topic, times, gaps),
        )

    def _moments(self, rows: TopicColumns) -> tuple[Numbers, str]:
        """When messages were published; of a topic most of which was published at other times, when they were recorded.
        A column of its own.
        """
        published = rows["publish"].copy()
        unset = published == UNSET_NS
        if unset.any():
            published[unset] = rows["log"][unset]
        is_published = 2 * np.count_nonzero(self._inside(published)) >= len(published)
        return (published, "published") if is_published else (rows["log"].copy(), "recorded")

    def _inside(self, times: Numbers) -> NDArray[np.bool_]:
        return (times >= self.grid.since_ns - SLACK_NS) & (times <= self.grid.until_ns + SLACK_NS)

    def _interval(self, times: Numbers) -> Numbers:
        """Numbers of the intervals of times that are inside."""
        found = times // self.grid.every_ns
        found -= self.grid.first
        return np.clip(found, 0, self.grid.count - 1, out=found)

    def _by_interval(self, times: Numbers, values: Numbers | None = None) -> tuple[int, ...]:
        """Sums of each interval, or numbers of messages; what lies outside of the recording is in none."""
        sums = np.zeros(self.grid.count, np.int64)
        for begin in range(0, len(times), BLOCK):
            block = times[begin : begin + BLOCK]
            inside = self._inside(block)
            added = 1 if values is None else values[begin : begin + BLOCK][inside]
            np.add.at(sums, self._interval(block[inside]), added)
        return tuple(sums.tolist())

    def _latency(self, rows: TopicColumns) -> tuple[Distribution | None, tuple[Instant, ...]]:
        """Messages from before the recorder began were kept for it: they took no time. Where every publish time is the
        recording time, nobody has measured.
        """
        at, took = self._taken(rows)
        if not took.any():
            return None, ()
        number = self._interval(at)
        if (number[1:] < number[:-1]).any():
            order = np.argsort(number, kind="stable")
            number, took = number[order], took[order]
        starts = np.concatenate([[0], np.flatnonzero(number[1:] != number[:-1]) + 1])
        counts = np.diff(starts, append=len(number))
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            took[start : start + count].sort()
        picked = [took[starts + ranks(counts, share)].tolist() for share in (0.5, 0.99, 1.0)]
        took.sort()
        return distribution(took), tuple(map(Instant, number[starts].tolist(), *picked))

    def _taken(self, rows: TopicColumns) -> tuple[Numbers, Numbers]:
        """When messages were published while the recorder ran, and how long they took to it."""
        at, log = rows["publish"], rows["log"]
        whole = (log != UNSET_NS) & self._inside(at)
        return chosen(at, whole), chosen(log - at, whole)

    def _jumps(self, rows: TopicColumns) -> tuple[int, tuple[Jump, ...]]:
        """Sequences are dense within a priority; one that goes back is of a topic that began again."""
        numbered = rows["band"] != UNNUMBERED
        run, sequence = chosen(self._runs(rows), numbered), chosen(rows["sequence"], numbered)
        order = None
        if (run[1:] < run[:-1]).any():
            order = np.argsort(run, kind="stable")
            run, sequence = run[order], sequence[order]
        lost = np.diff(sequence)
        lost -= 1
        lost[(run[1:] != run[:-1]) | (lost < 0)] = 0
        found = np.flatnonzero(lost)
        largest = found[np.argsort(-lost[found], kind="stable")][:MOST_EVENTS]
        behind = largest + 1 if order is None else order[largest + 1]
        at = chosen(rows["log"], numbered)[behind]
        return int(lost.sum()), tuple(map(Jump, at.tolist(), lost[largest].tolist()))

    def _runs(self, rows: TopicColumns) -> NDArray[np.int32]:
        """A number for each file and priority, whose sequences follow each other."""
        if len(self.bases) == 1:
            return rows["band"].astype(np.int32)
        run = np.searchsorted(np.asarray(self.bases), rows["place"], side="right")
        run <<= 8
        run |= rows["band"]
        return run.astype(np.int32)

    def _open_ends(self, topic: str, times: Numbers) -> list[Silence]:
        """Returns the silences behind the last message, and for known topics before the first, in the runs that knew
        the topic."""
        ends: list[Silence] = []
        until_ns = max((run.until_ns for run in self.runs if topic in run.topics), default=self.grid.until_ns)
        since_ns = min((run.since_ns for run in self.runs if topic in run.known), default=None)
        if len(times) and times[-1] < until_ns:
            ends.append(Silence(int(times[-1]), until_ns, "end"))
        if len(times) and since_ns is not None and times[0] > since_ns:
            ends.append(Silence(since_ns, int(times[0]), "begin"))
        return ends

    def _leave_out_unrecorded(self, times: Numbers, gaps: Numbers) -> None:
        """Shortens gaps by the time in which no recorder ran."""
        until_ns = self.runs[0].until_ns if self.runs else 0
        for run in self.runs[1:]:
            row = int(np.searchsorted(times, until_ns, side="right")) - 1
            if run.since_ns > until_ns and 0 <= row < len(gaps) and times[row + 1] >= run.since_ns:
                gaps[row] -= run.since_ns - until_ns
            until_ns = max(until_ns, run.until_ns)

    def _silences(self, topic: str, times: Numbers, gaps: Numbers, usual: Numbers) -> list[Silence]:
        """`usual`: the gaps, ordered."""
        between, at_end = self._limits(usual)
        found = [one for one in self._open_ends(topic, times) if at_end and one.end_ns - one.begin_ns > at_end]
        for row in np.flatnonzero(gaps > between) if between else ():
            found.append(Silence(int(times[row]), int(times[row + 1]), "between"))
        return sorted(found, key=lambda one: (one.begin_ns - one.end_ns, one.begin_ns))

    def _limits(self, ordered: Numbers) -> tuple[int, int]:
        """How long a silence is worth telling between two messages, and at an end; 0: however long, it is not."""
        if self.grid.deadline_ns is not None:
            return self.grid.deadline_ns, self.grid.deadline_ns
        if len(ordered) + 1 < FEWEST:
            return 0, 0
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


def in_order(rows: TopicColumns) -> TopicColumns:
    """Returns the rows by the numbers of their messages. It copies none if they are in order: a copy would be the
    largest of a report."""
    place = rows["place"]
    if (place[1:] > place[:-1]).all():
        return rows
    order = np.argsort(place, kind="stable")
    return {name: column[order] for name, column in rows.items()}


def chosen(column: NDArray[_Number], rows: NDArray[np.bool_]) -> NDArray[_Number]:
    """The column itself where all rows are: a copy would be as large."""
    return column if rows.all() else column[rows]


def lifetimes(rows: TopicColumns) -> Lifetimes | None:
    has = (rows["expires"] != 0) & (rows["log"] != UNSET_NS)
    if not np.count_nonzero(has):
        return None
    over = (rows["log"] - rows["expires"])[has]
    return Lifetimes(len(over), int(np.count_nonzero(over > 0)), max(int(over.max()), 0))


def ranks(counts: Numbers, share: float) -> Numbers:
    """Returns the place, from 0, of the quantile `share` among ordered values, for each number of values in
    `counts`: the smallest value that at least this share of all does not exceed."""
    found: Numbers = np.maximum(np.ceil(share * counts).astype(np.int64) - 1, 0)
    return found


def quantile(ordered: Numbers, share: float) -> int:
    return int(ordered[ranks(np.asarray([len(ordered)]), share)[0]])


def distribution(ordered: Numbers) -> Distribution | None:
    """Returns the distribution of ordered values; None: there are none."""
    if not len(ordered):
        return None
    p50, p90, p99, p999 = (quantile(ordered, share) for share in (0.5, 0.9, 0.99, 0.999))
    return Distribution(len(ordered), int(ordered[0]), p50, p90, p99, p999, int(ordered[-1]))


def jitter(ordered: Numbers, share: float) -> int:
    """How far ordered values are from their median; 0: there is none."""
    if not len(ordered):
        return 0
    away = ordered - quantile(ordered, 0.5)
    np.abs(away, out=away).sort()
    return quantile(away, share)
