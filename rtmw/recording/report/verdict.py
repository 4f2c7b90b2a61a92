"""Pass, warn or fail, each with its reason: what somebody who is called at night reads first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from rtmw.recording.contents import Cause
from rtmw.recording.versions import some
from rtmw.text.units import counted, duration

if TYPE_CHECKING:
    from rtmw.recording.report.facts import Facts


class Level(IntEnum):
    """How bad it is."""

    PASS = 0
    WARN = 1
    FAIL = 2

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    level: Level
    reason: str


Found = tuple[Level, str]

EXPECTED: Final = {cause.name.lower() for cause in (Cause.EXPIRED, Cause.PAUSED, Cause.EARLY)}
"""Causes for which nothing has failed: a setting, or a command, asked for it."""
_NAMED: Final = 3
"""Topics that a reason names."""


def verdict(facts: Facts) -> tuple[Check, ...]:
    """All checks, in the order in which they should be read: the worst first."""
    checks = [
        _judged(name, look(facts)) for name, look in CHECKS.items() if look is not _deadline or facts.has_deadline
    ]
    return tuple(sorted(checks, key=lambda check: -check.level))


def worst(checks: Sequence[Check]) -> Level:
    return max((check.level for check in checks), default=Level.PASS)


def _judged(name: str, found: Iterator[Found]) -> Check:
    """The worst level of what was found; its reasons as sentences."""
    reasons = sorted(found, key=lambda one: -one[0])
    if not reasons:
        return Check(name, Level.PASS, GOOD[name])
    return Check(name, reasons[0][0], "; ".join(reason for _, reason in reasons))


def _files(facts: Facts) -> Iterator[Found]:
    for sentence in (*facts.contents.unreadable, *facts.damage):
        yield Level.FAIL, sentence
    for file in facts.contents.files:
        if file.info.unknown_missing:
            where = counted(file.info.unknown_missing, "side record")
            yield Level.FAIL, f"{file.info.path.name}: {where} damaged, so what is missing there is not known"


def _disk(facts: Facts) -> Iterator[Found]:
    for file in facts.contents.files:
        if file.info.failed:
            yield Level.FAIL, f"{file.info.path.name}: the disk ended the recorder: {file.info.failed}"


def _complete(facts: Facts) -> Iterator[Found]:
    for file in facts.contents.files:
        if not file.info.complete:
            yield Level.WARN, f"{file.info.path.name}: {file.info.incomplete_because}"


def _messages(facts: Facts) -> Iterator[Found]:
    if not facts.contents.run.messages:
        yield Level.WARN, "there is no message"


def _missing(facts: Facts) -> Iterator[Found]:
    causes: dict[str, Counter[str]] = {}
    for topic in facts.contents.run.topics:
        for cause, count in topic.missing.items():
            causes.setdefault(cause, Counter())[topic.topic] += count
    for cause, topics in causes.items():
        level = Level.WARN if cause in EXPECTED else Level.FAIL
        yield level, f"{counted(topics.total(), 'message')} {cause.replace('_', ' ')} ({_most(topics)})"


def _sequences(facts: Facts) -> Iterator[Found]:
    unexplained = Counter({one.topic: one.lost - facts.missing_of(one.topic) for one in facts.topics})
    left = +unexplained
    if left:
        yield Level.WARN, f"{left.total():,} sequence numbers are missing, and no cause was counted ({_most(left)})"


def _silence(facts: Facts) -> Iterator[Found]:
    never = facts.never_heard
    if never:
        yield Level.WARN, f"without a message: {some(never[:_NAMED])}{_and_more(len(never))}"
    dead = {one.topic: one.silences for one in facts.topics}
    ends = {t: s.seconds for t, found in dead.items() for s in found if s.place == "end"}
    if ends:
        told = [f"{topic} for the last {duration(ends[topic])}" for topic in sorted(ends, key=lambda t: -ends[t])]
        yield Level.WARN, f"silent: {some(told[:_NAMED])}{_and_more(len(told))}"
    longest = {t: max(s.seconds for s in found if s.place != "end") for t, found in dead.items()
               if any(s.place != "end" for s in found)}  # fmt: skip
    if longest:
        told = [f"{topic} for {duration(longest[topic])}" for topic in sorted(longest, key=lambda t: -longest[t])]
        yield Level.WARN, f"interrupted: {some(told[:_NAMED])}{_and_more(len(told))}"


def _deadline(facts: Facts) -> Iterator[Found]:
    misses = Counter({one.topic: one.deadline.misses for one in facts.topics if one.deadline is not None})
    missed = +misses
    if missed:
        yield Level.FAIL, f"{missed.total():,} times nothing came in time ({_most(missed)})"


def _lifetimes(facts: Facts) -> Iterator[Found]:
    late = +Counter({one.topic: one.lifetimes.late for one in facts.topics if one.lifetimes is not None})
    if late:
        yield Level.WARN, f"{counted(late.total(), 'message')} recorded after the end of the lifetime ({_most(late)})"


def _clocks(facts: Facts) -> Iterator[Found]:
    ahead = {one.topic: -one.latency.least / 1e9 for one in facts.topics if one.latency and one.latency.least < 0}
    if ahead:
        first = max(ahead, key=lambda topic: ahead[topic])
        yield (
            Level.WARN,
            (
                f"{first} was published {duration(ahead[first])} after it was recorded: "
                f"the publisher's clock is ahead of the recorder's{_and_more(len(ahead), 1)}"
            ),
        )


def _types(facts: Facts) -> Iterator[Found]:
    problems = {topic.topic: topic.problem for topic in facts.contents.run.topics if topic.problem}
    for topic, problem in sorted(problems.items())[:_NAMED]:
        yield Level.WARN, f"{topic} cannot be read as columns: {problem}"
    changed = sorted(facts.changed)
    if changed:
        yield Level.WARN, f"the type changed: {some(changed[:_NAMED])}{_and_more(len(changed))}"


def _most(topics: Counter[str]) -> str:
    if len(topics) == 1:
        return next(iter(topics))
    told = [f"{topic} {count:,}" for topic, count in topics.most_common(_NAMED)]
    return ", ".join(told) + _and_more(len(topics))


def _and_more(count: int, told: int = _NAMED) -> str:
    return f" and {count - told} more" if count > told else ""


CHECKS: Final[dict[str, Callable[[Facts], Iterator[Found]]]] = {
    "files": _files,
    "disk": _disk,
    "complete": _complete,
    "messages": _messages,
    "missing": _missing,
    "sequences": _sequences,
    "silence": _silence,
    "deadline": _deadline,
    "lifetimes": _lifetimes,
    "clocks": _clocks,
    "types": _types,
}
"""The checks by name, as `--fail-on` takes them."""

GOOD: Final = {
    "files": "every chunk that was read is as its CRC says",
    "disk": "the disk took all that it was given",
    "complete": "each file has its end",
    "messages": "there are messages",
    "missing": "no recorder missed a message",
    "sequences": "no sequence number is missing without a cause",
    "silence": "no topic fell silent",
    "deadline": "each message came in time",
    "lifetimes": "no message was recorded after the end of its lifetime",
    "clocks": "no message was recorded before it was published",
    "types": "each topic has one type, which can be read",
}
"""The meaning of a check that passed, by its name."""
