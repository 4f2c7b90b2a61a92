"""A node that was killed is superseded by the next one of its host at once, however long its lease."""

from __future__ import annotations

import rtmw
from rtmw import Reliability
from rtmw.net.predecessor import dead_predecessors
from rtmw.net.settings import STATUS_TOPIC, Settings
from tests.net.hosts import PATIENCE, Host, wait_until

LASTING = ("--lease", str(20 * PATIENCE))
"""A lease that outlasts every test."""


def test_reliable_publishers_elsewhere_go_on_when_a_killed_node_is_back_and_wait_for_no_lease(
    hosts: tuple[Host, Host],
) -> None:
    here, there = hosts
    for host in hosts:
        host.start(*LASTING)
    subscriber = rtmw.Subscriber("on", domain=there.domain, reliability=Reliability.RELIABLE, lease=PATIENCE)
    publisher = rtmw.Publisher("on", domain=here.domain, reliability=Reliability.RELIABLE, max_blocking=0)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    publisher.publish(b"before")
    assert subscriber.receive(timeout=PATIENCE).value == b"before"
    there.kill()
    wait_until(lambda: not publisher.publish(bytes(30_000)), "the publisher does not notice that nothing arrives")
    there.start(*LASTING)
    wait_until(lambda: publisher.publish(b"after") and has_come(b"after", subscriber), "the publisher is refused")


def has_come(message: bytes, subscriber: rtmw.Subscriber[bytes]) -> bool:
    return any(bytes(sample.data) == message for sample in subscriber.take_many(1000))


def test_a_peer_that_was_superseded_is_no_longer_told_of(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    for host in hosts:
        host.start(*LASTING)
    wait_until(lambda: len(here.info()["peers"]) == 1, "the peer is not heard")
    before = there.node.pid
    for _ in range(2):  # two that are killed one after the other
        there.kill()
        there.start(*LASTING)
    wait_until(lambda: f"({before}) has left" in here.said, "the peer has not left")
    wait_until(lambda: [peer["pid"] for peer in here.info()["peers"]] == [there.node.pid], "its successor is not heard")
    wait_until(lambda: here.info()["participants"] == 1, "there are more of it than one")


def test_a_node_that_lives_is_nobodys_predecessor(hosts: tuple[Host, Host]) -> None:
    host, other = hosts
    settings = Settings(domain=host.number, dds_domain=host.dds_domain)
    host.start()
    guid = bytes.fromhex(host.info()["guid"])
    assert dead_predecessors(host.domain, settings) == []
    host.kill()
    with rtmw.Publisher(STATUS_TOPIC, history=1, domain=host.domain) as stranger:
        for text in (
            b"{",
            b"[]",
            b"{}",
            b'{"domain": %d, "dds_domain": %d, "guid": "ab"}' % (host.number, host.dds_domain),
        ):
            stranger.publish(text)
    assert dead_predecessors(host.domain, settings) == [guid]
    assert dead_predecessors(host.domain, Settings(domain=host.number, dds_domain=other.number)) == []
