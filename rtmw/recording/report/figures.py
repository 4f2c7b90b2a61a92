"""The figures of a topic in a report: made once, by `measure`, however its messages were gathered."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


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
