"""Bodies that come in blocks, and those whose sender gives them up."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from rtmw.transfer.address import Address, Life
from rtmw.transfer.core.effects import Drop, Tell, Write
from rtmw.transfer.core.service import Bodies
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.frames import Frame
from rtmw.transfer.header import Delivery, Header, Kind, Level
from rtmw.transfer.messages import Failed, GiveUp, Send

LENGTH = 1 << 20
FRAME = Frame(Life(4711, 1000, 1), 3, 10, GiveUp())
KEY = FRAME.life, FRAME.number
SEND = Send(0, Header(Address.parse("ingest"), Kind.BUF, LENGTH, Level.ACCEPTED, Delivery.LOG), b"", b"")


def effects(steps: Generator[Any, Any, Any]) -> list[object]:
    return list(steps)


@pytest.fixture
def bodies() -> Bodies:
    """One has begun to come."""
    made = Bodies()
    made.begin(KEY, SEND)
    assert effects(made.take(KEY, bytes(1000))) == [Write(KEY, SEND.header.length, bytes(1000), True)]
    return made


def test_a_body_that_is_given_up_is_dropped_and_its_send_has_failed(bodies: Bodies) -> None:
    failed = Failed(0, f"its sender gave it up after 1000 of {LENGTH} bytes")
    assert effects(bodies.give_up(FRAME)) == [Drop(KEY), Tell(FRAME._replace(message=failed), False)]
    assert not bodies.arriving(str)


# Proves G179.
def test_a_block_that_comes_when_its_body_was_given_up_counts_for_nothing(bodies: Bodies) -> None:
    effects(bodies.give_up(FRAME))
    assert not effects(bodies.take(KEY, bytes(1000)))
    assert not bodies.arriving(str)


def test_a_body_that_has_come_or_was_refused_is_not_given_up_any_more(bodies: Bodies) -> None:
    with pytest.raises(TransferRefused, match="bytes of a body whose header says"):
        effects(bodies.take(KEY, bytes(LENGTH)))
    assert not effects(bodies.give_up(FRAME))
    bodies.begin(KEY, SEND)
    effects(bodies.take(KEY, bytes(LENGTH)))
    effects(bodies.finish(KEY))
    assert not effects(bodies.give_up(FRAME))
