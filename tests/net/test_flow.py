"""Who cannot take fast enough slows down his publishers, and nobody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

import rtmw
from rtmw import Reliability
from rtmw.net.dds.library import Flow, matched
from tests.books import examine
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.raw import OCTETS
from tests.net.ways import BOTH_WAYS

COUNT = 3000
LASTING = 0.5
"""Seconds that a pause lasts which is not repeated."""


def fill_one_and_cross_on_another(here: Host, there: Host) -> None:
    full = rtmw.Subscriber("full", domain=there.domain, reliability=Reliability.RELIABLE, lease=PATIENCE)
    other = rtmw.Subscriber("other", domain=there.domain, reliability=Reliability.TIMELY)
    filling = rtmw.Publisher("full", domain=here.domain, reliability=Reliability.RELIABLE, max_blocking=0)
    going_on = rtmw.Publisher("other", domain=here.domain, reliability=Reliability.TIMELY)
    assert filling.wait_for_subscribers(1, timeout=PATIENCE)
    assert going_on.wait_for_subscribers(1, timeout=PATIENCE)

    def is_full() -> bool:
        accepted = filling.publish_many([bytes(1000)] * 100)
        return accepted == 0 and there.crossed("in", "full")["delayed"] > 1000

    wait_until(is_full, "the topic is not full")
    for number in range(50):
        going_on.publish(b"%d" % number)
        assert other.receive(timeout=PATIENCE).value == b"%d" % number
    assert full.stats().received == 0


# Proves G261.
def test_a_full_reliable_subscriber_delays_no_other_topic(pair: tuple[Host, Host]) -> None:
    fill_one_and_cross_on_another(*pair)


@BOTH_WAYS
def test_a_slow_reliable_subscriber_gets_every_message(pair: tuple[Host, Host]) -> None:
    here, there = pair
    slow = rtmw.Subscriber("slow", domain=there.domain, reliability=Reliability.RELIABLE, lease=PATIENCE)
    publisher = rtmw.Publisher("slow", domain=here.domain, reliability=Reliability.RELIABLE, max_blocking=0)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    got, number, in_vain = list[int](), 0, 0
    while number < COUNT:
        if publisher.publish(number.to_bytes(2000, "little")):
            number += 1
        else:  # full all the way back to here: only now is anything taken
            in_vain += 1
            got += [int.from_bytes(sample.data, "little") for sample in slow.take_many(100)]
    while len(got) < COUNT:
        got.append(int.from_bytes(slow.receive(timeout=PATIENCE).data, "little"))
    assert got == list(range(COUNT))
    assert in_vain > 0
    assert there.crossed("in", "slow")["overflowed"] == 0
    for host in pair:
        examine(host.domain)


def topic_hash(topic: str) -> int:
    """Of a topic of bytes, as pauses call it (flow.c)."""
    found = 14695981039346656037
    for byte in topic.encode():
        found = (found ^ byte) * 1099511628211 % 2**64
    return found


# Proves G314.
def test_who_does_not_read_a_topic_does_not_pause_it(participant: DomainParticipant, pair: tuple[Host, Host]) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("open", domain=there.domain, reliability=Reliability.RELIABLE, lease=PATIENCE)
    publisher = rtmw.Publisher("open", domain=here.domain, reliability=Reliability.RELIABLE, max_blocking=PATIENCE)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    pausing: Any = DataWriter(participant, Topic(participant, "rtmw/flow", Flow), qos=Qos(Policy.History.KeepAll))
    wait_until(lambda: len(matched(pausing._ref, True)) == len(pair), "nobody listens")
    with going_on(lambda: [pausing.write(Flow(topic_hash("open"), value)) for value in (1, 2)]):
        wait_until(lambda: here.info()["refusals"].get("rtmw/flow, malformed", 0) > 0, "nothing is heard of it")
        for number in range(20):
            assert publisher.publish(b"%d" % number)
            assert subscriber.receive(timeout=PATIENCE / 2).value == b"%d" % number
        wait_until(lambda: here.info()["refusals"].get("rtmw/flow, unmatched", 0) > 0, "it is not counted")


# Proves G314.
def test_who_reads_a_topic_pauses_it_for_all(participant: DomainParticipant, pair: tuple[Host, Host]) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("open", domain=there.domain, reliability=Reliability.RELIABLE, lease=PATIENCE)
    publisher = rtmw.Publisher("open", domain=here.domain, reliability=Reliability.RELIABLE, max_blocking=0)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    quality = Qos(Policy.Reliability.Reliable(0), Policy.History.KeepAll)
    reading: Any = DataReader(participant, Topic(participant, "open", OCTETS), qos=quality)
    pausing: Any = DataWriter(participant, Topic(participant, "rtmw/flow", Flow), qos=Qos(Policy.History.KeepAll))
    wait_until(lambda: len(matched(pausing._ref, True)) == len(pair), "nobody listens")
    wait_until(lambda: here.crossed("out", "open", "plain")["readers"] == 1, "it is not read")

    def is_held() -> bool:
        publisher.publish(b"waits")
        try:
            subscriber.receive(timeout=2 * LASTING)
        except TimeoutError:
            return True
        return False

    with going_on(lambda: pausing.write(Flow(topic_hash("open"), 1))):
        wait_until(is_held, "it is not paused")
    assert subscriber.receive(timeout=PATIENCE).value == b"waits"
    wait_until(lambda: len(reading.take(1000)) > 0, "the reader has nothing")


@contextmanager
def going_on(act: Callable[[], object]) -> Generator[None]:
    """Do it again and again meanwhile, often enough that a pause does not end."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(LASTING / 10):
            act()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_pauses_that_are_over_make_room_for_others(participant: DomainParticipant, pair: tuple[Host, Host]) -> None:
    pausing: Any = DataWriter(participant, Topic(participant, "rtmw/flow", Flow), qos=Qos(Policy.History.KeepAll))
    wait_until(lambda: len(matched(pausing._ref, True)) == len(pair), "nobody listens")
    for number in range(1000):
        pausing.write(Flow(number, 1))
    time.sleep(2 * LASTING)
    fill_one_and_cross_on_another(*pair)
    assert pair[1].crossed("in", "full")["overflowed"] == 0
    assert pair[0].info()["refusals"].get("rtmw/flow, crowded", 0) > 0
