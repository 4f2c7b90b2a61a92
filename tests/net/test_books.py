"""The books between hosts: what was published since a subscriber got its first message is received or counted by it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until
from tests.net.ways import BOTH_WAYS, LINK

SHORT = ("--lease", "1")
PAIRS = [
    (Reliability.RELIABLE, Reliability.RELIABLE),
    (Reliability.RELIABLE, Reliability.ADAPTIVE),
    (Reliability.ADAPTIVE, Reliability.ADAPTIVE),
    (Reliability.TIMELY, Reliability.ADAPTIVE),
]
"""What a publisher offers, and what its subscriber asks for."""


class Stream:
    """Numbers from a publisher of one host to a subscriber of another one."""

    def __init__(self, here: Host, there: Host, offered: Reliability, asked: Reliability, history: int = 0) -> None:
        self._topic, self._offered = f"books/{here.number}/{offered.name}/{asked.name}", offered
        self.history = history
        self.subscriber = rtmw.Subscriber(self._topic, domain=there.domain, reliability=asked, depth=10_000)
        self.publisher = self.publisher_of(here)
        self.sent, self.got = 0, list[int]()

    def publisher_of(self, here: Host) -> rtmw.Publisher[bytes]:
        return rtmw.Publisher(
            self._topic, domain=here.domain, reliability=self._offered, history=self.history, max_blocking=PATIENCE
        )

    def send(self, count: int = 1, lifetime: float | None = None) -> None:
        for _ in range(count):
            assert self.publisher.publish(b"%d" % self.sent, lifetime=lifetime)
            self.sent += 1

    def take(self) -> int:
        self.got += [int(sample.value) for sample in self.subscriber.take_many(10_000)]
        return len(self.got)

    def reaches(self) -> bool:
        """Has its subscriber the last of all? Another one is sent each time that it has not."""
        self.take()
        if self.got and self.got[-1] == self.sent - 1:
            return True
        self.send()
        return False

    def told(self) -> int:
        stats = self.subscriber.stats()
        return stats.missed + stats.expired + stats.thinned


@pytest.fixture
def streams(hosts: tuple[Host, Host]) -> Iterator[list[Stream]]:
    """Each pair, in both directions, through which messages come."""
    for host in hosts:
        host.start(*SHORT)
    ways = (hosts, (hosts[1], hosts[0]))
    found = [Stream(here, there, *pair) for here, there in ways for pair in PAIRS]
    wait_until(lambda: all([stream.reaches() for stream in found]), "no streams")
    yield found
    for stream in found:
        stream.publisher.close()
        stream.subscriber.close()


@BOTH_WAYS
# Proves G270.
def test_what_was_published_is_received_or_counted_though_nodes_die(
    hosts: tuple[Host, Host], streams: list[Stream]
) -> None:
    before = [(stream.sent, len(stream.got), stream.told()) for stream in streams]

    def send() -> None:
        for stream in streams:
            stream.send(100)

    for end in (hosts[0].kill, hosts[1].kill, hosts[0].stop, hosts[1].stop):
        send()
        end()
        for stream in streams if end in (hosts[0].kill, hosts[1].kill) else ():
            stream.send(50)
        for host in hosts:
            if host.node.poll() is not None:
                host.start(*SHORT)
        wait_until(lambda: all([stream.reaches() for stream in streams]), "no streams again")
    for stream, (sent, got, told) in zip(streams, before, strict=True):
        assert len(stream.got) == len({*stream.got})
        assert stream.sent - sent == len(stream.got) - got + stream.told() - told, stream.publisher.topic
    assert all(stream.told() > told for stream, (_, _, told) in zip(streams, before, strict=True))


@BOTH_WAYS
# Proves G271.
def test_what_expires_before_it_leaves_is_counted_so(hosts: tuple[Host, Host], streams: list[Stream]) -> None:
    before = [(stream.sent, len(stream.got), stream.told()) for stream in streams]
    halt(hosts[0])
    for stream in streams[: len(PAIRS)]:
        stream.send(20, lifetime=0.001)
    over = time.monotonic() + 0.001
    wait_until(lambda: time.monotonic() > over, "the clock stands still")
    go_on(hosts[0])
    for stream, (sent, got, told) in zip(streams, before, strict=True):
        wait_until(stream.reaches, "no stream again")
        balance = partial(_balance, stream, sent - got - told)
        wait_until(lambda balance=balance: balance() == 0, f"{stream.publisher.topic}: {balance()} untold")
    assert [stream.subscriber.stats().expired for stream in streams] == [20] * len(PAIRS) + [0] * len(PAIRS)


def _balance(stream: Stream, before: int) -> int:
    stream.take()
    return stream.sent - len(stream.got) - stream.told() - before


@BOTH_WAYS
# Proves G271.
def test_what_is_thinned_before_it_leaves_is_counted_so(pair: tuple[Host, Host]) -> None:
    stream = Stream(*pair, Reliability.ADAPTIVE, Reliability.ADAPTIVE)
    stream.subscriber.close()
    stream.subscriber = rtmw.Subscriber(stream.publisher.topic, domain=pair[1].domain, depth=10_000, min_interval=0.2)
    wait_until(stream.reaches, "no stream")
    before = _balance(stream, 0)

    def thins() -> bool:
        stream.send(10)
        return pair[0].crossed("out", stream.publisher.topic)["thinned"] > 0

    wait_until(thins, "the node of the publisher thins nothing")
    wait_until(lambda: _balance(stream, before) == 0, "some are neither received nor counted")
    assert stream.subscriber.stats().thinned > 0


@BOTH_WAYS
@pytest.mark.parametrize("history", [0, 8])
# Proves G272.
def test_the_first_messages_of_a_restarted_publisher_come_or_are_counted(
    hosts: tuple[Host, Host], history: int
) -> None:
    for host in hosts:
        host.start(*SHORT)
    reliable = Reliability.RELIABLE
    stream = Stream(*hosts, reliable, reliable, history)
    topic = stream.publisher.topic
    wait_until(stream.reaches, "no stream")
    sent, got, told = stream.sent, len(stream.got), stream.told()
    for _ in range(2):
        stream.publisher.close()
        wait_until(lambda: not hosts[0].crossed("out", topic), "the route stays")
        stream.publisher = stream.publisher_of(hosts[0])
        stream.send(50)
        wait_until(stream.reaches, "no stream again")
        assert stream.got == sorted({*stream.got})
        assert stream.sent - sent == len(stream.got) - got + stream.told() - told


@pytest.mark.parametrize("hosts", [LINK], indirect=True)
# Proves G275.
def test_a_topic_of_which_some_publishers_keep_messages_and_others_do_not_comes_once(pair: tuple[Host, Host]) -> None:
    stream = Stream(*pair, Reliability.RELIABLE, Reliability.RELIABLE)
    wait_until(stream.reaches, "no stream")
    for stream.history in (8, 0):
        before, stream.publisher = stream.publisher, stream.publisher_of(pair[0])
        stream.send(50)
        wait_until(stream.reaches, "no stream from the other publisher")
        assert stream.got == sorted({*stream.got})
        assert stream.got[0] + len(stream.got) + stream.told() == stream.sent
        before.close()
