"""Copying a large message costs by where its block lies: few blocks are in use, and the newest is used first."""

from __future__ import annotations

import numpy as np
import pytest

import rtmw
from rtmw import observe

SIZE = 512 << 10


Pair = tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]]


@pytest.fixture
def pair(domain_id: int) -> Pair:
    domain = rtmw.Domain(domain_id, pool="32M")
    return rtmw.Publisher("large", domain=domain), rtmw.Subscriber("large", domain=domain)


def block_of(sample: rtmw.Sample[bytes]) -> int:
    """Its address tells one block from another."""
    return int(np.frombuffer(sample.data, np.uint8).ctypes.data)


def passed_on(pair: Pair, count: int, size: int = SIZE) -> list[int]:
    """The blocks of so many messages, each taken and let go of before the next one is published."""
    publisher, subscriber = pair
    blocks: list[int] = []
    for number in range(count):
        assert publisher.publish(bytes([number]) * size)
        sample = subscriber.receive(5)
        assert bytes(sample.data[-1:]) == bytes([number])
        blocks.append(block_of(sample))
        sample.release()
        assert subscriber.take() is None
    return blocks


def burst(pair: Pair, count: int, size: int = SIZE) -> None:
    publisher, subscriber = pair
    assert all(publisher.publish(bytes(size)) for _ in range(count))
    assert len(subscriber.take_many(count)) == count
    assert subscriber.take() is None


def test_messages_that_are_read_at_once_go_through_one_block(pair: Pair) -> None:
    assert len(set(passed_on(pair, 20))) == 1
    assert observe.examine(rtmw.Domain()).problems == ()


def test_after_a_burst_large_messages_go_through_the_block_that_was_in_use_last(pair: Pair) -> None:
    burst(pair, 12)
    assert len(set(passed_on(pair, 40))) == 1


def test_of_many_free_blocks_loans_of_large_messages_use_three(pair: Pair) -> None:
    publisher, subscriber = pair
    burst(pair, 12)
    blocks: list[int] = []
    for _ in range(40):
        loan = publisher.loan(SIZE)
        assert loan.publish()
        sample = subscriber.receive(5)
        blocks.append(block_of(sample))
        sample.release()
        assert subscriber.take() is None
    assert len(set(blocks[4:])) <= 3


def test_after_a_burst_smaller_messages_use_all_blocks_in_turn(pair: Pair) -> None:
    burst(pair, 12, 8192)
    assert len(set(passed_on(pair, 40, 8192))) >= 12


def test_a_message_that_somebody_reads_keeps_its_block(pair: Pair) -> None:
    publisher, subscriber = pair
    assert publisher.publish(b"a" * SIZE)
    first = subscriber.receive(5)
    assert subscriber.take() is None
    assert publisher.publish(b"b" * SIZE)
    second = subscriber.receive(5)
    assert block_of(first) != block_of(second)
    assert (bytes(first.data), bytes(second.data)) == (b"a" * SIZE, b"b" * SIZE)


def test_a_message_that_one_of_two_subscribers_has_not_read_keeps_its_block(pair: Pair) -> None:
    publisher, subscriber = pair
    other = rtmw.Subscriber("large")
    for number in range(5):
        assert publisher.publish(bytes([number]) * SIZE)
        subscriber.receive(5).release()
        assert subscriber.take() is None
    assert [bytes(sample.data[-1:]) for sample in other.take_many(9)] == [bytes([number]) for number in range(5)]
    assert other.stats().missed == 0


def test_history_that_a_publisher_promised_keeps_its_block(domain_id: int) -> None:
    publisher = rtmw.Publisher("large", domain=rtmw.Domain(domain_id, pool="32M"), history=2)
    assert all(publisher.publish(bytes([number]) * SIZE) for number in range(5))
    late = rtmw.Subscriber("large", history=9)
    assert [bytes(sample.data[-1:]) for sample in late.take_many(9)][-2:] == [b"\3", b"\4"]


def test_a_message_of_another_priority_leaves_the_last_one_its_block(pair: Pair) -> None:
    publisher, subscriber = pair
    assert publisher.publish(b"a" * SIZE)
    subscriber.receive(5).release()
    assert subscriber.take() is None
    assert publisher.publish(b"b" * SIZE, priority=3)
    late = rtmw.Subscriber("large", history=2)
    assert {bytes(sample.data[-1:]) for sample in late.take_many(9)} == {b"a", b"b"}


def test_a_loan_leaves_the_last_message_its_block(pair: Pair) -> None:
    publisher, subscriber = pair
    assert publisher.publish(b"a" * SIZE)
    subscriber.receive(5).release()
    assert subscriber.take() is None
    with publisher.loan(SIZE):
        assert rtmw.Subscriber("large", history=1).receive(5).data == b"a" * SIZE
