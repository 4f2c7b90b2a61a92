"""Hosts in network namespaces: cables are pulled, datagrams lost, nodes killed and stopped; the promises hold."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from tests.books import examine
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until
from tests.net.namespaces import Network, obstacle
from tests.whole import LONG

pytestmark = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))


Build = Callable[..., tuple[Network, list[Host]]]


@pytest.fixture
def build(dds_domain: int, tmp_path: Path) -> Iterator[Build]:
    """Hosts at one bridge, their nodes not started; their books balance at the end."""
    made: list[tuple[Network, list[Host]]] = []

    def make(count: int, mtu: int = 1500, unicast: bool = False, pool: str = "8M") -> tuple[Network, list[Host]]:
        network = Network(count, mtu)
        hosts: list[Host] = []
        made.append((network, hosts))
        for at in range(count):
            peers = [other for other in range(count) if other != at] if unicast else []
            hosts.append(Host(free_number(), dds_domain, tmp_path, network.place(at, *peers), pool))
        return network, hosts

    yield make
    for network, hosts in made:
        for host in hosts:
            host.end()
        network.close()


class Stream:
    """Numbers from one host to others: a RELIABLE topic, never more than the publisher may send at the time."""

    def __init__(
        self, source: Host, *sinks: Host, topic: str = "stream", size: int = 30_000, max_blocking: float = 0
    ) -> None:
        self.sent, self._size = 0, size
        self.got: list[list[int]] = [[] for _ in sinks]
        self.subscribers = [
            rtmw.Subscriber(topic, domain=sink.domain, reliability=Reliability.RELIABLE, lease=PATIENCE)
            for sink in sinks
        ]
        self.publisher = rtmw.Publisher(
            topic, domain=source.domain, reliability=Reliability.RELIABLE, max_blocking=max_blocking
        )

    def move(self, most: int = 20) -> None:
        """Publish what goes, take what is there."""
        for _ in range(most):
            if not self.publisher.publish(self.sent.to_bytes(self._size, "little")):
                break
            self.sent += 1
        self.take()

    def take(self) -> None:
        for got, subscriber in zip(self.got, self.subscribers, strict=True):
            got += [int.from_bytes(sample.data, "little") for sample in subscriber.take_many(1000)]

    def reaches_all(self) -> bool:
        """Send until every subscriber hears it."""
        self.move(1)
        return all(self.got)

    def fills_up(self) -> bool:
        """Publish until nothing more is accepted."""
        before = self.sent
        self.move(100)
        return self.sent == before

    def has_arrived(self) -> bool:
        self.take()
        return all(got[-1] == self.sent - 1 for got in self.got)

    def assert_whole(self) -> None:
        """Nothing is missing from the first that a subscriber heard to the last that was sent."""
        wait_until(self.has_arrived, "the last message does not arrive")
        for got in self.got:
            assert got == list(range(got[0], self.sent))


def start(hosts: list[Host], *arguments: str) -> None:
    for host in hosts:
        host.start(*arguments)


def goes_on(stream: Stream, count: int = 50) -> None:
    """So many more messages are accepted."""
    until = stream.sent + count

    def moved() -> bool:
        stream.move()
        return stream.sent >= until

    wait_until(moved, "it does not go on")


LASTING = ("--lease", "30")
"""Longer than any of the faults that are to be outlived."""


# Proves G252.
def test_reliable_messages_reach_two_hosts_whole_though_their_cables_are_pulled_for_a_moment(build: Build) -> None:
    network, hosts = build(3)
    start(hosts, *LASTING)
    stream = Stream(hosts[0], hosts[1], hosts[2])
    wait_until(stream.reaches_all, "no stream")
    for cut in (1, 0):
        network.cut(cut)
        wait_until(stream.fills_up, "the publisher does not notice that nothing arrives")
        network.heal(cut)
        goes_on(stream)
    stream.assert_whole()
    for host in hosts:
        examine(host.domain)


@pytest.mark.parametrize("mute", [0, pytest.param(1, marks=LONG)])
def test_reliable_messages_arrive_whole_though_one_direction_was_cut(build: Build, mute: int) -> None:
    network, hosts = build(2, unicast=True)
    start(hosts, *LASTING)
    stream = Stream(*hosts)
    wait_until(stream.reaches_all, "no stream")
    network.mute(mute, 1 - mute)
    wait_until(stream.fills_up, "the publisher does not notice that nothing arrives")
    network.unmute(mute, 1 - mute)
    goes_on(stream)
    stream.assert_whole()


@pytest.mark.parametrize(
    ("percent", "mtu", "size"),
    [
        (10, 1500, 200),
        pytest.param(30, 1500, 5_000, marks=LONG),
        pytest.param(10, 1500, 200_000, marks=LONG),
        (0, 1280, 900_000),
    ],
)
# Proves G252.
def test_reliable_messages_arrive_whole_though_datagrams_are_lost(
    build: Build, percent: int, mtu: int, size: int
) -> None:
    _, hosts = build(2, mtu=mtu)
    for host in hosts:
        host.wire = LOSSY.format(10 * percent)
    start(hosts, *LASTING)
    stream = Stream(*hosts, size=size)
    wait_until(stream.reaches_all, "no stream")
    goes_on(stream, 20 if size > 10_000 else 1000)
    stream.assert_whole()


LOSSY = "<CycloneDDS><Domain><Internal><Test><XmitLossiness>{}</XmitLossiness></Test></Internal></Domain></CycloneDDS>"


def test_a_cut_host_delays_no_other_and_its_subscribers_are_told(build: Build) -> None:
    network, hosts = build(3)
    start(hosts, *LASTING)
    blocked = Stream(hosts[0], hosts[1], topic="blocked")
    told = rtmw.Subscriber("free", domain=hosts[1].domain, deadline=2.0)
    free = rtmw.Subscriber("free", domain=hosts[2].domain, reliability=Reliability.TIMELY)
    publisher = rtmw.Publisher("free", domain=hosts[0].domain, reliability=Reliability.TIMELY)
    wait_until(blocked.reaches_all, "no stream")
    wait_until(lambda: len(hosts[0].info()["out"]) == 2 and hosts[0].crossed("out", "free")["readers"] == 2, "no match")
    network.cut(1)
    wait_until(blocked.fills_up, "the publisher does not notice that nothing arrives")
    for number in range(50):
        publisher.publish(b"%d" % number)
        assert free.receive(timeout=PATIENCE).value == b"%d" % number
    with pytest.raises(rtmw.DeadlineMissed):
        told.receive(timeout=PATIENCE)
    network.heal(1)
    goes_on(blocked)
    blocked.assert_whole()


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=LONG)])
def test_a_node_that_is_gone_frees_its_publishers_elsewhere_and_is_heard_again(build: Build, number: int) -> None:
    _, hosts = build(2)
    start(hosts, "--lease", "3")
    stream = Stream(*hosts)
    wait_until(stream.reaches_all, "no stream")
    if number == signal.SIGSTOP:
        halt(hosts[1])
    else:
        hosts[1].kill()
    wait_until(stream.fills_up, "the publisher does not notice that nothing arrives")
    goes_on(stream, 500)  # the lease is over
    if number == signal.SIGSTOP:
        go_on(hosts[1])
    else:
        hosts[1].start("--lease", "3")
    before = stream.sent
    wait_until(lambda: stream.move(1) is None and stream.got[0][-1] > before, "it is not heard again")
    assert stream.got[0] == sorted(set(stream.got[0]))
    for host in hosts:
        examine(host.domain)


# Proves G264.
def test_a_node_that_stands_still_is_passed_over_and_says_what_it_missed(build: Build) -> None:
    _, hosts = build(2)
    start(hosts, "--lease", "3")
    stream = Stream(*hosts, max_blocking=0.2)
    wait_until(stream.reaches_all, "no stream")
    halt(hosts[0])
    wait_until(stream.fills_up, "the publisher does not notice that its node stands")
    goes_on(stream, 500)
    go_on(hosts[0])
    before = stream.sent
    wait_until(lambda: stream.move(1) is None and stream.got[0][-1] > before, "it does not carry the topic again")

    def counted() -> bool:
        counters = hosts[0].crossed("out", "stream")
        return counters.get("lapses", 0) >= 1 and counters.get("missed", 0) > 0

    wait_until(counted, "the node does not count it")
    wait_until(lambda: "messages were missed" in hosts[0].said, "the log does not say it")


# Proves G252.
def test_a_reliable_topic_arrives_whole_on_a_host_with_little_memory(build: Build) -> None:
    _, hosts = build(2, pool="2M")
    start(hosts, *LASTING)
    stream = Stream(*hosts, size=100_000)
    wait_until(stream.reaches_all, "no stream")
    goes_on(stream, 100)
    stream.assert_whole()
    for host in hosts:
        examine(host.domain)
