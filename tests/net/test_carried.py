"""What is lost of a RELIABLE topic between hosts is told to its subscribers, whichever node was killed."""

from __future__ import annotations

import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Host, wait_until

TOPIC = "counted"


def subscriber_at(host: Host) -> rtmw.Subscriber[bytes]:
    return rtmw.Subscriber(TOPIC, domain=host.domain, reliability=Reliability.RELIABLE, depth=1000)


def publisher_at(host: Host, priority: int = 0) -> rtmw.Publisher[bytes]:
    return rtmw.Publisher(
        TOPIC, domain=host.domain, reliability=Reliability.RELIABLE, priority=priority, max_blocking=PATIENCE
    )


class Counted:
    """Numbers from one host to a subscriber on another."""

    def __init__(self, here: Host, there: Host) -> None:
        self.here, self.there = here, there
        self.publisher, self.subscriber = publisher_at(here), subscriber_at(there)
        self.sent, self.got = 0, list[int]()

    def send(self, count: int) -> None:
        for _ in range(count):
            assert self.publisher.publish(b"%d" % self.sent)
            self.sent += 1

    def reaches(self) -> bool:
        """Has it the last of all? Another one is sent each time that it has not."""
        self.got += [int(sample.value) for sample in self.subscriber.take_many(1000)]
        if self.got and self.got[-1] == self.sent - 1:
            return True
        self.send(1)
        return False

    def lost(self) -> int:
        """Of those between the first and the last that the subscriber has."""
        return self.got[-1] - self.got[0] + 1 - len(self.got)


@pytest.fixture
def counted(pair: tuple[Host, Host]) -> Counted:
    stream = Counted(*pair)
    wait_until(stream.reaches, "no stream")
    stream.send(20)
    wait_until(stream.reaches, "no stream")
    assert stream.subscriber.stats().missed == 0
    return stream


def test_what_is_published_while_the_node_of_the_publisher_is_dead_is_told(counted: Counted) -> None:
    counted.here.kill()
    counted.send(100)
    counted.here.start()
    wait_until(counted.reaches, "no stream again")
    assert counted.lost() >= 100
    assert counted.subscriber.stats().missed == counted.lost()
    wait_until(lambda: counted.there.crossed("in", TOPIC)["lost"] == counted.lost(), "the node does not count it")


def test_what_is_published_while_the_node_of_the_subscriber_is_dead_is_told(hosts: tuple[Host, Host]) -> None:
    for host in hosts:
        host.start("--lease", "1")
    stream = Counted(*hosts)
    wait_until(stream.reaches, "no stream")
    stream.there.kill()
    wait_until(lambda: not stream.here.crossed("out", TOPIC)["readers"], "the dead node is not noticed")
    stream.send(100)
    stream.there.start("--lease", "1")
    wait_until(stream.reaches, "no stream again")
    assert stream.lost() >= 100
    assert stream.subscriber.stats().missed == stream.lost()


def test_a_subscriber_that_came_later_is_not_told_of_what_was_lost_before(counted: Counted) -> None:
    counted.here.kill()
    counted.send(100)
    with subscriber_at(counted.there) as late:
        counted.here.start()
        wait_until(counted.reaches, "no stream again")
        assert late.receive(timeout=PATIENCE).value
        assert counted.subscriber.stats().missed >= 100
        assert late.stats().missed == 0


def test_an_orderly_restart_counts_as_little_as_it_loses(counted: Counted) -> None:
    with publisher_at(counted.here, priority=5) as urgent:
        assert urgent.publish(b"0")
        wait_until(lambda: counted.subscriber.take() is not None, "the urgent one does not come")
        counted.here.stop()
        counted.here.start()
        wait_until(counted.reaches, "no stream again")
        assert counted.subscriber.stats().missed == counted.lost()
