"""What is measured: a case of a question, and the figures that one play of it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.stage import Stage

RTMW = "rtmw"
SPIN, FUTEX, MEMCPY, HANDOVER = "C spin", "C futex", "C memcpy", "C handover"
SOCKETPAIR, MSGSPEC = "socketpair", "msgspec"
MCAP, WRITE = "mcap", "write"
PARQUET, FORMAT, ONE_PROCESSOR = "Spark, Parquet", 'rtmw, format("rtmw")', "rtmw, one processor"
READY = "Spark, ready batches"
BY_HAND = "rtmw, two topics by hand"
ONE_SUBSCRIBER = "rtmw, one Subscriber"
SLEEP = "time.sleep"
RTMW_BATCHES = "rtmw, batches"
RECORDING = "rtmw, a recording"
RTMW_C, FDATASYNC, PAGE_CACHE = "rtmw, from C", "C fdatasync", "C page cache"
GROUP_COMMIT = "C group commit"
PREPARED, GROWING = "write + fdatasync, filled ahead", "write + fdatasync, growing"


@dataclass(frozen=True)
class Case:
    """One thing to measure, for several systems in turn."""

    name: str
    systems: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    beside: tuple[str, ...] = ()
    """What a play of one of the systems measures along with it."""


@dataclass(frozen=True)
class Figures:
    """What one play gives: a value in the question's unit, and how single messages are spread around it."""

    value: float
    percentiles: dict[str, float] = field(default_factory=dict[str, float])
    note: str = ""


class Question(Protocol):
    """A module of bench/questions."""

    TITLE: str
    UNIT: str
    # ROUNDS: int, if there are to be fewer rounds of it than of the others

    def cases(self, quick: bool) -> Sequence[Case]: ...

    def measure(self, stage: Stage, system: str, case: Case) -> dict[str, Figures]:
        """Figures by system: one play may measure several at once."""
        ...


class CannotMeasure(Exception):
    """In plain words, why."""
