"""examine: every descriptor and page is in exactly one place, and the holders are known."""

from __future__ import annotations

import os

import numpy as np
import pytest

import rtmw
from rtmw import observe
from tests.child import Spawn


def test_the_books_of_a_new_domain_are_empty(domain: rtmw.Domain) -> None:
    books = observe.examine(domain)
    assert books.pages == domain.pool // 4096
    assert books.descriptors == books.descriptors_free >= 1024
    assert (books.descriptors_loaned, books.descriptors_queued, books.descriptors_held, books.pages_used) == (
        0,
        0,
        0,
        0,
    )
    assert (books.problems, books.repaired) == ((), ())
    (me,) = books.participants
    assert (me.pid, me.alive, me.publishers, me.subscribers, me.loaned, me.held) == (os.getpid(), True, 0, 0, 0, 0)


def test_the_books_show_where_every_descriptor_is(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    loans = [publisher.loan(10_000) for _ in range(3)]
    samples = []
    for _ in range(4):
        publisher.publish(bytes(10_000))
        samples.append(subscriber.receive(1))
    books = observe.examine(domain, fix=True)
    assert books.problems == ()
    assert books.descriptors_loaned == len(loans)
    assert books.descriptors_held + books.descriptors_queued == len(samples)
    assert books.descriptors_queued >= 1, "a queue is never without its last message"
    whole = books.descriptors_free + books.descriptors_loaned + books.descriptors_queued + books.descriptors_held
    assert whole == books.descriptors
    assert books.pages_used >= 7 * 10_000 // 4096
    (me,) = books.participants
    assert (me.publishers, me.subscribers, me.loaned, me.held) == (1, 1, 3, 4)


def test_the_books_name_who_died_and_fix_sweeps_after_it(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn("import rtmw; p = rtmw.Publisher('t'); loan = p.loan(50_000); print(); input()")
    child.line()
    child.kill()
    dead = {view.pid: view for view in observe.examine(domain).participants}.get(child.pid)
    assert dead is None or not dead.alive
    books = observe.examine(domain, fix=True)
    assert books.problems == ()
    assert [view.pid for view in books.participants] == [os.getpid()]
    assert (books.descriptors_loaned, books.pages_used) == (0, 0)
    assert observe.examine(domain, fix=True).repaired == (), "once is enough"


@pytest.mark.parametrize("size", [1, 1000, 300_000])
def test_the_pool_is_whole_again_when_all_is_closed(domain: rtmw.Domain, size: int) -> None:
    publisher, subscriber = rtmw.Publisher("t", np.uint8), rtmw.Subscriber("t", np.uint8)
    values = []
    for _ in range(10):
        publisher.publish(np.zeros(size, np.uint8))
        values.append(subscriber.receive(1).value)
    publisher.close()
    subscriber.close()
    del values
    books = observe.examine(domain, fix=True)
    assert books.problems == ()
    assert (books.descriptors_held, books.descriptors_loaned) == (0, 0)
    assert books.descriptors_queued <= 10


def test_what_publishing_leaves_behind_is_given_back_and_called_no_repair(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    for _ in range(100):
        publisher.publish(bytes(10_000))
        subscriber.receive(1)
    publisher.close()
    subscriber.close()
    books = observe.examine(domain, fix=True)
    assert books.reclaimed > 0
    assert (books.problems, books.repaired) == ((), ())
    assert observe.examine(domain, fix=True).reclaimed == 0


# Proves G51.
def test_blocks_that_nobody_needs_any_more_are_kept_and_not_used(domain: rtmw.Domain) -> None:
    image = bytes(1 << 20)
    with rtmw.Publisher("t", depth=1) as publisher, rtmw.Subscriber("t", depth=4) as subscriber:
        for _ in range(4):
            publisher.publish(image)
        full = observe.examine(domain)
        assert (full.pages_used, full.pages_kept) == (4 * 256, 0)
        assert len(subscriber.take_many(4)) == 4
        publisher.publish(image)
        subscriber.take()
        taken = observe.examine(domain)
        assert taken.pages_used <= 2 * 256, "the last one stays in its queue, and a cursor may hold one"
        assert taken.pages_used + taken.pages_kept >= 4 * 256
        (pool,) = (table for table in observe.tables(domain, taken) if table.name == "pool")
        assert (pool.used, pool.kept) == (taken.pages_used * 4096, taken.pages_kept * 4096)
    assert observe.examine(domain, fix=True).pages_kept == 0
