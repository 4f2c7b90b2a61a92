"""Peers that SIGHUP adds and takes away: the node meets them, and the streams to all others stay whole."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from tests.conftest import free_number
from tests.net.hosts import Host, wait_until
from tests.net.namespaces import INTERFACE, Network, obstacle
from tests.whole import LONG

pytestmark = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))

PRUNED_S = 35.0
"""After half a minute the DDS library forgets peers that it has looked for in vain, unless it is told otherwise."""


class Three:
    """Hosts at one bridge; the first one's peers stand in a file, and nobody finds it by multicast."""

    def __init__(self, dds_domain: int, folder: Path) -> None:
        self.network, self.file = Network(3), folder / "node.toml"
        self.hosts = [Host(free_number(), dds_domain, folder, self.network.place(at)) for at in range(3)]

    def name(self, *peers: int | str) -> None:
        """Write peers, hosts by their numbers, into the file of the first one."""
        named = [Network.address(peer) if isinstance(peer, int) else peer for peer in peers]
        self.file.write_text(f'interface = "{INTERFACE}"\nlease = 3\npeers = {named}\n')

    def start(self, *arguments: str) -> None:
        """`arguments`: of the first one."""
        for host in self.hosts[1:]:
            host.start("--lease", "3")
        self.hosts[0].start("--config", str(self.file), *arguments)

    def reload(self) -> None:
        self.hosts[0].node.send_signal(signal.SIGHUP)

    def close(self) -> None:
        for host in self.hosts:
            host.end()
        self.network.close()


@pytest.fixture
def three(dds_domain: int, tmp_path: Path) -> Iterator[Three]:
    made = Three(dds_domain, tmp_path)
    yield made
    made.close()


class Stream:
    """Numbers on a RELIABLE topic, from the first host to others, each message sent until it is accepted."""

    def __init__(self, three: Three, *to: int, size: int = 8) -> None:
        reliable = Reliability.RELIABLE
        self.subscribers = {
            at: rtmw.Subscriber("stream", domain=three.hosts[at].domain, reliability=reliable, depth=10_000)
            for at in to
        }
        self.publisher = rtmw.Publisher("stream", domain=three.hosts[0].domain, reliability=reliable, max_blocking=0)
        self.sent, self.got, self._size = 0, {at: list[int]() for at in to}, size

    def move(self) -> None:
        self.sent += self.publisher.publish(self.sent.to_bytes(self._size, "little"))
        for at, subscriber in self.subscribers.items():
            self.got[at] += [int.from_bytes(sample.data, "little") for sample in subscriber.take_many(1000)]

    def reaches(self, at: int) -> None:
        """Something that is sent from now on arrives there."""
        mark = self.sent

        def has_come() -> bool:
            self.move()
            return bool(self.got[at]) and self.got[at][-1] >= mark

        wait_until(has_come, f"nothing reaches host {at}")

    def missed(self, at: int) -> int:
        got = self.got[at]
        return got[-1] - got[0] + 1 - len(got)


# Proves G303.
def test_a_peer_that_sighup_adds_gets_messages_and_the_stream_to_another_one_stays_whole(three: Three) -> None:
    three.name(1)
    three.start()
    stream = Stream(three, 1, 2)
    stream.reaches(1)
    assert not stream.got[2]
    three.name(1, 2)
    three.reload()
    stream.reaches(2)
    stream.reaches(1)
    log = three.hosts[0].said
    assert f"peers are now {Network.address(1)}, {Network.address(2)}; the node begins anew" in log
    assert log.count("is carried on") == 2
    assert stream.got[1] == sorted({*stream.got[1]})
    assert stream.missed(1) == stream.subscribers[1].stats().missed == 0


# Proves G303.
def test_what_was_queued_for_a_peer_when_sighup_added_another_one_arrives(three: Three) -> None:
    three.name(1)
    three.start("--max-rate", "100K")
    stream = Stream(three, 1, 2, size=1000)
    stream.reaches(1)
    for _ in range(50):  # half a second of what may leave
        stream.move()
    last = stream.sent - 1
    three.name(1, 2)
    three.reload()
    stream.reaches(2)
    stream.reaches(1)
    assert {*range(stream.got[1][0], last + 1)} <= {*stream.got[1]}


def test_a_peer_that_sighup_takes_away_gets_nothing_more_and_is_waited_for_no_longer(three: Three) -> None:
    three.name(1, 2)
    three.start()
    stream = Stream(three, 1, 2)
    stream.reaches(1)
    stream.reaches(2)
    three.name(1)
    three.reload()
    wait_until(lambda: three.hosts[0].said.count("is carried on") == 2, "the node does not begin anew")
    mark = stream.sent
    stream.reaches(1)
    wait_until(lambda: len(three.hosts[0].info()["peers"]) == 1, "not one peer is heard")
    stream.reaches(1)
    assert stream.got[2][-1] < mark


# Proves G303.
def test_peers_that_cannot_be_found_change_nothing(three: Three) -> None:
    three.name(1)
    three.start()
    stream = Stream(three, 1)
    stream.reaches(1)
    three.name(1, "host.invalid")
    three.reload()
    first = three.hosts[0]
    said = "the peers stay as they are: peers: the host 'host.invalid' cannot be found"
    wait_until(lambda: said in first.said, "the log does not say it")
    stream.reaches(1)
    assert first.said.count("is carried on") == 1
    assert stream.missed(1) == 0


# Proves G305.
def test_a_peer_that_comes_later_and_names_nobody_is_found(three: Three) -> None:
    three.name(1)
    first, second, _ = three.hosts
    first.start("--config", str(three.file))
    stream = Stream(three, 1)
    stream.move()  # the node has looked at the bus since, and found nobody
    second.start("--lease", "3")
    stream.reaches(1)


@LONG
# Proves G305.
def test_a_peer_that_comes_long_after_the_node_is_found(three: Three) -> None:
    three.name(1)
    first, second, _ = three.hosts
    first.start("--config", str(three.file))
    time.sleep(PRUNED_S)
    second.start("--lease", "3")
    Stream(three, 1).reaches(1)
