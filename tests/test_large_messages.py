"""Copies of large messages cost by where their blocks lie: as few as possible are in use, and the newest is used first."""

from __future__ import annotations

import numpy as np
import pytest

import rtmw

SIZE = 512 << 10


@pytest.fixture
def pair(domain_id: int) -> tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]]:
    domain = rtmw.Domain(domain_id, pool="32M")
    return rtmw.Publisher("large", domain=domain), rtmw.Subscriber("large", domain=domain)


def block_of(sample: rtmw.Sample[bytes]) -> int:
    """Its address tells one block from another."""
    return int(np.frombuffer(sample.data, np.uint8).ctypes.data)


def passed_on(pair: tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]], count: int, size: int = SIZE) -> list[int]:
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


def burst(pair: tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]], count: int, size: int = SIZE) -> None:
    publisher, subscriber = pair
    assert all(publisher.publish(bytes(size)) for _ in range(count))
    assert len(subscriber.take_many(count)) == count
    assert subscriber.take() is None


def test_after_a_burst_large_messages_go_through_three_blocks_at_most(
    pair: tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]],
) -> None:
    burst(pair, 12)
    assert len(set(passed_on(pair, 40)[4:])) <= 3


def test_after_a_burst_smaller_messages_use_all_blocks_in_turn(
    pair: tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]],
) -> None:
    burst(pair, 12, 8192)
    assert len(set(passed_on(pair, 40, 8192))) >= 12
