"""A node whose DDS library is laid out otherwise than rtmw expects carries topics by public calls alone.

The engine of such a node is built with structures that are 8 bytes off (dds.h, RTMW_MISFIT): whatever it still did
with a structure of the library would end or mislead it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtmw
from rtmw import Reliability
from rtmw.cli.node_doctor import checks
from rtmw.cli.node_status import find_status
from rtmw.net.dds.library import DataReader, DataWriter, DomainParticipant, Policy, Qos, Topic
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.test_library import build_another_engine
from topics.river import Quality, Reading

Pair = tuple[Host, Host]
COUNT = 3000
LARGE = 400_000
READING = Reading("A1", "pH", 7.4, Quality.GOOD, 1)
DIFFERENCE = "it lays out struct ddsi_sertype_ops differently"


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package whose node takes the DDS library for one of another release."""
    folder = tmp_path_factory.mktemp("another")
    build_another_engine(folder, "-DRTMW_MISFIT")
    return folder


@pytest.fixture
def mixed(hosts: Pair, another: Path) -> Iterator[Pair]:
    """Two hosts with nodes, the first of which uses public calls alone."""
    hosts[0].code = another
    for host in hosts:
        host.start()
    yield hosts
    assert hosts[0].node.poll() is None, "the node ended"


def both_ways(pair: Pair) -> tuple[Pair, Pair]:
    return pair, (pair[1], pair[0])


@pytest.mark.parametrize("reliability", list(Reliability))
# Proves G304.
def test_all_that_a_message_is_crosses_in_both_directions(mixed: Pair, reliability: Reliability) -> None:
    for here, there in both_ways(mixed):
        topic = f"river/{here.number}"
        subscriber = rtmw.Subscriber(topic, Reading, domain=there.domain, reliability=reliability)
        near = rtmw.Subscriber(topic, Reading, domain=here.domain, reliability=reliability)
        publisher = rtmw.Publisher(topic, Reading, domain=here.domain, reliability=reliability)
        assert publisher.wait_for_subscribers(2, timeout=PATIENCE)
        publisher.publish(READING, priority=5, lifetime=60.0)
        came, sent = subscriber.receive(timeout=PATIENCE), near.receive(timeout=PATIENCE)
        assert came.value == READING
        assert (came.priority, came.source_time_ns) == (5, sent.source_time_ns)
        assert came.publisher == sent.publisher


# Proves G304.
def test_messages_of_all_sizes_cross_whole_and_each_is_copied(mixed: Pair) -> None:
    for here, there in both_ways(mixed):
        topic = f"raw/{here.number}"
        subscriber = rtmw.Subscriber(topic, domain=there.domain)
        publisher = rtmw.Publisher(topic, domain=here.domain)
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        for size in (0, 1, 3, 128, 5_000, LARGE):
            payload = np.random.default_rng(size).bytes(size)
            publisher.publish(payload)
            assert bytes(subscriber.receive(timeout=PATIENCE).data) == payload, size
        wait_until(lambda here=here, topic=topic: here.crossed("out", topic)["sent"] == 6, "the counters are late")  # type: ignore[misc]
        wait_until(lambda there=there, topic=topic: there.crossed("in", topic)["received"] == 6, "they are late")  # type: ignore[misc]
        assert mixed[0].crossed("out" if here is mixed[0] else "in", topic)["uncopied"] == 0


# Proves G304.
def test_of_a_reliable_topic_nothing_is_lost_though_its_reader_is_slow_and_packs_are_sent(
    mixed: Pair,
) -> None:
    reliable = Reliability.RELIABLE
    for here, there in both_ways(mixed):
        topic = f"many/{here.number}"
        subscriber = rtmw.Subscriber(topic, domain=there.domain, reliability=reliable, depth=10)
        publisher = rtmw.Publisher(topic, domain=here.domain, reliability=reliable, depth=100, max_blocking=PATIENCE)
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        begun, got = 0, list[int]()
        while len(got) < COUNT:
            while begun < min(COUNT, len(got) + 2000):
                assert publisher.publish(begun.to_bytes(4, "little"))
                begun += 1
            got.append(int.from_bytes(subscriber.receive(timeout=PATIENCE).data, "little"))
        assert got == list(range(COUNT))
        wait_until(lambda here=here, topic=topic: here.crossed("out", topic)["packs"] > 0, "there was no pack")  # type: ignore[misc]


def test_plain_programs_read_and_write_with_it_and_what_they_dispose_is_counted(
    hosts: Pair, another: Path, participant: DomainParticipant
) -> None:
    host = hosts[0]
    host.code = another
    host.start()
    reliable = Qos(Policy.Reliability.Reliable(int(PATIENCE * 1e9)))
    reader: Any = DataReader(participant, Topic(participant, "out", Reading), qos=reliable)
    writer: Any = DataWriter(participant, Topic(participant, "in", Reading), qos=reliable)
    subscriber = rtmw.Subscriber("in", Reading, domain=host.domain, reliability=Reliability.RELIABLE)
    publisher = rtmw.Publisher("out", Reading, domain=host.domain, reliability=Reliability.RELIABLE)
    wait_until(lambda: len(writer.get_matched_subscriptions()) == 1, "the node does not read")
    wait_until(lambda: len(reader.get_matched_publications()) == 1, "the node does not write")
    writer.write(READING)
    assert subscriber.receive(timeout=PATIENCE).value == READING
    writer.dispose(READING)
    wait_until(lambda: host.crossed("in", "in")["disposed"] == 1, "the instance is not let go")
    publisher.publish(READING)
    wait_until(lambda: reader.read() == [READING], "it does not arrive")


# Proves G304.
def test_it_is_said_once_in_the_log_and_in_what_the_node_shows(hosts: Pair, another: Path) -> None:
    host = hosts[0]
    host.code = another
    host.start()
    assert host.said.count(DIFFERENCE) == 1
    status = find_status(host.number)
    assert status is not None
    assert DIFFERENCE in (status.public_calls_only or "")
    found = [check for check in checks(host.number, status) if check.name == "DDS library"]
    assert [DIFFERENCE in check.found and bool(check.advice) for check in found] == [True]


def test_of_a_library_that_fits_nothing_is_said(hosts: Pair) -> None:
    hosts[0].start()
    status = find_status(hosts[0].number)
    assert status is not None
    assert status.public_calls_only is None
    assert "public calls" not in hosts[0].said
