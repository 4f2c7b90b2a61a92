"""What cannot cross is refused, and the node says why."""

from __future__ import annotations

import pytest

import rtmw
from rtmw import Reliability
from tests.net.foreign.peer import Peer
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.test_node import node_info
from topics.airport import DelayAlarm
from topics.river import Quality, Reading, Station

READING = Reading("s1", "pH", 7.5, Quality.GOOD, 1)


def test_a_type_that_nobody_describes_is_refused_until_a_program_here_knows_it(
    host: Host, peer: Peer, topic: str
) -> None:
    if peer.vendor != "fastdds":
        pytest.skip("cyclonedds describes its types")
    peer.open("writer", topic, Reading)
    with rtmw.Subscriber(topic, rtmw.ANY, domain=host.domain):
        words = "subscribe with the type's class"
        wait_until(lambda: words in str(node_info(host)["refused"]), "info does not say it")
        with rtmw.Subscriber(topic, Reading, domain=host.domain, reliability=Reliability.RELIABLE) as knowing:
            assert peer.next(topic, "matched") == "1"
            peer.write(topic, READING)
            assert knowing.receive(timeout=PATIENCE).value == READING
            wait_until(lambda: words not in str(node_info(host)["refused"]), "info still says it")
    assert host.said.count(words) == 1


def test_what_is_no_message_of_its_type_is_counted_and_what_is_one_arrives(host: Host, peer: Peer, topic: str) -> None:
    if peer.vendor != "fastdds":
        pytest.skip("only Fast DDS lets a program lie about its type")
    peer.open("writer", topic, DelayAlarm, alias="river::Station")
    with (
        rtmw.Subscriber(topic, Station, domain=host.domain, reliability=Reliability.RELIABLE) as subscriber,
        rtmw.Subscriber(f"{topic}/good", Reading, domain=host.domain, reliability=Reliability.RELIABLE) as good,
    ):
        peer.open("writer", f"{topic}/good", Reading)
        assert peer.next(topic, "matched") == "1"
        assert peer.next(f"{topic}/good", "matched") == "1"
        peer.write(topic, DelayAlarm("x", "y", 1))
        peer.write(f"{topic}/good", READING)
        assert good.receive(timeout=PATIENCE).value == READING
        assert subscriber.take() is None
        wait_until(lambda: f"deserialization {topic}/river::Station failed" in host.said, "the log does not say it")
        wait_until(lambda: host.crossed("in", topic)["malformed"] == 1, "it is not counted")
        assert host.crossed("in", f"{topic}/good")["malformed"] == 0
