"""The headers of letters that go out together: what a call says is looked at once, and remembered."""

from __future__ import annotations

import math

import pytest

import rtmw
from rtmw.transfer.client.options import LETTER_HEADERS
from rtmw.transfer.header import Delivery, Header, Level
from rtmw.transfer.records import LARGEST_INLINE


def header_of(to: str = "ingest", length: int = 200, priority: int = 1, timeout: float | None = None) -> Header | None:
    return LETTER_HEADERS[to, length, Level.ACCEPTED, Delivery.NORMAL, priority, priority.__class__, timeout]


def test_calls_that_say_the_same_have_one_header() -> None:
    first, other = header_of(), header_of(length=201)
    assert first is not None
    assert first is header_of()
    assert other is not None
    assert (first.length, other.length) == (200, 201)


@pytest.mark.parametrize("priority", [True, 1.0])
def test_what_equals_a_priority_and_is_none_is_refused_although_that_priority_is_remembered(priority: int) -> None:
    assert header_of(priority=1) is not None
    with pytest.raises(ValueError, match=f"priority {priority!r} does not exist"):
        header_of(priority=priority)


@pytest.mark.parametrize(("to", "length"), [("ingest/*", 200), ("ingest", 0), ("ingest", LARGEST_INLINE + 1)])
def test_a_letter_that_goes_out_by_itself_has_none(to: str, length: int) -> None:
    assert header_of(to, length) is None
    assert header_of(to, length) is None


def test_what_is_remembered_is_bounded() -> None:
    found = [header_of(length=length) for length in range(1, LARGEST_INLINE)]
    assert all(found)
    assert len(LETTER_HEADERS) <= 1024


@pytest.mark.parametrize("endless", [math.inf, 1e300, 1e12])
def test_a_century_is_no_limit_as_of_a_publisher(endless: float, sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    sent = sender.send("ingest", b"level", lifetime=endless, timeout=endless, wait=Level.ACCEPTED)
    assert sent.wait(Level.ACCEPTED, endless)
    letter = inbox.take(endless)
    assert letter is not None
    assert (letter.body, letter.header.lifetime_ns) == (b"level", 0)
    with sender.transaction() as txn:
        txn.send("ingest", b"in it", lifetime=endless)


@pytest.mark.parametrize("lifetime", [0, -1.0, -math.inf, math.nan])
def test_a_lifetime_that_is_no_time_is_refused(lifetime: float, sender: rtmw.Sender) -> None:
    with pytest.raises(ValueError, match="it must be seconds above 0, or None"):
        sender.send("ingest", b"level", lifetime=lifetime)
