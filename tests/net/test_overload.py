"""More to send than can leave: what is urgent goes first, and what is too late or too often does not go."""

from __future__ import annotations

import time

import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until
from tests.net.ways import BOTH_WAYS

BULK = [f"bulk/{n}" for n in range(4)]
EACH, URGENT = 60, 20


def reliable(topic: str, host: Host, priority: int) -> rtmw.Publisher[bytes]:
    return rtmw.Publisher(
        topic, domain=host.domain, priority=priority, reliability=Reliability.RELIABLE, depth=EACH, max_blocking=0
    )


def total(subscribers: list[rtmw.Subscriber[bytes]]) -> int:
    return sum(len(subscriber.take_many(1000)) for subscriber in subscribers)


@pytest.mark.parametrize(("rate", "ahead"), [((), 40), (("--max-rate", "200K"), 3)])
# Proves G256.
def test_urgent_messages_leave_before_all_that_waits(
    hosts: tuple[Host, Host], rate: tuple[str, ...], ahead: int
) -> None:
    """`ahead`: messages that may have been on their way before the node saw the urgent ones."""
    here, there = hosts
    here.start(*rate)
    there.start()
    urgent = reliable("urgent", here, priority=7)
    far_urgent = rtmw.Subscriber("urgent", domain=there.domain, reliability=Reliability.RELIABLE)
    assert urgent.wait_for_subscribers(1, timeout=PATIENCE)
    bulk = [reliable(topic, here, priority=0) for topic in BULK]
    far_bulk = [rtmw.Subscriber(topic, domain=there.domain, reliability=Reliability.RELIABLE) for topic in BULK]
    for publisher in bulk:
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    halt(here)
    for publisher in bulk:
        assert publisher.publish_many([bytes(1000)] * EACH) == EACH
    assert urgent.publish_many([bytes(1000)] * URGENT) == URGENT
    go_on(here)
    arrived = 0

    def some_arrived() -> bool:
        nonlocal arrived
        arrived += total(far_bulk)
        return arrived > ahead

    wait_until(some_arrived, "nothing arrives")
    assert len(far_urgent.take_many(1000)) == URGENT


@BOTH_WAYS
def test_an_urgent_message_overtakes_what_is_already_leaving(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    here.start("--max-rate", "10K")
    there.start()
    urgent, bulk = (rtmw.Publisher(name, domain=here.domain, depth=1000) for name in ("urgent", "bulk"))
    far_urgent, far_bulk = (rtmw.Subscriber(name, domain=there.domain) for name in ("urgent", "bulk"))
    assert urgent.wait_for_subscribers(1, timeout=PATIENCE)
    assert bulk.wait_for_subscribers(1, timeout=PATIENCE)
    bulk.publish_many([bytes(1000)] * 500)
    assert far_bulk.receive(timeout=PATIENCE)
    urgent.publish(b"now", priority=7)
    assert far_urgent.receive(timeout=PATIENCE).value == b"now"
    assert total([far_bulk]) < 250


# Proves G260.
def test_expired_messages_never_leave(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    here.start("--max-rate", "10K")
    there.start()
    publisher = rtmw.Publisher("news", domain=here.domain, depth=100, reliability=Reliability.RELIABLE)
    subscriber = rtmw.Subscriber("news", domain=there.domain, depth=100, reliability=Reliability.RELIABLE)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    for _ in range(60):
        assert publisher.publish(bytes(1000), lifetime=1.0)
    assert publisher.publish(b"for ever")
    wait_until(lambda: subscriber.receive(timeout=PATIENCE).value == b"for ever", "the last one does not arrive")
    wait_until(
        lambda: here.crossed("out", "news")["sent"] + here.crossed("out", "news")["expired"] == 61, "some are lost"
    )
    counted = here.crossed("out", "news")
    assert counted["expired"] > 30
    wait_until(
        lambda: there.crossed("in", "news")["received"] + there.crossed("in", "news")["expired"] == counted["sent"],
        "the hosts do not agree",
    )


@BOTH_WAYS
def test_expired_messages_of_a_node_that_stood_still_never_leave(pair: tuple[Host, Host]) -> None:
    here, there = pair
    publisher = rtmw.Publisher("news", domain=here.domain, depth=100)
    subscriber = rtmw.Subscriber("news", domain=there.domain, depth=100)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    halt(here)
    until = time.time() + 0.3
    for _ in range(50):
        publisher.publish(b"late", valid_until=until)
    publisher.publish(b"for ever")
    wait_until(lambda: time.time() > until, "time stands still")
    go_on(here)
    assert subscriber.receive(timeout=PATIENCE).value == b"for ever"
    wait_until(lambda: here.crossed("out", "news")["sent"] == 1, "what left is not counted")
    assert here.crossed("out", "news")["expired"] == 50


@BOTH_WAYS
def test_messages_are_thinned_before_they_leave(pair: tuple[Host, Host]) -> None:
    here, there = pair
    publisher = rtmw.Publisher("often", domain=here.domain)
    rare, rarer = (rtmw.Subscriber("often", domain=there.domain, min_interval=seconds) for seconds in (1000, 2000))
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    wait_until(lambda: here.crossed("out", "often").get("readers") == 1, "no reader")
    for number in range(20):
        publisher.publish(b"%d" % number)
    assert rare.receive(timeout=PATIENCE).value == b"0"
    assert rarer.receive(timeout=PATIENCE).value == b"0"
    wait_until(lambda: here.crossed("out", "often")["thinned"] == 19, "not all of them are counted")
    assert here.crossed("out", "often")["sent"] == 1


def test_a_topic_that_nobody_far_away_reads_has_no_route(pair: tuple[Host, Host]) -> None:
    here, there = pair
    publisher = rtmw.Publisher("unread", domain=here.domain)
    near = rtmw.Subscriber("unread", domain=here.domain)
    wait_until(lambda: "readers" in here.crossed("out", "unread"), "the topic is not offered")
    for _ in range(10):
        publisher.publish(b"near")
    assert publisher.stats().subscribers == 1
    row = here.crossed("out", "unread")
    assert row["readers"] == 0
    assert "sent" not in row
    assert not there.crossed("in", "unread")
    assert near.stats().missed == 0


@BOTH_WAYS
@pytest.mark.parametrize("silence", ["publisher", "node"])
# Proves G281.
def test_deadline_events_come_when_the_publisher_or_its_node_is_silent(pair: tuple[Host, Host], silence: str) -> None:
    here, there = pair
    publisher = rtmw.Publisher("beat", domain=here.domain)
    subscriber = rtmw.Subscriber("beat", domain=there.domain, deadline=2.0)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    publisher.publish(b"first")

    def is_heard() -> bool:
        try:
            return subscriber.receive(timeout=PATIENCE).value == b"first"
        except rtmw.DeadlineMissed:  # before the topic was carried
            return False

    wait_until(is_heard, "nothing arrives")
    if silence == "node":
        here.kill()
        publisher.publish(b"not carried")
    with pytest.raises(rtmw.DeadlineMissed):
        subscriber.receive(timeout=PATIENCE)
    assert subscriber.stats().deadlines_missed >= 1


BURST = 200
BURSTS = {
    "small": (64, 64, BURST),
    "larger": (64, 1024, 128),  # a 64th of the pool
    "limited": (64, 1024, 64),  # in 10 ms less than 64 KiB leave
    "deep": (BURST, 1024, BURST),
    "newest": (4, 64, 4),
}
"""Of each topic the depth, the bytes of a message, and how many of a burst wait."""


# Proves G308.
def test_of_a_timely_burst_as_much_waits_for_the_node_as_is_documented(hosts: tuple[Host, Host]) -> None:
    """More than the depth of small messages, where that is the usual one; and what waits is the newest."""
    here, there = hosts
    here.start("--topic-rates", "limited=1M")
    there.start()
    for topic, (depth, size, waits) in BURSTS.items():
        timely = Reliability.TIMELY
        far = rtmw.Subscriber(topic, domain=there.domain, reliability=timely, depth=2 * BURST)
        near = rtmw.Publisher(topic, domain=here.domain, reliability=timely, depth=depth)
        assert near.wait_for_subscribers(1, timeout=PATIENCE)
        near.publish(bytes(size))  # from now on the node knows how large they are
        assert far.receive(timeout=PATIENCE)
        halt(here)
        near.publish_many([number.to_bytes(size, "little") for number in range(BURST)])
        go_on(here)
        got = [int.from_bytes(far.receive(timeout=PATIENCE).data, "little") for _ in range(waits)]
        assert got == [*range(BURST - waits, BURST)], topic
