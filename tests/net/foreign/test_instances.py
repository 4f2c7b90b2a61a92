"""What plain writers say of the instances of a keyed topic is counted, and makes no message."""

from __future__ import annotations

import importlib
import time
from collections import Counter
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


@pytest.fixture
def kinds(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(compiled))
    return importlib.import_module("kinds")


def told(host: Host, topic: str) -> dict[str, int]:
    counters = Counter(host.crossed("in", topic)) + Counter(
        {name: value for row in host.info()["ended"]["in"] if row["topic"] == topic for name, value in row.items()
         if isinstance(value, int)}
    )  # fmt: skip
    return {name: counters[name] for name in ("received", "disposed", "unregistered", "hashed")}


def wait_for(host: Host, peer: Peer, topic: str, received: int, disposed: int, unregistered: int) -> None:
    """Fast DDS names an instance by the hash of its key, of which the library does not tell what is to become of it."""
    counts = {"received": received, "disposed": disposed, "unregistered": unregistered, "hashed": 0}
    if peer.vendor == "fastdds":
        counts |= {"disposed": 0, "unregistered": 0, "hashed": disposed + unregistered}
    until = time.monotonic() + PATIENCE
    while (now := told(host, topic)) != counts:
        assert time.monotonic() < until, f"it is {now}, and not {counts}"


def test_what_is_disposed_and_unregistered_is_counted_and_no_message(
    host: Host, peer: Peer, topic: str, kinds: Any
) -> None:
    one, two = (kinds.Measured(number, 0.5, [1, 2, 3]) for number in (1, 2))
    peer.open("writer", topic, kinds.Measured)
    with rtmw.Subscriber(topic, kinds.Measured, domain=host.domain, reliability=RELIABLE) as subscriber:
        assert peer.next(topic, "matched") == "1"
        for message in (one, two):
            peer.write(topic, message)
            assert subscriber.receive(timeout=PATIENCE).value == message
        peer.let_go("dispose", topic, one)
        wait_for(host, peer, topic, received=2, disposed=1, unregistered=0)
        peer.let_go("unregister", topic, two)
        wait_for(host, peer, topic, received=2, disposed=1, unregistered=1)
        peer.write(topic, one)
        assert subscriber.receive(timeout=PATIENCE).value == one
        peer.close(topic)
        wait_for(host, peer, topic, received=3, disposed=1, unregistered=2)
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
        wait_for(host, peer, topic, received=COUNT, disposed=1, unregistered=0)
        assert subscriber.take() is None


def test_a_topic_without_keys_has_no_instances(host: Host, peer: Peer, topic: str, kinds: Any) -> None:
    peer.open("writer", topic, kinds.Lone)
    with rtmw.Subscriber(topic, kinds.Lone, domain=host.domain, reliability=RELIABLE) as subscriber:
        assert peer.next(topic, "matched") == "1"
        peer.write(topic, kinds.Lone(1))
        assert subscriber.receive(timeout=PATIENCE).value == kinds.Lone(1)
        peer.close(topic)
        wait_until(lambda: not host.info()["in"], "its writer is still heard")
        assert told(host, topic) == {"received": 1, "disposed": 0, "unregistered": 0, "hashed": 0}
        assert subscriber.take() is None


def test_what_a_node_writes_has_no_instances(host: Host, topic: str, tmp_path: Path) -> None:
    other = Host(free_number(), host.dds_domain, tmp_path)
    other.start()
    with rtmw.Subscriber(topic, Station, domain=host.domain, reliability=RELIABLE) as subscriber:
        with rtmw.Publisher(topic, Station, domain=other.domain, reliability=RELIABLE) as publisher:
            assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
            publisher.publish(Station("s1", "Weir", "Danube", 48.2, 16.3, 1930.5))
            assert subscriber.receive(timeout=PATIENCE).value.id == "s1"
        wait_until(lambda: not [row for row in host.info()["in"] if row["topic"] == topic], "it is still heard")
        assert told(host, topic) == {"received": 1, "disposed": 0, "unregistered": 0, "hashed": 0}
    other.end()
