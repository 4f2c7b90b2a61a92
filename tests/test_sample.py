"""A sample: the message as the reader holds it. Its memory stays while any view of it lives."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import numpy as np
import pytest

import rtmw
from tests.bus import Reading, balanced, held, lifetime_of, taken

BIG = 100_000
"""Bytes: a block of its own, not in the descriptor."""


@pytest.fixture
def pair(domain: rtmw.Domain) -> tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]]:
    return rtmw.Publisher("t", domain=domain), rtmw.Subscriber("t", domain=domain)


Pair = tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]]


def overwritten(publisher: rtmw.Publisher[bytes], subscriber: rtmw.Subscriber[bytes]) -> None:
    """Publish and take so much that memory which is not held is used again."""
    for _ in range(200):
        assert publisher.publish(b"\xff" * BIG)
        assert subscriber.take() is not None


def test_a_sample_tells_what_it_is(pair: Pair) -> None:
    publisher, subscriber = pair
    before = time.time_ns()
    publisher.publish(b"x", priority=5, lifetime=3600)
    after = time.time_ns()
    sample = subscriber.receive(1)
    assert (sample.value, bytes(sample.data), sample.topic, sample.type_name) == (b"x", b"x", "t", "bytes")
    assert (sample.sequence, sample.priority, sample.publisher) == (1, 5, publisher.identity)
    assert 0 < sample.publisher < 1 << 63
    slack = 50_000_000  # the wall clock and the one that stamps are read one after the other
    assert before - slack <= sample.source_time_ns <= after + slack
    assert lifetime_of(sample) == 3600


def test_a_sample_shows_its_topic_sequence_and_size(pair: Pair) -> None:
    publisher, subscriber = pair
    publisher.publish(b"first", priority=5)
    publisher.publish(b"second", priority=5)
    sample = subscriber.take_many(2)[1]
    assert repr(sample) == "<rtmw.Sample 't' priority=5 sequence=2 size=6>"
    sample.release()
    assert repr(sample) == "<rtmw.Sample 't' priority=5 sequence=2 size=6, released>"


def test_a_message_without_lifetime_never_expires(pair: Pair) -> None:
    publisher, subscriber = pair
    publisher.publish(b"x")
    assert subscriber.receive(1).expires_ns is None


def test_sequences_are_dense_within_a_priority(pair: Pair) -> None:
    publisher, subscriber = pair
    for priority in (0, 3, 0, 3, 3):
        publisher.publish(b"x", priority=priority)
    assert [(s.priority, s.sequence) for s in subscriber.take_many(9)] == [(3, 1), (3, 2), (3, 3), (0, 1), (0, 2)]


def test_stamps_of_a_publisher_never_go_back(pair: Pair) -> None:
    publisher, subscriber = pair
    publisher.publish_many([b"x"] * 100)
    stamps = [sample.source_time_ns for sample in subscriber.take_many(100)]
    assert stamps == sorted(stamps)


@pytest.mark.parametrize("size", [0, 5, 128, 129, BIG])
def test_data_is_a_read_only_view_of_the_payload(pair: Pair, size: int) -> None:
    publisher, subscriber = pair
    publisher.publish(b"p" * size)
    data = subscriber.receive(1).data
    assert isinstance(data, memoryview)
    assert data.readonly
    assert (data.nbytes, bytes(data)) == (size, b"p" * size)
    with pytest.raises(TypeError):
        data[:] = b"q" * size


def test_data_is_where_the_message_lies_and_not_a_copy(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t")
    first, second = rtmw.Subscriber("t"), rtmw.Subscriber("t")
    publisher.publish(bytes(BIG))
    views = [np.frombuffer(subscriber.receive(1).data, np.uint8) for subscriber in (first, second)]
    assert views[0].ctypes.data == views[1].ctypes.data


def test_a_value_is_decoded_once(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("r", Reading), rtmw.Subscriber("r", Reading)
    publisher.publish(Reading("A1", 7.5))
    sample = subscriber.receive(1)
    assert sample.value == Reading("A1", 7.5)
    assert sample.value is sample.value


def test_the_memory_stays_while_the_sample_lives(pair: Pair) -> None:
    publisher, subscriber = pair
    publisher.publish(b"\x01" * BIG)
    sample = subscriber.receive(1)
    overwritten(publisher, subscriber)
    assert sample.value == b"\x01" * BIG


@pytest.mark.parametrize("size", [100, BIG])
def test_the_memory_stays_while_a_view_lives_and_comes_back_when_the_last_one_goes(
    domain: rtmw.Domain, pair: Pair, size: int
) -> None:
    publisher, subscriber = pair
    publisher.publish(b"\x01" * size)
    sample = subscriber.receive(1)
    view = sample.data
    array = np.frombuffer(sample.data, np.uint8)
    part = array[10:20]
    del sample, array
    overwritten(publisher, subscriber)
    assert held(domain) == 1
    assert set(view.tolist()) == set(part.tolist()) == {1}
    del view
    gc.collect()
    assert held(domain) == 1
    assert part.sum() == 10
    del part
    gc.collect()
    assert held(domain) == 0


def test_a_numpy_value_keeps_its_memory_by_itself(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("n", np.float64), rtmw.Subscriber("n", np.float64)
    publisher.publish(np.arange(1000.0))
    value = subscriber.receive(1).value
    for _ in range(100):
        publisher.publish(np.zeros(1000))
        subscriber.receive(1)
    assert (value == np.arange(1000.0)).all()
    assert held(domain) == 1
    del value
    assert held(domain) == 0


def test_many_samples_held_come_back_all(domain: rtmw.Domain, pair: Pair) -> None:
    publisher, subscriber = pair
    before = balanced(domain)
    samples = []
    for _ in range(50):
        publisher.publish(bytes(BIG))
        samples.append(subscriber.receive(1))
    assert balanced(domain).pages_used >= 50 * BIG // 4096
    samples.clear()
    overwritten(publisher, subscriber)
    publisher.close()
    subscriber.close()
    assert held(domain) == 0
    assert balanced(domain).pages_used <= before.pages_used + 2 * (BIG // 4096 + 2)


def test_release_gives_the_memory_back_at_once(domain: rtmw.Domain, pair: Pair) -> None:
    publisher, subscriber = pair
    publisher.publish(bytes(BIG))
    sample = subscriber.receive(1)
    overwritten(publisher, subscriber)
    assert held(domain) == 1
    sample.release()
    assert held(domain) == 0
    sample.release()
    for use in (lambda: sample.data, lambda: sample.value, lambda: memoryview(sample)):
        with pytest.raises(ValueError, match="released"):
            use()


def test_release_with_a_view_alive_is_refused(pair: Pair) -> None:
    publisher, subscriber = pair
    publisher.publish(b"x")
    sample = subscriber.receive(1)
    view = sample.data
    with pytest.raises(BufferError, match="views"):
        sample.release()
    assert bytes(view) == b"x"
    view.release()
    sample.release()


def test_a_sample_outlives_its_subscriber_and_its_domain(domain_id: int) -> None:
    with rtmw.Domain(domain_id, pool="1M") as domain:
        publisher, subscriber = rtmw.Publisher("t", domain=domain), rtmw.Subscriber("t", domain=domain)
        publisher.publish(b"\x07" * BIG)
        publisher.publish(b"later")
        sample, later = subscriber.receive(1), subscriber.receive(1)
        subscriber.close()
        assert later.value == b"later"
    rtmw.Domain.unlink(domain_id)
    del domain, publisher, subscriber
    gc.collect()
    assert sample.value == b"\x07" * BIG
    assert (sample.topic, sample.sequence, sample.type_name) == ("t", 1, "bytes")
    view = sample.data
    del sample
    assert view[BIG - 1] == 7


def endpoints(kind: str) -> tuple[rtmw.Publisher[Any], rtmw.Subscriber[Any], Any]:
    """A publisher, a subscriber that decodes in the way that is named, and a message."""
    if kind == "bytes":
        return rtmw.Publisher("k"), rtmw.Subscriber("k"), bytes(BIG)
    if kind == "numpy":
        return rtmw.Publisher("k", np.float64), rtmw.Subscriber("k", np.float64), np.arange(1000.0)
    type = rtmw.ANY if kind == "any" else Reading
    return rtmw.Publisher("k", Reading), rtmw.Subscriber("k", type), Reading("A1", 7.5)


@pytest.mark.parametrize("kind", ["bytes", "numpy", "any", "typed"])
# Proves G16.
def test_a_sample_keeps_its_memory_and_not_its_subscriber(domain: rtmw.Domain, kind: str) -> None:
    publisher, subscriber, message = endpoints(kind)
    publisher.publish(message)
    publisher.publish(message)
    sample, released = subscriber.take_many(2)
    released.release()
    gone = weakref.ref(subscriber)
    assert publisher.subscribers == 1
    del subscriber
    assert gone() is None
    assert publisher.subscribers == 0
    publisher.publish_many([message] * 200)
    assert held(domain) == 1
    assert np.array_equal(sample.value, message) if kind == "numpy" else getattr(sample.value, "value", 7.5) == 7.5
    assert (sample.topic, sample.sequence) == (released.topic, released.sequence - 1) == ("k", 1)
    assert sample.type_name == released.type_name
    del sample
    assert held(domain) == 0


# Proves G16.
def test_a_subscriber_in_a_cycle_is_collected_though_a_sample_of_it_lives(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("k", Reading), rtmw.Subscriber("k", Reading)
    publisher.publish(Reading("A1", 7.5))
    sample = subscriber.receive(1)
    subscriber.itself, subscriber.last = subscriber, sample  # type: ignore[attr-defined]
    del subscriber
    gc.collect()
    assert publisher.subscribers == 0
    assert sample.value == Reading("A1", 7.5)


def test_a_reliable_publisher_does_not_wait_for_a_subscriber_of_which_only_samples_are_left(
    domain: rtmw.Domain,
) -> None:
    reliable = rtmw.Reliability.RELIABLE
    publisher = rtmw.Publisher("k", reliability=reliable, max_blocking=0)
    subscriber = rtmw.Subscriber("k", reliability=reliable, depth=1)
    publisher.publish(b"1")
    sample = subscriber.receive(1)
    assert publisher.publish(b"2")
    assert not publisher.publish(b"3")
    del subscriber
    assert publisher.publish(b"3")
    assert sample.value == b"1"


def test_a_sample_held_does_not_keep_others_from_being_delivered(pair: Pair) -> None:
    publisher, subscriber = pair
    publisher.publish(b"held")
    sample = subscriber.receive(1)
    publisher.publish_many([b"a", b"b"])
    assert taken(subscriber) == [b"a", b"b"]
    assert sample.value == b"held"
