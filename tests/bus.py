"""What the tests of the bus share: waiting for a fact, looking at the books, and messages of two structures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cyclonedds.idl import IdlStruct

import rtmw
from rtmw import observe

LONG = 10.0
"""Seconds after which a test gives up; nothing is measured with it."""


@dataclass
class Reading(IdlStruct, typename="Reading"):
    """A message type."""

    station: str
    value: float


@dataclass
class Order(IdlStruct, typename="Order"):
    """Another message type."""

    text: str


def lease_of(reliability: rtmw.Reliability, seconds: float) -> float | None:
    """A lease for a subscriber that asks for RELIABLE; others have none."""
    return seconds if reliability is rtmw.Reliability.RELIABLE else None


def eventually(fact: Callable[[], object], within: float = LONG) -> None:
    """Wait until something is true that another thread or process does."""
    until = time.monotonic() + within
    while not fact():
        assert time.monotonic() < until, f"not within {within} s"
        time.sleep(0.005)


def taken(subscriber: rtmw.Subscriber[bytes]) -> list[bytes]:
    """Everything there is to take."""
    return [sample.value for sample in subscriber.take_many(1_000_000)]


def numbered(count: int, size: int = 10) -> list[bytes]:
    """Messages that begin with their numbers in ten digits."""
    return [b"%010d" % number + bytes(size - 10) for number in range(count)]


def numbers(subscriber: rtmw.Subscriber[bytes]) -> list[int]:
    """The numbers of all such messages there are to take."""
    return [int(bytes(sample.data[:10])) for sample in subscriber.take_many(1_000_000)]


def publish_all(publisher: rtmw.Publisher[bytes], values: list[bytes]) -> None:
    """Publish each, and none may be refused."""
    for value in values:
        assert publisher.publish(value)


def lifetime_of(message: rtmw.Sample[Any] | observe.QueuedMessage) -> float | None:
    """Seconds between source time and end, which two clocks told one after the other: to a tenth."""
    return None if message.expires_ns is None else round((message.expires_ns - message.source_time_ns) / 1e9, 1)


def balanced(domain: rtmw.Domain) -> observe.Books:
    """The books, which must balance."""
    books = observe.examine(domain)
    assert books.problems == ()
    return books


def held(domain: rtmw.Domain) -> int:
    """Descriptors that somebody holds though their queue has passed them, once everything that can go is gone."""
    books = observe.examine(domain, fix=True)
    assert books.problems == ()
    return books.descriptors_held
