"""An exhausted pool: what each reliability does (requirement P5), who is told, and that all of it comes back."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

import rtmw
from rtmw import Reliability
from tests.books import assert_whole, examine

BLOCK = 32 * 1024
POOL = 1 << 20
BLOCKS = POOL // BLOCK
DESCRIPTORS = 1024

every_reliability = pytest.mark.parametrize("reliability", list(Reliability), ids=lambda reliability: reliability.name)
those_that_evict = pytest.mark.parametrize(
    "reliability", [Reliability.TIMELY, Reliability.ADAPTIVE], ids=lambda reliability: reliability.name
)


@pytest.fixture
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """A pool that is soon empty; whole again after each test."""
    with rtmw.Domain(domain_id, pool=POOL, reserve=0) as attached:
        yield attached
        assert_whole(attached)


@every_reliability
# Proves G77.
def test_a_loan_that_lacks_memory_names_the_programs_that_have_not_read(
    reliability: Reliability, domain: rtmw.Domain
) -> None:
    """So do the stats, until it publishes again."""
    orders = rtmw.Publisher("orders", domain=domain, reliability=Reliability.RELIABLE, max_blocking=0)
    late = rtmw.Subscriber("orders", domain=domain, reliability=Reliability.RELIABLE, depth=1000)
    count = orders.publish_many([bytes(BLOCK)] * 2 * BLOCKS)
    said = rf".* \(pid {os.getpid()}\): {count} messages of 'orders' unread"
    with rtmw.Publisher("other", domain=domain, reliability=reliability, max_blocking=0) as publisher:
        with pytest.raises(rtmw.PoolExhausted, match=rf"in the way: {said}\)\. Release"):
            publisher.loan(BLOCK)
        assert re.fullmatch(said, *publisher.stats().in_the_way)
        assert publisher.publish(bytes(BLOCK)) is False
        assert re.fullmatch(said, *publisher.stats().in_the_way)
        assert late.take_many(count)
        assert publisher.publish(bytes(BLOCK))
        assert publisher.stats().in_the_way == ()
    for one in (orders, late):
        one.close()


@every_reliability
def test_a_loan_from_a_pool_that_is_loaned_out_raises_and_says_what_to_do(
    reliability: Reliability, domain: rtmw.Domain
) -> None:
    with rtmw.Publisher("a", domain=domain, reliability=reliability, max_blocking=0.02) as publisher:
        loans = [publisher.loan(BLOCK) for _ in range(BLOCKS)]
        with pytest.raises(rtmw.PoolExhausted, match=rf"loan of {BLOCK} bytes.*Release samples sooner.*larger pool"):
            publisher.loan(BLOCK)
        assert publisher.stats().exhausted == 1
        assert publisher.publish(b"small ones need no block")
        loans.pop().drop()
        loans.append(publisher.loan(BLOCK))
        for loan in loans:
            loan.drop()
    assert examine(domain).descriptors_loaned == 0


@every_reliability
def test_publish_into_a_pool_that_is_held_by_samples_is_refused_and_counted(
    reliability: Reliability, domain: rtmw.Domain
) -> None:
    with (
        rtmw.Subscriber("a", domain=domain, depth=10 * BLOCKS) as subscriber,
        rtmw.Publisher("a", domain=domain, reliability=reliability, max_blocking=0.02) as publisher,
    ):
        samples = []
        while publisher.publish(bytes(BLOCK)):
            samples.append(subscriber.receive(10.0))
        assert BLOCKS - 1 <= len(samples) <= BLOCKS
        assert publisher.stats().exhausted == 1
        assert not publisher.publish(bytes(BLOCK))
        assert publisher.stats().exhausted == 2
        assert publisher.stats().published == len(samples)
        for sample in samples:
            sample.release()
        assert publisher.publish(bytes(BLOCK))
        assert subscriber.receive(10.0).data == bytes(BLOCK)
        assert subscriber.stats().missed == 0


@those_that_evict
def test_unread_messages_give_way_and_each_is_counted_as_missed(reliability: Reliability, domain: rtmw.Domain) -> None:
    with (
        rtmw.Subscriber("a", domain=domain, depth=10 * BLOCKS, reliability=reliability) as subscriber,
        rtmw.Publisher("a", domain=domain, reliability=reliability) as publisher,
    ):
        for number in range(5 * BLOCKS):
            assert publisher.publish(number.to_bytes(4, "little") * (BLOCK // 4))
        kept = [int.from_bytes(sample.data[:4], "little") for sample in subscriber.take_many(10 * BLOCKS)]
        assert kept == list(range(5 * BLOCKS - len(kept), 5 * BLOCKS))
        assert len(kept) >= BLOCKS // 2
        assert subscriber.stats().missed == 5 * BLOCKS - len(kept)
        assert publisher.stats().exhausted == 0


# Proves G49.
def test_for_a_reliable_subscriber_nothing_unread_gives_way_to_other_messages(domain: rtmw.Domain) -> None:
    with (
        rtmw.Subscriber("a", domain=domain, depth=10 * BLOCKS, reliability=Reliability.RELIABLE) as subscriber,
        rtmw.Publisher("a", domain=domain, reliability=Reliability.RELIABLE, max_blocking=0.02) as publisher,
        rtmw.Publisher("b", domain=domain, reliability=Reliability.TIMELY) as other,
    ):
        sent = 0
        while publisher.publish(sent.to_bytes(4, "little") * (BLOCK // 4)):
            sent += 1
        assert BLOCKS - 1 <= sent <= BLOCKS
        assert not any(other.publish(bytes(BLOCK)) for _ in range(3))
        assert publisher.stats().exhausted == 1
        assert other.stats().exhausted == 3
        assert [int.from_bytes(sample.data[:4], "little") for sample in subscriber.take_many(99)] == list(range(sent))
        assert publisher.publish(bytes(BLOCK))
        assert subscriber.stats().missed == 0


@every_reliability
def test_descriptors_run_out_as_blocks_do(reliability: Reliability, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a", domain=domain, reliability=reliability, max_blocking=0.02) as publisher:
        loans = [publisher.loan(8) for _ in range(DESCRIPTORS)]
        with pytest.raises(rtmw.PoolExhausted, match="larger pool"):
            publisher.loan(8)
        assert not publisher.publish(b"x")
        assert publisher.stats().exhausted == 2
        del loans
        assert publisher.publish(b"x")


def test_what_other_topics_keep_unread_by_nobody_gives_way(domain: rtmw.Domain) -> None:
    for number in range(2 * BLOCKS):
        with rtmw.Publisher(f"old/{number}", domain=domain) as publisher:
            assert publisher.publish(bytes(BLOCK))
    with rtmw.Publisher("new", domain=domain) as publisher:
        publisher.loan(domain.pool).drop()


@every_reliability
# Proves G50.
def test_what_nobody_needs_on_another_topic_gives_way_however_many_messages_it_is(
    reliability: Reliability, domain: rtmw.Domain
) -> None:
    with rtmw.Publisher("read", domain=domain) as publisher:
        with rtmw.Subscriber("read", domain=domain, depth=500) as subscriber:
            for _ in range(300):
                assert publisher.publish(bytes(700))
            assert len(subscriber.take_many(500)) == 300
        with rtmw.Publisher("whole", domain=domain, reliability=reliability) as whole:
            whole.loan(POOL).drop()
