"""A queue is never without its last message; that must not keep a large block from others, nor show in the numbers."""

from __future__ import annotations

import pytest

import rtmw
from rtmw import Reliability, observe


def test_a_message_as_large_as_the_pool_can_follow_another_that_all_have_read(domain: rtmw.Domain) -> None:
    body = bytes(domain.pool)
    with rtmw.Publisher("large", domain=domain) as publisher, rtmw.Subscriber("large", domain=domain) as subscriber:
        for sequence in (1, 2, 3):
            assert publisher.publish(body)
            sample = subscriber.receive(5)
            assert (sample.sequence, len(sample.data)) == (sequence, len(body))
            sample.release()
            assert subscriber.take() is None


def test_a_large_message_that_somebody_still_reads_keeps_its_block(domain: rtmw.Domain) -> None:
    body = b"x" * domain.pool
    with rtmw.Publisher("large", domain=domain) as publisher, rtmw.Subscriber("large", domain=domain) as subscriber:
        assert publisher.publish(body)
        sample = subscriber.receive(5)
        assert subscriber.take() is None
        assert not publisher.publish(body)
        assert bytes(sample.data) == body


def test_a_late_subscriber_gets_no_message_whose_block_was_given_back(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("large", domain=domain) as publisher, rtmw.Publisher("other", domain=domain) as other:
        assert publisher.publish(bytes(domain.pool // 2))
        with other.loan(domain.pool):
            late = rtmw.Subscriber("large", domain=domain, history=5)
            assert late.take() is None
        assert publisher.publish(b"next")
        assert late.receive(5).value == b"next"
        assert late.stats().missed == 0


def test_history_that_a_publisher_promised_keeps_its_block(domain: rtmw.Domain) -> None:
    body = b"h" * (domain.pool // 2)
    with rtmw.Publisher("large", domain=domain, history=1) as publisher:
        assert publisher.publish(body)
        with rtmw.Publisher("other", domain=domain) as other, pytest.raises(rtmw.PoolExhausted):
            other.loan(domain.pool)
        assert rtmw.Subscriber("large", domain=domain, history=1).receive(5).data == body


def test_sequences_stay_dense_and_misses_exact_when_the_last_message_gave_its_block_back(domain: rtmw.Domain) -> None:
    subscriber = rtmw.Subscriber("a", domain=domain, reliability=Reliability.TIMELY, depth=8)
    publisher = rtmw.Publisher("a", domain=domain, reliability=Reliability.TIMELY)
    assert publisher.publish(bytes(4096))
    assert subscriber.receive(5).sequence == 1
    assert subscriber.take() is None
    with rtmw.Publisher("other", domain=domain) as other, other.loan(domain.pool):
        pass
    assert all(publisher.publish(b"x" * 200) for _ in range(20))
    got = [sample.sequence for sample in subscriber.take_many(100)]
    assert got == list(range(14, 22))
    assert subscriber.stats().missed == 12
    assert observe.examine(domain).problems == ()


def test_two_subscribers_of_one_process_keep_no_block_that_both_have_read(domain: rtmw.Domain) -> None:
    body = bytes(domain.pool)
    readers = [rtmw.Subscriber("large", domain=domain) for _ in range(2)]
    publisher = rtmw.Publisher("large", domain=domain)
    for sequence in (1, 2, 3):
        assert publisher.publish(body)
        for reader in readers:
            sample = reader.receive(5)
            assert sample.sequence == sequence
            sample.release()
        assert [reader.take() for reader in readers] == [None, None]


def test_a_block_is_given_back_when_the_sample_goes_after_an_empty_take(domain: rtmw.Domain) -> None:
    body = bytes(domain.pool)
    with rtmw.Publisher("large", domain=domain) as publisher, rtmw.Subscriber("large", domain=domain) as subscriber:
        assert publisher.publish(body)
        sample = subscriber.receive(5)
        assert subscriber.take() is None
        sample.release()
        assert publisher.publish(body)


def test_who_rests_gets_the_newest_of_a_timely_publisher_too(domain: rtmw.Domain) -> None:
    subscriber = rtmw.Subscriber("a", domain=domain, reliability=Reliability.ADAPTIVE, depth=1)
    kept = rtmw.Publisher("a", domain=domain, reliability=Reliability.ADAPTIVE, history=9)
    timely = rtmw.Publisher("a", domain=domain, reliability=Reliability.TIMELY)
    assert kept.publish(bytes(4096))
    subscriber.receive(5).release()
    assert subscriber.take() is None
    assert all(timely.publish(bytes(4096)) for _ in range(4))
    assert subscriber.receive(5).sequence == 5
    assert subscriber.stats().missed == 3


def test_a_stopped_timely_subscriber_does_not_keep_messages_of_half_the_pool_from_others(domain: rtmw.Domain) -> None:
    body, timely = bytes(domain.pool * 5 // 8), Reliability.TIMELY
    publisher = rtmw.Publisher("t", domain=domain, reliability=timely)
    slow = rtmw.Subscriber("t", domain=domain, reliability=timely)
    fast = rtmw.Subscriber("t", domain=domain, reliability=timely)
    for sequence in range(1, 6):
        assert publisher.publish(body)
        sample = fast.take()
        assert sample is not None
        assert sample.sequence == sequence
        sample.release()
    assert publisher.stats().exhausted == 0
    last = slow.take()
    assert last is not None
    assert (last.sequence, slow.stats().missed, slow.stats().received) == (5, 4, 1)
