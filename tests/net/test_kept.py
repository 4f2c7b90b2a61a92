"""What a publisher keeps (`history`) reaches late subscribers of other hosts, whatever nodes and DDS are about."""

from __future__ import annotations

import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.ways import BOTH_WAYS
from tests.whole import sample

pytestmark = BOTH_WAYS

Pair = tuple[Host, Host]
ALL = pytest.mark.parametrize("reliability", sample(Reliability, 2))


DEPTH = 10_000
"""So that nothing has to give way, however slow the machine is."""


def publisher(host: Host, topic: str, reliability: Reliability, history: int) -> rtmw.Publisher[bytes]:
    return rtmw.Publisher(topic, domain=host.domain, reliability=reliability, history=history, depth=DEPTH)


def subscriber(host: Host, topic: str, reliability: Reliability, history: int) -> rtmw.Subscriber[bytes]:
    return rtmw.Subscriber(topic, domain=host.domain, reliability=reliability, history=history, depth=DEPTH)


def receive(source: rtmw.Subscriber[bytes], count: int) -> list[int]:
    return [int(source.receive(timeout=PATIENCE).value) for _ in range(count)]


@ALL
def test_what_was_published_before_there_was_a_node_arrives(hosts: Pair, reliability: Reliability) -> None:
    here, there = hosts
    late = subscriber(there, "before", reliability, history=3)
    with publisher(here, "before", reliability, history=3) as source:
        for number in range(10):
            source.publish(b"%d" % number)
        for host in hosts:
            host.start()
        assert receive(late, 3) == [7, 8, 9]


@ALL
def test_many_topics_at_once_each_bring_what_they_keep(hosts: Pair, reliability: Reliability) -> None:
    here, there = hosts
    names = [f"kept/{n}" for n in range(30)]
    sources = [publisher(here, name, reliability, history=1) for name in names]
    for host in hosts:
        host.start()
    for number, source in enumerate(sources):  # while the nodes are about to find each other
        source.publish(b"%d" % number)
    late = [subscriber(there, name, reliability, history=1) for name in names]
    assert [receive(one, 1) for one in late] == [[number] for number in range(30)]
    assert [one.take() for one in late] == [None] * len(late)


@ALL
# Proves G287.
def test_a_stream_that_begins_while_nodes_find_each_other_arrives_without_a_gap(
    hosts: Pair, reliability: Reliability
) -> None:
    here, there = hosts
    early = subscriber(there, "stream", reliability, history=5)
    with publisher(here, "stream", reliability, history=5) as source:
        for host in hosts:
            host.start()
        got, sent = list[int](), 0

        def has_begun() -> bool:
            nonlocal sent
            source.publish(b"%d" % sent)
            sent += 1
            got.extend(int(sample.value) for sample in early.take_many(100))
            return len(got) > 5

        wait_until(has_begun, "nothing arrives")
        got += receive(early, sent - got[0] - len(got))
    assert got == [*range(got[0], sent)]


@ALL
def test_what_is_kept_arrives_though_somebody_who_wants_nothing_old_was_there_first(
    pair: Pair, reliability: Reliability
) -> None:
    here, there = pair
    with publisher(here, "status", reliability, history=2) as source:
        for number in range(5):
            source.publish(b"%d" % number)
        first = subscriber(there, "status", reliability, history=0)
        assert source.wait_for_subscribers(1, timeout=PATIENCE)
        with subscriber(there, "status", reliability, history=2) as late:
            assert receive(late, 2) == [3, 4]
        first.close()


@ALL
def test_who_asks_for_nothing_old_gets_nothing_old(pair: Pair, reliability: Reliability) -> None:
    here, there = pair
    with publisher(here, "command", reliability, history=3) as source:
        for number in range(5):
            source.publish(b"%d" % number)
        only = subscriber(there, "command", reliability, history=0)
        assert source.wait_for_subscribers(1, timeout=PATIENCE)
        source.publish(b"5")
        assert receive(only, 1) == [5]


@ALL
def test_messages_that_were_published_together_all_arrive(pair: Pair, reliability: Reliability) -> None:
    here, there = pair
    with publisher(here, "together", reliability, history=20) as source:
        only = subscriber(there, "together", reliability, history=0)
        assert source.wait_for_subscribers(1, timeout=PATIENCE)
        source.publish_many([b"%d" % number for number in range(20)])
        assert receive(only, 20) == [*range(20)]


@ALL
def test_who_comes_after_another_gets_them_once_and_then_what_was_published_since(
    pair: Pair, reliability: Reliability
) -> None:
    here, there = pair
    with publisher(here, "again", reliability, history=2) as source:
        for number in range(4):
            source.publish(b"%d" % number)
        with subscriber(there, "again", reliability, history=2) as late:
            assert receive(late, 2) == [2, 3]
        wait_until(lambda: source.stats().subscribers == 0, "the node goes on reading for nobody")
        source.publish(b"4")
        with subscriber(there, "again", reliability, history=2) as late:
            assert receive(late, 3) == [2, 3, 4]  # the first two from the bus of its own host, which does not know yet
        wait_until(lambda: source.stats().subscribers == 0, "the node goes on reading for nobody")
        with subscriber(there, "again", reliability, history=2) as late:
            assert receive(late, 2) == [3, 4]
            assert source.wait_for_subscribers(1, timeout=PATIENCE)
            source.publish(b"5")
            assert receive(late, 1) == [5]


@pytest.mark.parametrize("whose", ["the publisher's", "the subscriber's"])
@ALL
# Proves G288.
def test_a_node_that_is_killed_and_started_again_brings_nothing_twice(
    pair: Pair, reliability: Reliability, whose: str
) -> None:
    here, there = pair
    dies = here if whose == "the publisher's" else there
    with (
        publisher(here, "returns", reliability, history=3) as source,
        subscriber(there, "returns", reliability, history=3) as late,
    ):
        for number in range(3):
            source.publish(b"%d" % number)
        assert receive(late, 3) == [0, 1, 2]
        dies.kill()
        source.publish(b"3")  # is kept while there is no node
        dies.start()
        assert receive(late, 1) == [3]
        source.publish(b"4")
        assert receive(late, 1) == [4]
        assert late.take() is None
