"""Small messages that wait travel together between nodes, and nothing else about them changes."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.dds.discovery import Program
from rtmw.net.dds.library import DataReader, DomainParticipant, Policy, Qos, Topic
from rtmw.net.dds.wire import MARK
from tests.books import examine
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until
from tests.net.raw import OCTETS, octets, octets_writer, trailer, write_bytes

Pair = tuple[Host, Host]
RELIABLE = Reliability.RELIABLE


def ends(
    pair: Pair, topic: str = "many", max_blocking: float = PATIENCE
) -> tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]]:
    here, there = pair
    subscriber = rtmw.Subscriber(topic, domain=there.domain, reliability=RELIABLE, depth=1000, lease=PATIENCE)
    publisher = rtmw.Publisher(topic, domain=here.domain, reliability=RELIABLE, depth=1000, max_blocking=max_blocking)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    return publisher, subscriber


def publish_until_packed(host: Host, publisher: rtmw.Publisher[bytes], subscriber: rtmw.Subscriber[bytes]) -> int:
    """Nodes pack from the moment on at which they know of each other that they do; how many packs have left by then."""
    sent = 0

    def is_packed() -> bool:
        nonlocal sent
        halt(host)
        assert publisher.publish_many([b"before"] * 20) == 20
        go_on(host)
        for _ in range(20):
            assert subscriber.receive(timeout=PATIENCE).value == b"before"
        sent += 20
        wait_until(lambda: host.crossed("out", "many", "nodes")["sent"] == sent, "it says another number")
        return host.crossed("out", "many", "nodes")["packs"] > 0

    wait_until(is_packed, "nothing is packed")
    return host.crossed("out", "many", "nodes")["packs"]


def test_what_waits_travels_together_with_all_that_each_message_is(pair: Pair) -> None:
    here, _ = pair
    publisher, subscriber = ends(pair)
    other = rtmw.Publisher("many", domain=here.domain, reliability=RELIABLE)
    near = rtmw.Subscriber("many", domain=here.domain, reliability=RELIABLE, depth=1000, lease=PATIENCE)
    packs = publish_until_packed(here, publisher, subscriber)
    assert len(near.take_many(1000)) % 20 == 0
    halt(here)
    for number in range(10):
        publisher.publish(bytes(number * 7), lifetime=1000.0 + number)
        other.publish(b"of another %d" % number, priority=5)
    go_on(here)
    far = [subscriber.receive(timeout=PATIENCE) for _ in range(20)]
    original = [near.receive(timeout=PATIENCE) for _ in range(20)]
    urgent, rest = far[:10], far[10:]
    assert [sample.value for sample in urgent] == [b"of another %d" % number for number in range(10)]
    assert [sample.value for sample in rest] == [bytes(number * 7) for number in range(10)]
    assert [sample.source_time_ns for sample in far] == [sample.source_time_ns for sample in original]
    assert {(sample.priority, sample.expires_ns) for sample in urgent} == {(5, None)}
    assert len({sample.publisher for sample in urgent}) == len({sample.publisher for sample in rest}) == 1
    assert urgent[0].publisher != rest[0].publisher
    for number, sample in enumerate(rest):
        assert sample.expires_ns is not None
        assert 900e9 < sample.expires_ns - time.time_ns() < (1000 + number) * 1e9
    wait_until(lambda: here.crossed("out", "many")["packs"] > packs, "they were not packed")


def test_an_expired_message_leaves_a_pack_and_the_others_stay_in_order(pair: Pair) -> None:
    here, there = pair
    publisher, subscriber = ends(pair)
    publish_until_packed(here, publisher, subscriber)
    halt(here)
    until = time.time() + 0.2
    for number in range(30):
        publisher.publish(b"%d" % number, valid_until=until if number % 10 == 3 else None)
    wait_until(lambda: time.time() > until, "time stands still")
    go_on(here)
    got = [subscriber.receive(timeout=PATIENCE).value for _ in range(27)]
    assert got == [b"%d" % number for number in range(30) if number % 10 != 3]
    wait_until(lambda: here.crossed("out", "many")["expired"] == 3, "they are not counted")
    wait_until(lambda: there.crossed("in", "many")["received"] >= 27, "they are not counted there")
    assert there.crossed("in", "many")["lost"] == 0


def test_a_bus_that_is_full_in_the_middle_of_a_pack_gets_the_rest_later(pair: Pair) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("many", domain=there.domain, reliability=RELIABLE, depth=7, lease=PATIENCE)
    publisher = rtmw.Publisher("many", domain=here.domain, reliability=RELIABLE, depth=1000, max_blocking=0)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    packs = publish_until_packed(here, publisher, subscriber)
    got, number = list[int](), 0
    while number < 5_000:
        number += publisher.publish_many([n.to_bytes(4, "little") for n in range(number, number + 50)])
        got += [int.from_bytes(sample.data, "little") for sample in subscriber.take_many(100)]
    while len(got) < number:
        got.append(int.from_bytes(subscriber.receive(timeout=PATIENCE).data, "little"))
    assert got == list(range(number))
    wait_until(lambda: here.crossed("out", "many")["packs"] > packs, "they were not packed")
    wait_until(lambda: there.crossed("in", "many")["delayed"] > 0, "none had to wait")
    for host in pair:
        examine(host.domain)


def test_a_plain_reader_that_comes_while_packs_are_sent_misses_nothing_from_its_first_message_on(
    pair: Pair, participant: DomainParticipant
) -> None:
    here, _ = pair
    publisher, subscriber = ends(pair, max_blocking=0.01)  # who waits here takes nothing there
    publish_until_packed(here, publisher, subscriber)
    quality = Qos(Policy.Reliability.Reliable(0), Policy.History.KeepAll)
    reader: Any = DataReader(participant, Topic(participant, "many", OCTETS), qos=quality)
    found, number = list[int](), 0
    until = time.monotonic() + PATIENCE
    while len(found) < 2_000:
        assert time.monotonic() < until, f"only {len(found)} of {number} arrived"
        number += publisher.publish_many([n.to_bytes(4, "little") for n in range(number, number + 50)])
        subscriber.take_many(1000)
        found += [int.from_bytes(bytes(sample.data), "little") for sample in reader.take(1000)]
    assert found == list(range(found[0], found[0] + len(found)))


# ---- what is no pack ----

ENTRY = struct.Struct("<QQQII")


def pack(
    payloads: list[bytes], sizes: list[int] | None = None, messages: int | None = None, sequence: int = 0
) -> bytes:
    """A pack of raw bytes. `sizes` and `messages`: what it says of itself."""
    sizes = [len(payload) for payload in payloads] if sizes is None else sizes
    body = octets(payloads[0]) + b"".join(payloads[1:])
    body += b"".join(ENTRY.pack(7, 1, 0, size, 0) for size in sizes)
    padding = -len(body) % 4
    said = len(payloads) if messages is None else messages
    return body + bytes(padding) + trailer(version=2, padding=padding, messages=said, sequence=sequence)


GOOD = [b"one", b"two", b"three"]
SPOILED: dict[str, bytes] = {
    "a size too large": pack(GOOD, [3, 3, 6]),
    "a size too small": pack(GOOD, [3, 2, 5]),
    "sizes that overflow": pack(GOOD, [2**32 - 1, 14, 2**32 - 2]),
    "one more than there are": pack(GOOD, messages=4),
    "fewer than there are": pack(GOOD, messages=2),
    "none at all": pack(GOOD, messages=0),
    "as many as can be said": pack(GOOD, messages=255),
}


def test_a_spoiled_pack_is_counted_and_nothing_of_it_is_published(hosts: Pair, participant: DomainParticipant) -> None:
    host, _ = hosts
    host.start()
    subscriber = rtmw.Subscriber("many", domain=host.domain, reliability=RELIABLE)
    writer = octets_writer(participant, "many", is_node=True)
    for sample in SPOILED.values():
        write_bytes(writer, sample)
    write_bytes(writer, pack(GOOD, sequence=3))
    assert [subscriber.receive(timeout=PATIENCE).value for _ in GOOD] == GOOD
    assert subscriber.take() is None
    wait_until(lambda: host.crossed("in", "many")["malformed"] == len(SPOILED), "they are not counted")


# ---- who knows packs ----


@pytest.mark.parametrize(
    ("said", "knows"),
    [
        (MARK + b'{"domain": 1, "packs": 1}', True),
        (MARK + b'{"domain": 1}', False),
        (MARK + b'{"domain": 1, "packs": 2}', False),
        (MARK + b"[1]", False),
        (b'{"domain": 1, "packs": 1}', False),
        (b"", False),
    ],
)
def test_packs_are_for_nodes_that_say_they_know_them(said: bytes, knows: bool) -> None:
    assert Program.of((bytes(16), said, None, None, None, None)).knows_packs is knows


def test_topics_whose_messages_are_kept_for_late_readers_are_not_packed(pair: Pair) -> None:
    here, there = pair
    publisher, subscriber = ends(pair)
    publish_until_packed(here, publisher, subscriber)
    kept = rtmw.Publisher("kept", domain=here.domain, history=50, reliability=RELIABLE)
    reading = rtmw.Subscriber("kept", domain=there.domain, reliability=RELIABLE)
    assert kept.wait_for_subscribers(1, timeout=PATIENCE)
    halt(here)
    kept.publish_many([b"kept"] * 50)
    go_on(here)
    assert [reading.receive(timeout=PATIENCE).value for _ in range(50)] == [b"kept"] * 50
    assert here.crossed("out", "kept")["packs"] == 0
