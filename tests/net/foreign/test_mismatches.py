"""Each policy that keeps a plain program and a topic here apart is named, with what both sides say."""

from __future__ import annotations

import os
from typing import Any

import pytest

import rtmw
from rtmw import Reliability
from tests import warm
from tests.net.foreign.peer import Peer
from tests.net.hosts import Host, wait_until
from topics.river import Reading

READERS: dict[str, tuple[dict[str, Any], str]] = {
    "partition": ({"partition": "a"}, "asks for partition 'a'; the default one is offered here"),
    "ownership": ({"exclusive": 1}, "asks for ownership EXCLUSIVE; SHARED is offered here"),
    "durability": ({"durable": 2}, "asks for durability TRANSIENT; VOLATILE is offered here"),
    "liveliness": ({"liveliness": 2}, "asks for liveliness MANUAL_BY_TOPIC; AUTOMATIC is offered here"),
    "lease": ({"lease": 2}, "asks for liveliness lease 2 s; none is offered here"),
    "order": ({"order": 1}, "asks for destination order BY_SOURCE_TIMESTAMP; BY_RECEPTION_TIMESTAMP is offered here"),
    "presentation": ({"scope": 1}, "asks for presentation TOPIC; INSTANCE is offered here"),
    "coherent": ({"coherent": 1}, "asks for presentation, coherent access yes; no is offered here"),
    "ordered": ({"ordered": 1}, "asks for presentation, ordered access yes; no is offered here"),
}
WRITERS: dict[str, tuple[dict[str, Any], str]] = {
    "partition": ({"partition": "a"}, "offers partition 'a'; the default one is asked for here"),
    "ownership": ({"exclusive": 1}, "offers ownership EXCLUSIVE; SHARED is asked for here"),
    "latency": ({"latency": 2}, "offers latency budget 2 s; 0 s is asked for here"),
}


def reasons(host: Host, topic: str) -> list[tuple[str, str, str]]:
    return [(one["direction"], one["cause"], one["reason"]) for one in host.info()["apart"] if one["topic"] == topic]


def wait_for(host: Host, topic: str, direction: str, words: str) -> None:
    def is_said() -> bool:
        return any((way, cause) == (direction, "qos") and words in why for way, cause, why in reasons(host, topic))

    wait_until(is_said, words)


@pytest.mark.parametrize("policy", READERS)
def test_what_a_reader_asks_for_and_nobody_here_offers(host: Host, peer: Peer, topic: str, policy: str) -> None:
    if peer.vendor == "fastdds" and policy in ("durability", "order"):
        pytest.skip("Fast DDS 2.9 makes no such reader")
    asked, words = READERS[policy]
    with rtmw.Publisher(topic, Reading, domain=host.domain, reliability=Reliability.RELIABLE):
        peer.open("reader", topic, Reading, **asked)
        wait_for(host, topic, "out", words)
        assert len(reasons(host, topic)) == 1


@pytest.mark.parametrize("policy", WRITERS)
def test_what_a_writer_offers_and_nobody_here_asks_for(host: Host, peer: Peer, topic: str, policy: str) -> None:
    offered, words = WRITERS[policy]
    with rtmw.Subscriber(topic, Reading, domain=host.domain):
        peer.open("writer", topic, Reading, **offered)
        wait_for(host, topic, "in", words)
        assert len(reasons(host, topic)) == 1


def test_doctor_and_graph_say_it_too(host: Host, peer: Peer, topic: str) -> None:
    with rtmw.Subscriber(topic, Reading, domain=host.domain):
        peer.open("writer", topic, Reading, partition="a", exclusive=1)
        words = "offers partition 'a'; the default one is asked for here, and offers ownership EXCLUSIVE; SHARED is"
        wait_for(host, topic, "in", words)
        said = " ".join(rtmw_says(host, "node", "doctor").split())
        assert topic in said
        assert words in said
        shown = rtmw_says(host, "graph")
        (line,) = [line for line in shown[shown.index(topic) :].splitlines() if words in line]
        assert "<- " in line
        assert ", meets nobody: " in line


def rtmw_says(host: Host, *words: str) -> str:
    return warm.run(*words, "--domain", str(host.number), env={**os.environ, "COLUMNS": "1000"}).stdout
