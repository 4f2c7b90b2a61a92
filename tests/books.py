"""What must hold after every fault: the domain still works, its books balance, and its memory is whole again."""

from __future__ import annotations

import os

import rtmw
from rtmw import observe


def examine(domain: rtmw.Domain) -> observe.Books:
    """The books after a sweep; they balance, and every descriptor is in exactly one place."""
    books = observe.examine(domain, fix=True)
    assert books.problems == ()
    places = (books.descriptors_free, books.descriptors_loaned, books.descriptors_queued, books.descriptors_held)
    assert sum(places) == books.descriptors
    return books


def assert_usable(domain: rtmw.Domain) -> None:
    """A message goes through, and the books balance."""
    with rtmw.Subscriber("usable", domain=domain) as subscriber, rtmw.Publisher("usable", domain=domain) as publisher:
        assert publisher.publish(b"still here")
        assert subscriber.receive(timeout=10.0).value == b"still here"
    assert examine(domain).descriptors_loaned == 0


def assert_whole(domain: rtmw.Domain, processes: int = 1) -> None:
    """This process is attached and `processes - 1` others, nothing is loaned or held, and the whole pool can be had.

    Nobody may keep samples, and no publisher of the domain may have asked for `history`.
    """
    assert_usable(domain)
    books = examine(domain)
    assert len(books.participants) == processes
    assert os.getpid() in {participant.pid for participant in books.participants}
    assert (books.descriptors_loaned, books.descriptors_held) == (0, 0)
    assert books.descriptors_free + books.descriptors_queued == books.descriptors
    with rtmw.Publisher("whole", domain=domain, reliability=rtmw.Reliability.TIMELY, priority=7) as publisher:
        publisher.loan(domain.pool).drop()
    books = examine(domain)
    assert (books.pages_used, books.pages_kept) == (0, 0)
