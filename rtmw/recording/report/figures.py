"""The figures of a topic in a report, from columns that have all that it counts of messages, and no payload.

All of them are whole numbers, so that no order of rows changes them, however the messages were gathered. Plots have
even intervals of the span of the report.

Gathered columns of whole numbers are kept in few bytes, a piece for each chunk: the numbers of a chunk lie close
together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from rtmw.errors import RecordingError
from rtmw.recording.batch import CARRIED
from rtmw.recording.contents import UNSET_NS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.batch import Batch
    from rtmw.recording.contents import Chunk
    from rtmw.recording.recording import Recording

    Column = NDArray[Any]
    Numbers = NDArray[np.int64]
    _Number = TypeVar("_Number", bound=np.integer[Any])


NS: Final = 1_000_000_000
POINTS: Final = 120
"""Intervals that a plot has about, if nobody says how long one is."""
MOST_POINTS: Final = 5000
STEPS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200,
                1800, 3600, 7200, 14400, 21600, 43200, 86400, 604800)  # fmt: skip
"""Seconds of an interval that people find even."""


@dataclass(frozen=True)
class Grid:
    """From when to when was recorded, and how long an interval is. Intervals are counted from 1970."""

    since_ns: int
    until_ns: int
    """The last moment of the recording; the interval that has it is the last one."""
    every_ns: int
    deadline_ns: int | None = None
    """How long after a message the next one is expected; None: nobody said."""

    @property
    def first(self) -> int:
        """Number of the first interval."""
        return self.since_ns // self.every_ns

    @property
    def count(self) -> int:
        """How many intervals there are."""
        return self.until_ns // self.every_ns - self.first + 1

    @property
    def seconds(self) -> float:
        return (self.until_ns - self.since_ns) / NS

    def begin_ns(self, number: int) -> int:
        """When the interval of this number, from 0, begins."""
        return (self.first + number) * self.every_ns

    def is_partial(self, number: int) -> bool:
        """Did the recording begin or end within the interval?"""
        begin = self.begin_ns(number)
        return begin < self.since_ns or begin + self.every_ns > self.until_ns


@dataclass(frozen=True)
class Run:
    """From when to when one recorder recorded, into one file or several."""

    since_ns: int
    until_ns: int
    known: frozenset[str] = frozenset()
    """Topics that were there, or were named, when it began: silence before their first message counts."""
    topics: frozenset[str] = frozenset()
    """Topics that it knew at its end: silence behind their last message counts."""


def grid_of(since_ns: int, until_ns: int, every: float | None, deadline: float | None) -> Grid:
    """`every` and `deadline` in seconds. Raises ValueError for intervals so short that there would be too many."""
    seconds = max(until_ns - since_ns, 0) / NS
    if every is not None and seconds / every > MOST_POINTS:
        raise ValueError(
            f"{seconds:.3f} s in intervals of {every:g} s are too many for a plot; "
            f"take {even(seconds / MOST_POINTS):g} s or more"
        )
    chosen = even(seconds / POINTS) if every is None else every
    return Grid(
        since_ns, max(until_ns, since_ns), round(chosen * NS), None if deadline is None else round(deadline * NS)
    )


def even(seconds: float) -> float:
    """The interval that people find even, of at least so many seconds."""
    return next((float(step) for step in STEPS if step >= seconds), float(STEPS[-1]))


@dataclass(frozen=True)
class Distribution:
    """Values of a topic. Quantiles are nearest-rank: values that were really seen."""

    count: int
    least: int
    p50: int
    p90: int
    p99: int
    p999: int
    most: int


@dataclass(frozen=True)
class Instant:
    """The latencies of one interval, in nanoseconds."""

    interval: int
    p50: int
    p99: int
    most: int


@dataclass(frozen=True)
class Silence:
    """A time without a message that was longer than is usual, or than the deadline."""

    begin_ns: int
    end_ns: int
    place: str
    """`between` two messages, at the `end` behind the last one, or at the `begin` before the first one."""

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9


@dataclass(frozen=True)
class Jump:
    """Sequence numbers that no message of the recording has."""

    at_ns: int
    """When the message behind them was recorded."""
    lost: int


@dataclass(frozen=True)
class Lifetimes:
    """Messages that had a lifetime."""

    messages: int
    late: int
    """Messages whose lifetime was over before the recorder had them."""
    worst_ns: int
    """Nanoseconds by which one was late at most; 0 if none was."""


@dataclass(frozen=True)
class Deadline:
    """How often a message came later than the deadline after the one before, or not until the end."""

    misses: int
    longest_ns: int
    over_ns: int
    """All the time by which it was overrun."""


@dataclass(frozen=True)
class TopicFigures:
    """The figures of a topic in a report. Times are nanoseconds; no message that was carried over counts."""

    topic: str
    messages: int
    bytes: int
    clock: str
    """Which times count: `published`, or `recorded` where messages were published outside of the recording."""
    first_ns: int
    last_ns: int
    gaps: Distribution | None
    """Times from message to message; None: there are fewer than two messages."""
    jitter_p99: int
    """How far gaps are from their median."""
    latency: Distribution | None
    """Times from publishing to the recorder, of messages that were published while it recorded; None: they are not
    known."""
    lifetimes: Lifetimes | None
    lost: int
    """Sequence numbers between those of the messages."""
    jumps: tuple[Jump, ...]
    """The largest of them."""
    counts: tuple[int, ...]
    """Messages of each interval."""
    sizes: tuple[int, ...]
    """Bytes of each interval."""
    latencies: tuple[Instant, ...]
    """Latencies of the intervals that have any."""
    silences: tuple[Silence, ...]
    """The longest first, some at most."""
    silence_count: int
    deadline: Deadline | None

    @property
    def hz(self) -> float | None:
        """Intervals a second from the first message to the last; None: there is no time between them."""
        return (self.messages - 1) / ((self.last_ns - self.first_ns) / 1e9) if self.last_ns > self.first_ns else None

    def dumped(self) -> str:
        """Returns the figures as text, from which `loaded` makes equal ones, to the last digit."""
        return json.dumps(asdict(self))


def loaded(text: str) -> TopicFigures:
    """The figures in a text of `dumped`."""
    told: dict[str, Any] = json.loads(text)
    one: dict[str, Callable[..., Any]] = {
        "gaps": Distribution, "latency": Distribution, "lifetimes": Lifetimes, "deadline": Deadline,
    }  # fmt: skip
    several: dict[str, Callable[..., Any]] = {"jumps": Jump, "latencies": Instant, "silences": Silence}
    for name, kind in one.items():
        told[name] = None if told[name] is None else kind(**told[name])
    for name, kind in several.items():
        told[name] = tuple(kind(**each) for each in told[name])
    told["counts"], told["sizes"] = tuple(told["counts"]), tuple(told["sizes"])
    return TopicFigures(**told)


_NARROW: Final[dict[str, int]] = {"u1": 0xFF, "u2": 0xFFFF, "u4": 0xFFFFFFFF}
"""Kinds, each with its largest number."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A piece of a column: its least number, and how far each number lies above it."""

    least: int
    count: int
    above: Column | None
    """None: all numbers are the least one."""

    def unpack(self, into: Column) -> None:
        """`into`: as long as the piece, of the kind that the column has."""
        if self.above is None:
            into[:] = self.least
        else:
            np.add(self.above, self.least, out=into, dtype=into.dtype)


def packed(column: Column) -> Packed:
    """Packs a column, which has at least one number."""
    least, most = int(column.min()), int(column.max())
    if least == most:
        return Packed(least, len(column), None)
    kind = next((kind for kind, largest in _NARROW.items() if most - least <= largest), None)
    if kind is None:
        return Packed(0, len(column), column)
    return Packed(least, len(column), (column - least).astype(kind))


class PackedRows(Mapping[str, "Column"]):
    """The columns of a topic by name. Each look-up makes a column anew: hold it while it is used, and no longer."""

    def __init__(self, pieces: Sequence[Mapping[str, Packed]], kinds: Mapping[str, np.dtype[Any]]) -> None:
        self._pieces, self._kinds = pieces, kinds

    def __getitem__(self, name: str) -> Column:
        pieces = [piece[name] for piece in self._pieces]
        column, begin = np.empty(sum(piece.count for piece in pieces), self._kinds[name]), 0
        for piece in pieces:
            piece.unpack(column[begin : begin + piece.count])
            begin += piece.count
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


KINDS: Final[dict[str, np.dtype[Any]]] = {
    "place": np.dtype(np.int64),
    "publish": np.dtype(np.int64),
    "log": np.dtype(np.int64),
    "size": np.dtype(np.int64),
    "expires": np.dtype(np.int64),
    "band": np.dtype(np.uint8),
    "sequence": np.dtype(np.int64),
}
"""Columns of a topic: the number of the message among all of all files, its times in nanoseconds (`expires` 0: never),
the bytes of its payload, its priority (UNNUMBERED where sequences say nothing) and its sequence."""

UNNUMBERED: Final = 255
"""`band` of messages whose recorder does not number them densely."""

TopicColumns = Mapping[str, "Column"]


@dataclass
class Gathered:
    """Messages by topic, as they are read."""

    damage: list[str] = field(default_factory=list[str])
    """A sentence for each chunk that could not be read."""
    _pieces: dict[str, list[dict[str, Packed]]] = field(default_factory=dict[str, "list[dict[str, Packed]]"])

    def add(self, recording: Recording, chunks: Iterable[tuple[Chunk, int]], base: int) -> None:
        """Chunks, each with the number of its first message; `base`: messages of the files before. Raises OSError."""
        for chunk, first in chunks:
            try:
                batch = recording.read_stored(chunk)
            except RecordingError as error:
                self.damage.append(str(error))
                continue
            for topic, rows in by_topic(recording, batch, base + first):
                self._pieces.setdefault(topic, []).append({name: packed(rows[name]) for name in KINDS})

    def topics(self) -> Iterator[tuple[str, TopicColumns]]:
        """Each topic with its columns, by name; what was gathered of it is given away."""
        for topic in sorted(self._pieces):
            yield topic, PackedRows(self._pieces.pop(topic), KINDS)


def numbered(recording: Recording) -> Iterator[tuple[Chunk, int]]:
    """The chunks of a recording that have messages, each with the number of its first one."""
    first = 0
    for chunk in recording.chunks:
        if chunk.counts:
            yield chunk, first
        first += chunk.message_count


def by_topic(recording: Recording, batch: Batch, first: int) -> Iterator[tuple[str, dict[str, Column]]]:
    """The rows of a batch by channel, without what was carried over; `first` is the number of its first row."""
    columns = _columns(recording, batch, first)
    channel, keep = batch.channel, (batch.flags & CARRIED) == 0
    if len(batch.chunk.counts) == 1:
        order, bounds = np.flatnonzero(keep), {int(channel[0]): slice(None)} if len(channel) else {}
    else:
        order = np.argsort(channel, kind="stable")
        order = order[keep[order]]
        numbers, starts = np.unique(channel[order], return_index=True)
        ends = [*starts[1:].tolist(), len(order)]
        bounds = {int(n): slice(s, e) for n, s, e in zip(numbers, starts.tolist(), ends, strict=True)}
    for number, part in bounds.items():
        chosen = order[part]
        if len(chosen):
            yield recording.channels[number].topic, {name: column[chosen] for name, column in columns.items()}


def _columns(recording: Recording, batch: Batch, first: int) -> dict[str, Column]:
    count = len(batch)
    is_ours = recording.header.is_ours
    found = {
        "place": np.arange(first, first + count),
        "publish": batch.publish_time,
        "log": batch.log_time,
        "size": batch.size,
        "expires": batch.expires,
        "band": batch.priority if is_ours else np.full(count, UNNUMBERED),
        "sequence": batch.sequence if is_ours else np.zeros(count),
    }
    return {name: found[name].astype(kind, copy=False) for name, kind in KINDS.items()}


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
