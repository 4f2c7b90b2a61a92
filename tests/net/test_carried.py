"""What is lost of a RELIABLE topic between hosts is told to its subscribers, whichever node was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from rtmw.shm import beside
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until
from tests.net.ways import BOTH_WAYS

pytestmark = BOTH_WAYS
TOPIC = "counted"


def subscriber_at(host: Host) -> rtmw.Subscriber[bytes]:
    return rtmw.Subscriber(TOPIC, domain=host.domain, reliability=Reliability.RELIABLE, depth=1000)


def publisher_at(host: Host, priority: int = 0, history: int = 0) -> rtmw.Publisher[bytes]:
    return rtmw.Publisher(
        TOPIC,
        domain=host.domain,
        reliability=Reliability.RELIABLE,
        priority=priority,
        history=history,
        max_blocking=PATIENCE,
    )


class Counted:
    """Numbers from one host to a subscriber on another."""

    def __init__(self, here: Host, there: Host, history: int = 0) -> None:
        self.here, self.there = here, there
        self.publisher, self.subscriber = publisher_at(here, history=history), subscriber_at(there)
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


# Proves G276.
def test_what_is_published_while_the_node_of_the_publisher_is_dead_is_told(counted: Counted) -> None:
    counted.here.kill()
    counted.send(100)
    counted.here.start()
    wait_until(counted.reaches, "no stream again")
    assert counted.lost() >= 100
    assert counted.subscriber.stats().missed == counted.lost()
    wait_until(lambda: counted.there.crossed("in", TOPIC)["lost"] == counted.lost(), "the node does not count it")


def over_a_death_of_its_subscribers_node(hosts: tuple[Host, Host], count: int, history: int = 0) -> Counted:
    """So many messages are published while that node is dead; then it lives again."""
    for host in hosts:
        host.start("--lease", "1")
    stream = Counted(*hosts, history)
    wait_until(stream.reaches, "no stream")
    stream.there.kill()
    wait_until(lambda: not stream.here.crossed("out", TOPIC)["readers"], "the dead node is not noticed")
    stream.send(count)
    stream.there.start("--lease", "1")
    wait_until(stream.reaches, "no stream again")
    return stream


# Proves G276.
def test_what_is_published_while_the_node_of_the_subscriber_is_dead_is_told(hosts: tuple[Host, Host]) -> None:
    stream = over_a_death_of_its_subscribers_node(hosts, 100)
    assert stream.lost() >= 100
    assert stream.subscriber.stats().missed == stream.lost()


def test_what_is_kept_while_the_node_of_the_subscriber_is_dead_comes_or_is_told(hosts: tuple[Host, Host]) -> None:
    stream = over_a_death_of_its_subscribers_node(hosts, 5, history=10)
    wait_until(lambda: stream.subscriber.stats().missed == stream.lost(), "what is missing is not told")


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


def test_what_is_published_while_nobody_elsewhere_reads_is_not_lost(counted: Counted) -> None:
    counted.subscriber.close()
    wait_until(lambda: not counted.here.crossed("out", TOPIC)["readers"], "the reader stays")
    counted.send(100)
    counted.subscriber = subscriber_at(counted.there)
    counted.got.clear()
    wait_until(counted.reaches, "no stream again")
    assert (counted.lost(), counted.subscriber.stats().missed) == (0, 0)
    wait_until(lambda: counted.there.crossed("in", TOPIC)["received"] > 0, "the node does not tell of it")
    assert counted.there.crossed("in", TOPIC)["lost"] == 0


# Proves G279.
def test_what_a_node_that_stood_still_has_missed_is_counted_once(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    for host in hosts:
        host.start("--lease", "1")
    stream = Counted(here, there)
    wait_until(stream.reaches, "no stream")
    with publisher_at(here, priority=5) as urgent:
        assert urgent.publish(b"%d" % stream.sent)  # so that the next node knows of this priority
        stream.sent += 1
        wait_until(stream.reaches, "no stream")
        here.stop()
        here.start("--lease", "1")
        wait_until(stream.reaches, "no stream again")
        halt(here)
        for _ in range(1000):  # with the first that does not fit it waits for the lease; nothing of it was taken before
            assert urgent.publish(b"%d" % stream.sent)
            stream.sent += 1
        go_on(here)
        wait_until(stream.reaches, "no stream again")
    assert stream.lost() > 0
    assert stream.subscriber.stats().missed == stream.lost()


def test_a_node_that_cannot_make_its_table_says_so_and_ends(hosts: tuple[Host, Host]) -> None:
    here = hosts[0]
    table = Path(beside(here.number, here.domain.region.nonce, "carried"))
    table.mkdir()
    assert here.launch().wait(PATIENCE) == 1
    table.rmdir()
    assert f"{table}, in which nodes leave to the next one how far they came, cannot be made: Is a" in here.said
    assert "Traceback" not in here.said
