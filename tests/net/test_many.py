"""Many topics at a time."""

from __future__ import annotations

import resource
from typing import Any

import rtmw
from rtmw.net.dds.idl_class import idl_class
from rtmw.net.dds.library import DataWriter, DomainParticipant, Policy, Qos, Topic
from rtmw.types import resolve
from tests.net.hosts import PATIENCE, Host, wait_until

TOPICS = 100
MEMORY = 4 << 30
"""Bytes of address space that a node may have: most of it are stacks of threads, of which little is used."""


def test_a_hundred_topics_of_one_type_cross_in_both_directions(pair: tuple[Host, Host]) -> None:
    for host in pair:
        resource.prlimit(host.node.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
    for here, there in (pair, pair[::-1]):
        names = [f"of/{here.number}/{number}" for number in range(TOPICS)]
        subscribers = [rtmw.Subscriber(name, domain=there.domain) for name in names]
        publishers = [rtmw.Publisher(name, domain=here.domain) for name in names]
        for publisher, name in zip(publishers, names, strict=True):
            assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
            publisher.publish(name.encode())
        assert [subscriber.receive(timeout=PATIENCE).value.decode() for subscriber in subscribers] == names


WRITERS = 80


# Proves G283.
def test_eighty_writers_of_one_topic_are_heard_once_each_though_the_reader_is_replaced(
    hosts: tuple[Host, Host], participant: DomainParticipant
) -> None:
    host, reliable = hosts[0], rtmw.Reliability.RELIABLE
    host.start()
    octets: Any = idl_class(resolve(bytes))
    kept = Qos(Policy.Reliability.Reliable(0), Policy.History.KeepLast(1), Policy.Durability.TransientLocal)
    topic = Topic(participant, "fleet", octets)
    writers = [DataWriter(participant, topic, qos=kept) for _ in range(WRITERS)]
    subscriber = rtmw.Subscriber("fleet", domain=host.domain, reliability=reliable, depth=2 * WRITERS)
    wait_until(lambda: all(writer.matched_sub for writer in writers), "the node does not read all of them")
    got: list[bytes] = []

    def write(text: str) -> None:
        for number, writer in enumerate(writers):
            writer.write(octets([*f"{text} {number}".encode()]))
        wait_until(lambda: take() >= {f"{text} {number}".encode() for number in range(WRITERS)}, f"{text} is not whole")

    def take() -> set[bytes]:
        got.extend(bytes(sample.data) for sample in subscriber.take_many(1000))
        return {*got}

    write("before")
    before = writers[0].matched_sub
    with rtmw.Subscriber("fleet", domain=host.domain, reliability=reliable, depth=2 * WRITERS, history=1):
        wait_until(lambda: len(writers[0].matched_sub) == 1 and writers[0].matched_sub != before, "the reader stays")
        write("after")
    assert len(got) == 2 * WRITERS
