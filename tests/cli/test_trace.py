"""`rtmw trace`: how an event looks."""

from __future__ import annotations

from dataclasses import replace

from rtmw.cli.trace import line
from rtmw.observe import TraceEvent

TAKEN = TraceEvent(
    what="taken",
    topic="pump/speed",
    at_ns=1_700_000_000_123_456_789,
    pid=22,
    process="python panel.py",
    identity=22 << 32,
    priority=3,
    sequence=17,
    count=1,
    size=2048,
    publisher=11,
    latency=1.25e-6,
)


def test_an_event_says_when_what_which_where_and_how_long_it_took() -> None:
    stamp, rest = line(TAKEN).split("  ", 1)
    assert stamp.endswith(":20.123456")
    assert rest == "taken        pump/speed  #17  priority 3  2.0 KiB  at panel.py (22)  after 1.25 µs"
    assert "pump/speed" not in line(TAKEN, topic=False)


def test_messages_that_were_missed_together_are_named_by_the_first_and_the_last() -> None:
    missed = replace(TAKEN, what="missed", count=10, size=None, publisher=None, latency=None)
    assert line(missed).split("  ", 1)[1] == "missed       pump/speed  #8 to #17  priority 3  at panel.py (22)"


def test_what_was_refused_has_no_sequence() -> None:
    refused = replace(TAKEN, what="timed_out", sequence=None, size=None, latency=None)
    assert line(refused).split("  ", 1)[1] == "timed out    pump/speed  -  priority 3  by panel.py (22)"
