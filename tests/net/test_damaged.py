"""Samples of a node that were damaged on the way, or never were what they say: none is published, all are counted."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from cyclonedds.idl import IdlStruct
from cyclonedds.idl import types as idl

import rtmw
from rtmw import Reliability
from rtmw.net.dds.library import DomainParticipant
from rtmw.types import resolve
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.raw import checked, octets, octets_writer, raw_writer, trailer, with_crc, write_bytes

Pair = tuple[Host, Host]
RELIABLE = Reliability.RELIABLE
ENTRY = struct.Struct("<QQQII")
LARGE = bytes(range(256)) * 80
"""It is received into a loan."""
GOOD = checked(octets(b"payload"))


@dataclass
class Sample(IdlStruct, typename="damaged.Sample"):
    """A message of a type of IDL."""

    number: idl.uint32


def table(*sizes: int, time_ns: int = 1, reserved: int = 0) -> bytes:
    return b"".join(ENTRY.pack(7, time_ns, 0, size, reserved) for size in sizes)


def numbered(value: int) -> bytes:
    return struct.pack("<4sI", b"\0\1\0\0", value)


def flipped(sample: bytes, at: int) -> bytes:
    return sample[:at] + bytes([sample[at] ^ 1]) + sample[at + 1 :]


Sent = tuple[Counter[str], list[bytes]]


@pytest.fixture
def deliver(hosts: Pair, participant: DomainParticipant) -> Callable[..., Sent]:
    """Send samples of one writer, and a last one behind them: what is counted, and what is published before it."""

    def send(samples: list[bytes], last: int, kind: object = bytes, end: bytes = octets(b"the end")) -> Sent:
        host, _ = hosts
        host.start()
        subscriber = rtmw.Subscriber("t", rtmw.ANY, domain=host.domain, reliability=RELIABLE, depth=1000)
        writer = raw_writer(participant, "t", resolve(kind)) if kind is not bytes else None
        writer = writer or octets_writer(participant, "t", is_node=True)
        for sample in [*samples, checked(end, sequence=last)]:
            write_bytes(writer, sample)
        published = list[bytes]()
        expected = end[8:] if kind is bytes else end
        while not published or published[-1] != expected:
            published.append(bytes(subscriber.receive(timeout=PATIENCE).data))
        wait_until(lambda: host.crossed("in", "t")["received"] == len(published), "they are not counted")
        return host.crossed("in", "t"), published[:-1]

    return send


# Proves G309.
def test_no_bit_of_a_sample_can_change_unseen(deliver: Callable[..., Sent]) -> None:
    damaged = [flipped(GOOD, at) for at in (4, *range(8, len(GOOD)))]  # DDS takes no greater length
    counted, published = deliver([*damaged, GOOD], last=2)
    assert published == [b"payload"]
    assert counted["corrupt"] + counted["malformed"] == len(damaged)
    assert counted["corrupt"] >= len(GOOD) - 32 - 8
    assert (counted["lost"], counted["unchecked"]) == (0, 0)


def test_a_large_sample_that_was_damaged_is_not_received_into_a_loan(deliver: Callable[..., Sent]) -> None:
    whole = checked(octets(LARGE))
    places = [9, len(LARGE) // 2, 8 + len(LARGE) - 1, len(whole) - 33, len(whole) - 10]
    counted, published = deliver([*(flipped(whole, at) for at in places), whole], last=2)
    assert published == [LARGE]
    assert (counted["corrupt"], counted["uncopied"]) == (len(places), 1)


def test_samples_of_nodes_that_know_no_crc_are_taken_and_counted(deliver: Callable[..., Sent]) -> None:
    first, second = octets(b"old!") + trailer(sequence=1), octets(LARGE) + trailer(sequence=2)
    counted, published = deliver([first, second], last=3)
    assert published == [b"old!", LARGE]
    assert (counted["unchecked"], counted["malformed"]) == (2, 0)


INEXACT = {
    "shorter than there is": struct.pack("<4sI", b"\0\1\0\0", 2) + b"payload!",
    "by one": struct.pack("<4sI", b"\0\1\0\0", 7) + b"payload!",
    "nothing of it": struct.pack("<4sI", b"\0\1\0\0", 0) + b"payload!",
    "longer than there is": struct.pack("<4sI", b"\0\1\0\0", 9) + b"payload!",
    "large, and shorter": struct.pack("<4sI", b"\0\1\0\0", len(LARGE) - 4) + LARGE,
}


def test_octets_are_exactly_as_many_as_there_are(deliver: Callable[..., Sent]) -> None:
    counted, published = deliver([checked(body) for body in INEXACT.values()], last=2)
    assert published == []
    assert counted["malformed"] == len(INEXACT)


@pytest.mark.parametrize(
    "body",
    [
        numbered(1) + b"\0\1\0" + table(8, 3),
        numbered(1) + b"\0\1\0\0\2\0\0" + table(8, 7),
        numbered(1) + b"\x7f\x7f\0\0\2\0\0\0" + table(8, 8),
        numbered(1) + numbered(2) + table(4, 12),
        numbered(1) + numbered(2) + table(8, 8, time_ns=2**63),
        numbered(1) + numbered(2) + table(8, 8, reserved=1),
    ],
    ids=["no header", "cut short", "no encoding", "the first is cut", "a time that cannot be", "of a later version"],
)
# Proves G310.
def test_nothing_of_a_pack_is_published_unless_all_of_it_is_of_its_type(
    body: bytes, deliver: Callable[..., Sent]
) -> None:
    good = checked(numbered(3) + numbered(4) + table(8, 8), version=2, messages=2, sequence=2)
    bad = checked(body, version=2, messages=2, sequence=2)
    counted, published = deliver([bad, good], last=3, kind=Sample, end=numbered(5))
    assert published == [numbered(3), numbered(4)]
    assert (counted["malformed"], counted["lost"]) == (1, 0)


def test_the_length_of_the_first_of_a_pack_is_that_of_its_table(deliver: Callable[..., Sent]) -> None:
    body = struct.pack("<4sI", b"\0\1\0\0", 3) + b"onetwo" + table(2, 4)
    counted, published = deliver([checked(body, version=2, messages=2, sequence=2)], last=3)
    assert (published, counted["malformed"]) == ([], 1)


# ---- sequences ----


def at(sequence: int, payload: bytes = b"") -> bytes:
    return checked(octets(payload or str(sequence).encode()), sequence=sequence)


# Proves G311.
def test_a_number_that_cannot_be_is_refused_and_mutes_nobody(deliver: Callable[..., Sent]) -> None:
    refused = [2**63 - 1, 2**40, 2**64 - 1, 0, 2**63]
    samples = [at(1), at(2), *(at(number, b"evil") for number in refused), at(3), at(4)]
    counted, published = deliver(samples, last=5)
    assert published == [b"1", b"2", b"3", b"4"]
    assert (counted["implausible"], counted["lost"]) == (len(refused), 0)


def test_a_source_that_begins_with_a_number_that_cannot_be_is_heard_again(deliver: Callable[..., Sent]) -> None:
    counted, published = deliver([at(2**62), at(10), at(11), at(12)], last=13)
    assert published == [str(2**62).encode(), b"11", b"12"]
    assert (counted["implausible"], counted["lost"]) == (1, 0)


def test_what_was_lost_is_counted_as_far_as_it_may_be_true(deliver: Callable[..., Sent]) -> None:
    counted, published = deliver([at(1), at(4), at(1000)], last=1001)
    assert published == [b"1", b"4", b"1000"]
    assert (counted["lost"], counted["implausible"]) == (2 + 995, 0)


def test_a_crc_is_right_only_with_the_trailer_that_it_was_sent_with(deliver: Callable[..., Sent]) -> None:
    body, end = octets(b"four"), trailer(sequence=1, magic=GOOD[-32:-28])
    other = with_crc(body, end)[: -len(end)] + trailer(sequence=7, magic=GOOD[-32:-28])
    counted, published = deliver([other, with_crc(body, end)], last=2)
    assert (published, counted["corrupt"]) == ([b"four"], 1)


def test_nodes_send_crcs_to_nodes_that_know_them(pair: Pair) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("t", domain=there.domain, reliability=RELIABLE, depth=1000)
    publisher = rtmw.Publisher("t", domain=here.domain, reliability=RELIABLE)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)

    def is_checked() -> bool:
        before = there.crossed("in", "t")
        for payload in (b"small", LARGE):
            publisher.publish(payload)
            assert bytes(subscriber.receive(timeout=PATIENCE).data) == payload
        wait_until(lambda: there.crossed("in", "t")["received"] == before["received"] + 2, "they are not counted")
        return there.crossed("in", "t")["unchecked"] == before["unchecked"]

    wait_until(is_checked, "they are sent without")
    assert there.crossed("in", "t")["malformed"] == 0
