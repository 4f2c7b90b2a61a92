"""Nodes among themselves, and plain programs beside them: what one of the two reads costs the other nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.dds.library import (
    DataReader,
    DataWriter,
    DdsSubscriber,
    DomainParticipant,
    Policy,
    Qos,
    Topic,
    take_payloads,
)
from rtmw.net.dds.routes import Lane, describe_endpoint
from rtmw.net.dds.wire import MARK, NODES, meet
from rtmw.types import resolve
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.raw import OCTETS, octets
from tests.net.test_packs import ends, publish_until_packed

Pair = tuple[Host, Host]
RELIABLE = Reliability.RELIABLE
ALL = (Policy.Reliability.Reliable(int(PATIENCE * 1e9)), Policy.History.KeepAll)


@pytest.mark.parametrize(
    ("some", "others", "do"),
    [
        ((), (), True),
        ((), ("",), True),
        ((), ("a",), False),
        ((), ("*",), True),
        ((), ("?",), False),
        ((NODES,), (NODES,), True),
        ((NODES,), (), False),
        ((NODES,), ("a", "rtmw*"), True),
        (("a?c", "d"), ("abc",), True),
        (("a*",), ("a*",), False),
        (("a*", "b"), ("b", "a*"), True),
        (("*a" * 50,), ("a" * 200,), True),
        (("*a" * 50 + "b",), ("a" * 250,), False),
    ],
)
def test_partitions_meet_as_dds_says(some: tuple[str, ...], others: tuple[str, ...], do: bool) -> None:
    assert meet(some, others) is meet(others, some) is do


def reader_of(participant: DomainParticipant, *partitions: str, says: bytes = b"") -> Any:
    """Of the topic "many"."""
    qos = Qos(*ALL, Policy.Userdata(says)) if says else Qos(*ALL)
    place = DdsSubscriber(participant, Qos(Policy.Partition([*partitions]))) if partitions else participant
    return DataReader(place, Topic(participant, "many", OCTETS), qos=qos)


def audiences(host: Host) -> list[str]:
    """With whom the topic "many" of a host crosses, going out."""
    return [row["with"] for row in host.info()["out"] if row["topic"] == "many" and row["readers"]]


def test_a_plain_reader_costs_nodes_neither_packs_nor_crcs_nor_lifetimes_nor_priorities(
    pair: Pair, participant: DomainParticipant
) -> None:
    here, there = pair
    publisher, subscriber = ends(pair)
    reader = reader_of(participant)
    wait_until(lambda: audiences(here) == ["nodes", "plain programs"], "it is not read by both")
    publish_until_packed(here, publisher, subscriber)
    with rtmw.Publisher("many", domain=here.domain, reliability=RELIABLE, priority=5) as urgent:
        near = rtmw.Subscriber("many", domain=here.domain, reliability=RELIABLE)
        urgent.publish(b"urgent", lifetime=1000.0)
        publisher.publish(b"usual")
        far = {sample.value: sample for sample in (subscriber.receive(timeout=PATIENCE) for _ in range(2))}
        assert {sample.value for sample in (near.receive(timeout=PATIENCE) for _ in range(2))} == {*far}
    assert (far[b"urgent"].priority, far[b"usual"].priority) == (5, 0)
    assert far[b"urgent"].publisher != far[b"usual"].publisher
    expires = far[b"urgent"].expires_ns
    assert expires is not None
    assert 900e9 < expires - time.time_ns() <= 1000e9
    assert far[b"usual"].expires_ns is None
    assert there.crossed("in", "many")["unchecked"] == there.crossed("in", "many")["lost"] == 0
    wait_until(lambda: bool(reader.read(1)), "the plain reader has nothing")


def test_what_a_plain_reader_gets_is_what_its_type_says_and_no_more(pair: Pair, participant: DomainParticipant) -> None:
    here, _ = pair
    publisher, subscriber = ends(pair)
    reader = reader_of(participant)
    wait_until(lambda: audiences(here) == ["nodes", "plain programs"], "it is not read by both")
    sizes = [0, 1, 2, 3, 4, 5, 127, 128, 1000, 20_000, 200_001]
    for size in sizes:
        publisher.publish(bytes(size))
    samples = [bytes(payload) for payload in payloads_of(reader, len(sizes))]
    for sample, size in zip(samples, sizes, strict=True):
        assert sample.startswith(octets(bytes(size)))
        assert len(sample) - len(octets(bytes(size))) == -size % 4
    assert [len(subscriber.receive(timeout=PATIENCE).data) for _ in sizes] == sizes


def payloads_of(reader: Any, count: int) -> list[bytes]:
    found = list[bytes]()

    def are_there() -> bool:
        found.extend(payload for payload, info in take_payloads(reader, 1000) if info.valid_data)
        return len(found) >= count

    wait_until(are_there, f"not {count} samples")
    return found


def test_when_the_last_plain_reader_goes_the_writer_for_such_goes(pair: Pair, participant: DomainParticipant) -> None:
    here, _ = pair
    publisher, subscriber = ends(pair)
    reader = reader_of(participant)
    wait_until(lambda: audiences(here) == ["nodes", "plain programs"], "it is not read by both")
    del reader
    wait_until(lambda: [row["with"] for row in here.info()["out"]] == ["nodes"], "the writer stays")
    publisher.publish(b"after")
    assert subscriber.receive(timeout=PATIENCE).value == b"after"


def test_a_topic_that_plain_programs_write_and_read_comes_to_each_once(
    pair: Pair, participant: DomainParticipant
) -> None:
    """A node then reads in the default partition, too, where others write again for plain programs what it has."""
    _, there = pair
    publisher, subscriber = ends(pair)
    reader = reader_of(participant)
    writer: Any = DataWriter(participant, Topic(participant, "many", OCTETS), qos=Qos(*ALL))
    wait_until(lambda: len(writer.get_matched_subscriptions()) == 2, "the node does not read it")  # and our own reader
    wait_until(lambda: len(reader.get_matched_publications()) == 2, "the node does not write for it")
    both = ["nodes", "plain programs"]
    wait_until(lambda: sorted(row["with"] for row in there.info()["in"]) == both, "it does not read with both")
    for number in range(200):
        publisher.publish(b"%d" % number)
        writer.write(OCTETS(list(b"plain %d" % number)))
    got = [subscriber.receive(timeout=PATIENCE).value for _ in range(400)]
    plain = [value for value in got if value.startswith(b"plain")]
    assert [value for value in got if value not in plain] == [b"%d" % number for number in range(200)]
    assert plain == [b"plain %d" % number for number in range(200)]
    assert subscriber.take() is None
    assert len(payloads_of(reader, 400)) == 400


def as_pattern(participant: DomainParticipant) -> Any:
    return reader_of(participant, "*")


def as_older_node(participant: DomainParticipant) -> Any:
    return reader_of(participant, says=MARK + describe_endpoint(Lane(RELIABLE, False), resolve(bytes)))


@pytest.mark.parametrize(
    ("open_reader", "audience", "behind"), [(as_pattern, "nodes", 32), (as_older_node, "plain programs", 0)]
)
def test_a_pattern_reads_what_is_for_nodes_and_an_older_node_what_is_for_plain_programs(
    pair: Pair,
    participant: DomainParticipant,
    open_reader: Callable[[DomainParticipant], Any],
    audience: str,
    behind: int,
) -> None:
    """Each gets each message once. `behind`: bytes of a trailer."""
    here, _ = pair
    publisher = rtmw.Publisher("many", domain=here.domain, reliability=Reliability.ADAPTIVE, depth=100)
    reader = open_reader(participant)
    wait_until(lambda: audiences(here) == [audience], "it is not read")
    for number in range(50):
        publisher.publish(b"%04d" % number)
    samples = payloads_of(reader, 50)
    assert [sample[: len(sample) - behind] for sample in samples] == [octets(b"%04d" % number) for number in range(50)]
