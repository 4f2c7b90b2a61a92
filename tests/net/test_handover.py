"""What a program has published arrives, though it leaves at once, or the node is stopped in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import rtmw
from rtmw import Reliability
from rtmw.net.settings import STATUS_TOPIC
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.ways import BOTH_WAYS

pytestmark = BOTH_WAYS

SIZE, COUNT = 20_000, 60


def reliable(host: Host, priority: int = 0) -> rtmw.Publisher[bytes]:
    return rtmw.Publisher(
        "last/words", domain=host.domain, reliability=Reliability.RELIABLE, depth=COUNT, priority=priority
    )


def hears_all(subscriber: rtmw.Subscriber[bytes]) -> None:
    got = [int.from_bytes(subscriber.receive(timeout=PATIENCE).data, "little") for _ in range(COUNT)]
    assert got == list(range(COUNT))


def publish_all(publisher: rtmw.Publisher[bytes]) -> None:
    for number in range(COUNT):
        assert publisher.publish(number.to_bytes(SIZE, "little"))


def test_what_a_publisher_leaves_behind_still_crosses(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    here.start("--max-rate", "1M")
    there.start()
    subscriber = rtmw.Subscriber("last/words", domain=there.domain, reliability=Reliability.RELIABLE, depth=COUNT)
    with reliable(here) as publisher:
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        publish_all(publisher)
    hears_all(subscriber)
    wait_until(lambda: not here.crossed("out", "last/words"), "the route stays for ever")


def test_a_stream_goes_on_whole_when_another_publisher_offers_more(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    here.start("--max-rate", "1M")
    there.start()
    subscriber = rtmw.Subscriber("last/words", domain=there.domain, reliability=Reliability.RELIABLE, depth=COUNT)
    with reliable(here) as publisher:
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        publish_all(publisher)
        with reliable(here, priority=5):
            hears_all(subscriber)


# Proves G280.
def test_a_node_that_ends_in_order_hands_over_what_it_has(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    here.start("--max-rate", "1M")
    there.start()
    subscriber = rtmw.Subscriber("last/words", domain=there.domain, reliability=Reliability.RELIABLE, depth=COUNT)
    publisher = reliable(here)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    publish_all(publisher)
    assert here.stop() == 0
    hears_all(subscriber)


def test_a_node_that_ends_in_order_is_not_kept_by_publishers_that_go_on(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    here.start("--max-rate", "100K")
    there.start()
    subscriber = rtmw.Subscriber("last/words", domain=there.domain, reliability=Reliability.RELIABLE, depth=COUNT)
    publisher = reliable(here)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    ends = threading.Event()

    def go_on() -> None:
        while not ends.is_set():
            publisher.publish(bytes(100))
            subscriber.take_many(1000)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        wait_until(lambda: subscriber.stats().received > COUNT, "no stream")
        assert here.stop() == 0
        assert "not delivered" not in here.said
    finally:
        ends.set()
        thread.join()


def test_a_stream_goes_on_whole_when_another_subscriber_joins(pair: tuple[Host, Host]) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("last/words", domain=there.domain, reliability=Reliability.RELIABLE)
    publisher = reliable(here)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    sent, got = 0, list[int]()

    def exchange_until(condition: Callable[[], bool]) -> None:
        """As fast as it goes, so that something is always on its way."""
        nonlocal sent
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end
            sent += publisher.publish(sent.to_bytes(SIZE, "little"))
            got.extend(int.from_bytes(sample.data, "little") for sample in subscriber.take_many(COUNT))

    exchange_until(lambda: len(got) > COUNT)
    status = rtmw.Subscriber(STATUS_TOPIC, domain=there.domain)
    with rtmw.Subscriber("last/words", domain=there.domain, depth=2 * COUNT) as another:
        for _ in range(2):  # it has surely been seen when the node has told twice how it is
            exchange_until(lambda: status.take() is not None)
        assert another.take() is not None
    while len(got) < sent:
        got.append(int.from_bytes(subscriber.receive(timeout=PATIENCE).data, "little"))
    assert got == list(range(sent))
