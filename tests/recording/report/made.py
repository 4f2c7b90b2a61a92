"""Recordings for tests of reports, with what goes wrong in a night."""

from __future__ import annotations

import json
from pathlib import Path

from rtmw.recording.batch import CARRIED
from rtmw.recording.report.build import facts_of
from rtmw.recording.report.facts import Facts, contents_of
from rtmw.recording.report.verdict import Check, Level, verdict
from tests.recordings import BEGIN_NS, MS, SECOND, Maker

LATENCY = MS
END = 20 * SECOND


def told(**changes: str) -> dict[str, str]:
    """What a recorder says of itself at the end."""
    about = {"host": "plant-7", "version": "0.1.0", "started_ns": str(BEGIN_NS), "ended_ns": str(BEGIN_NS + END)}
    return about | {"known": "[]"} | changes


def regular(maker: Maker, channel: int, every: int = 100 * MS, until: int = END, without: range = range(0)) -> None:
    """A message in every such time, published a millisecond before it was recorded; none within `without`."""
    for at in range(0, until, every):
        if at not in without:
            maker.write(channel, at + LATENCY, b"12345678", published=at)


def night(path: Path) -> Path:
    """Twenty seconds with a topic that is fine, one that dies, one that is interrupted, and one that never comes."""
    with Maker(path) as maker:
        regular(maker, maker.channel("fine"))
        regular(maker, maker.channel("dies"), until=8 * SECOND)
        regular(maker, maker.channel("breaks"), without=range(5 * SECOND, 9 * SECOND))
        maker.writer.metadata("rtmw.recorder", told(known=json.dumps(["fine", "never"])))
    return path


def facts(*paths: Path, every: float | None = None, deadline: float | None = None) -> Facts:
    return facts_of(contents_of(paths), every=every, deadline=deadline)


def check(found: Facts, name: str) -> Check:
    """What the check of this name found."""
    return next(one for one in verdict(found) if one.name == name)


def bad(found: Facts) -> dict[str, Level]:
    """The checks that did not pass."""
    return {one.name: one.level for one in verdict(found) if one.level > Level.PASS}


__all__ = ["CARRIED", "bad", "check", "facts", "night", "regular", "told"]
