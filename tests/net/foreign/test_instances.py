"""What plain writers say of the instances of a keyed topic is counted, and makes no message."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rtmw
from tests.conftest import free_number
from tests.net.foreign.peer import Peer
from tests.net.hosts import PATIENCE, Host, wait_until
from topics.river import Station

RELIABLE = rtmw.Reliability.RELIABLE
COUNT = 50
ENDED = {
    "cyclonedds": {"disposed": 1, "unregistered": 2},
    "fastdds": {"hashed": 2, "unregistered": 2},
}
"""Of two instances, one disposed and written again, the other unregistered, once their writer has gone. Fast DDS names
an instance by the hash of its key, of which the library tells the readers nothing: to them both were there until then.
"""


@pytest.fixture
def kinds(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(compiled))
    return importlib.import_module("kinds")


def told(host: Host, topic: str) -> dict[str, int]:
    """What is counted of it, while it crosses and before."""
    info = host.info()
    rows = [row for rows in (info["in"], info["ended"]["in"]) for row in rows if row["topic"] == topic]
    return {name: sum(row[name] for row in rows) for name in ("received", "disposed", "unregistered", "hashed")}


def wait_for(host: Host, topic: str, **counts: int) -> None:
    until = time.monotonic() + PATIENCE
    expected = {"received": 0, "disposed": 0, "unregistered": 0, "hashed": 0, **counts}
    while (now := told(host, topic)) != expected:
        assert time.monotonic() < until, f"it is {now}, and not {expected}"
        time.sleep(0.02)


def wait_until_it_ended(host: Host, topic: str) -> None:
    wait_until(lambda: topic in [row["topic"] for row in host.info()["ended"]["in"]], "it is still heard")


def test_what_is_disposed_and_unregistered_is_counted_and_no_message(
    host: Host, peer: Peer, topic: str, kinds: Any
) -> None:
    is_hashed = peer.vendor == "fastdds"
    one, two = (kinds.Measured(number, 0.5, [1, 2, 3]) for number in (1, 2))
    peer.open("writer", topic, kinds.Measured)
    with rtmw.Subscriber(topic, kinds.Measured, domain=host.domain, reliability=RELIABLE) as subscriber:
        assert peer.next(topic, "matched") == "1"
        for message in (one, two):
            peer.write(topic, message)
            assert subscriber.receive(timeout=PATIENCE).value == message
        peer.let_go("dispose", topic, one)
        wait_for(host, topic, received=2, **({"hashed": 1} if is_hashed else {"disposed": 1}))
        peer.let_go("unregister", topic, two)
        wait_for(host, topic, received=2, **({"hashed": 2} if is_hashed else {"disposed": 1, "unregistered": 1}))
        peer.write(topic, one)
        assert subscriber.receive(timeout=PATIENCE).value == one
        peer.close(topic)
        wait_until_it_ended(host, topic)
        wait_for(host, topic, received=3, **ENDED[peer.vendor])
        assert subscriber.take() is None


def test_messages_that_come_before_a_dispose_are_delivered_and_it_counts_once(
    host: Host, peer: Peer, topic: str, kinds: Any
) -> None:
    messages = [kinds.Measured(1, float(number), [1, 2, 3]) for number in range(COUNT)]
    peer.open("writer", topic, kinds.Measured)
    with rtmw.Subscriber(topic, kinds.Measured, domain=host.domain, reliability=RELIABLE, depth=COUNT) as subscriber:
        assert peer.next(topic, "matched") == "1"
        for message in messages:
            peer.write(topic, message)
        peer.let_go("dispose", topic, messages[0])
        assert [subscriber.receive(timeout=PATIENCE).value for _ in messages] == messages
        wait_for(host, topic, received=COUNT, **({"hashed": 1} if peer.vendor == "fastdds" else {"disposed": 1}))
        assert subscriber.take() is None


def test_a_topic_without_keys_has_no_instances(host: Host, peer: Peer, topic: str, kinds: Any) -> None:
    peer.open("writer", topic, kinds.Lone)
    with rtmw.Subscriber(topic, kinds.Lone, domain=host.domain, reliability=RELIABLE) as subscriber:
        assert peer.next(topic, "matched") == "1"
        peer.write(topic, kinds.Lone(1))
        assert subscriber.receive(timeout=PATIENCE).value == kinds.Lone(1)
        peer.close(topic)
        wait_until_it_ended(host, topic)
        wait_for(host, topic, received=1)
        assert subscriber.take() is None


@pytest.fixture
def other(host: Host, tmp_path: Path) -> Iterator[Host]:
    """Another host with a node."""
    made = Host(free_number(), host.dds_domain, tmp_path)
    made.start()
    yield made
    made.end()


def test_what_a_node_writes_has_no_instances(host: Host, other: Host, topic: str) -> None:
    with rtmw.Subscriber(topic, Station, domain=host.domain, reliability=RELIABLE) as subscriber:
        with rtmw.Publisher(topic, Station, domain=other.domain, reliability=RELIABLE) as publisher:
            assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
            publisher.publish(Station("s1", "Weir", "Danube", 48.2, 16.3, 1930.5))
            assert subscriber.receive(timeout=PATIENCE).value.id == "s1"
        wait_until_it_ended(host, topic)
        wait_for(host, topic, received=1)
