"""How full the tables of a domain are, and which topics hold most of its memory."""

from __future__ import annotations

import os

import rtmw
from rtmw import observe
from rtmw.observe import TableUse
from tests.bus import Reading


def used(domain: rtmw.Domain) -> dict[str, TableUse]:
    return {table.name: table for table in observe.tables(domain, observe.examine(domain))}


def test_each_table_tells_how_many_of_its_entries_are_used(domain: rtmw.Domain) -> None:
    before = used(domain)
    assert [(name, table.used) for name, table in before.items()] == [
        *((name, 0) for name in ("topics", "types", "publishers", "subscribers")),
        *(("participants", 1), ("descriptors", 0), ("pool", 0)),
    ]
    ends = [rtmw.Publisher("a", Reading), rtmw.Publisher("a"), rtmw.Subscriber("b", Reading)]
    loan = ends[1].loan(3 * 4096)
    after = used(domain)
    assert {name: table.used for name, table in after.items()} == {
        "topics": 2,
        "types": 1,
        "publishers": 2,
        "subscribers": 1,
        "participants": 1,
        "descriptors": 1,
        "pool": 3 * 4096,
    }
    assert {name: table.size for name, table in after.items()} == {name: table.size for name, table in before.items()}
    assert after["pool"].size == domain.pool
    loan.drop()


def test_a_table_that_is_full_is_full_by_its_own_account(domain: rtmw.Domain) -> None:
    ends, refused = [], False
    while not refused:
        try:
            ends.append(rtmw.Publisher(f"t{len(ends) % 10}"))
        except rtmw.LimitReached:
            refused = True
    assert used(domain)["publishers"].share == 1.0


def test_the_topic_with_the_largest_share_of_the_memory_comes_first(domain: rtmw.Domain) -> None:
    small, large, empty = rtmw.Publisher("small"), rtmw.Publisher("large"), rtmw.Publisher("empty")
    slow, slower = rtmw.Subscriber("large", depth=100), rtmw.Subscriber("large", depth=100)
    reader = rtmw.Subscriber("small", depth=100)
    small.publish_many([b"x"] * 10)
    large.publish_many([bytes(100_000)] * 5)
    slow.take_many(2)
    books = observe.examine(domain)
    first, second = observe.holdings(observe.topics(domain), books)
    assert (first.topic, first.messages, first.bytes >= 500_000) == ("large", 5, True)
    assert first.slowest is not None
    assert (first.slowest.pid, first.slowest.behind) == (os.getpid(), 5)
    assert first.share == first.bytes / domain.pool
    assert (second.topic, second.messages, second.bytes) == ("small", 10, 0)
    assert second.share == 10 / books.descriptors
    assert all((empty, slower, reader))


def test_a_topic_that_nobody_is_behind_on_names_no_subscriber(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("t", history=10) as publisher:
        publisher.publish_many([b"x"] * 10)
        (only,) = observe.holdings(observe.topics(domain), observe.examine(domain))
    assert (only.messages, only.slowest) == (10, None)
