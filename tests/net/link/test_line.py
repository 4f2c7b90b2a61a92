"""Messages over a line arrive whole, with all that a message is."""

from __future__ import annotations

import socket
import time

import numpy as np
import pytest

import rtmw
from rtmw import Reliability
from tests.net.link.ends import PATIENCE, Ends, Wire, wait_until

SIZES = [0, 1, 63, 64, 5_000, 16_255, 16_256, 16_257, 16_300, 16_384, 65_536, 200_000, 1 << 20, 16 << 20]
COUNT, RECORD_MOST = 300, 16 << 10


@pytest.mark.parametrize("fixture", ["ends", "tls_ends"])
def test_messages_of_all_sizes_arrive_whole_and_in_order(fixture: str, request: pytest.FixtureRequest) -> None:
    ends: Ends = request.getfixturevalue(fixture)
    ends.join()
    ends.route("raw")
    with (
        rtmw.Publisher(
            "raw", domain=ends.here.domain, reliability=Reliability.RELIABLE, max_blocking=PATIENCE
        ) as publisher,
        rtmw.Subscriber("raw", domain=ends.there.domain, reliability=Reliability.RELIABLE) as subscriber,
    ):
        payloads = [np.random.default_rng(size).bytes(size) for size in SIZES]
        for payload in payloads:
            publisher.publish(payload)
            assert bytes(subscriber.receive(timeout=PATIENCE).data) == payload
        for payload in payloads:
            publisher.publish(payload)
        for payload in payloads:
            assert bytes(subscriber.receive(timeout=PATIENCE).data) == payload
    outbound, inbound = ends.routes
    wait_until(outbound.delivered)
    assert inbound.counters()["received"] == 2 * len(SIZES)
    assert inbound.counters()["lost"] == 0


def test_priority_lifetime_source_time_and_publisher_are_kept(ends: Ends) -> None:
    ends.join()
    ends.up()
    ends.route("raw", Reliability.ADAPTIVE)
    with (
        rtmw.Publisher("raw", domain=ends.here.domain) as publisher,
        rtmw.Subscriber("raw", domain=ends.there.domain) as subscriber,
        rtmw.Subscriber("raw", domain=ends.here.domain) as local,
    ):
        publisher.publish(b"x", priority=6, lifetime=30.0)
        here, there = local.receive(timeout=PATIENCE), subscriber.receive(timeout=PATIENCE)
        assert (there.priority, there.source_time_ns) == (6, here.source_time_ns)
        assert there.publisher == here.publisher
        assert there.expires_ns is not None
        assert 20e9 < there.expires_ns - time.time_ns() <= 30e9


def test_both_directions_flow_at_once(ends: Ends) -> None:
    ends.join()
    ends.route("forth")
    ends.route("back", back=True)
    with (
        rtmw.Publisher("forth", domain=ends.here.domain, reliability=Reliability.RELIABLE) as forth,
        rtmw.Publisher("back", domain=ends.there.domain, reliability=Reliability.RELIABLE) as back,
        rtmw.Subscriber("forth", domain=ends.there.domain, reliability=Reliability.RELIABLE) as there,
        rtmw.Subscriber("back", domain=ends.here.domain, reliability=Reliability.RELIABLE) as here,
    ):
        for number in range(200):
            forth.publish(b"%d" % number * 1000)
            back.publish(b"%d" % number * 1000)
            assert bytes(there.receive(timeout=PATIENCE).data) == b"%d" % number * 1000
            assert bytes(here.receive(timeout=PATIENCE).data) == b"%d" % number * 1000


def test_small_messages_that_wait_leave_together(tls_ends: Ends) -> None:
    """As many as an outbox takes, and not only those that a route takes from the bus at once."""
    bulk = Wire()
    tls_ends.route("small", depth=COUNT)
    with (
        rtmw.Publisher("small", domain=tls_ends.here.domain, reliability=Reliability.RELIABLE) as publisher,
        rtmw.Subscriber("small", domain=tls_ends.there.domain, reliability=Reliability.RELIABLE, depth=COUNT) as seen,
    ):
        for number in range(COUNT):
            publisher.publish(b"%064d" % number)
        tls_ends.join(Wire(), bulk)
        assert [int(bytes(seen.receive(timeout=PATIENCE).data)) for _ in range(COUNT)] == list(range(COUNT))
    assert max(record_sizes(bytes(bulk.seen[0]))) > RECORD_MOST


def test_records_of_which_the_kernel_takes_a_part_arrive_whole(tls_ends: Ends) -> None:
    bulk = Wire()
    bulk.ends[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the least that there is
    tls_ends.route("raw")
    tls_ends.join(Wire(), bulk)
    with (
        rtmw.Publisher("raw", domain=tls_ends.here.domain, reliability=Reliability.RELIABLE) as publisher,
        rtmw.Subscriber("raw", domain=tls_ends.there.domain, reliability=Reliability.RELIABLE) as subscriber,
    ):
        for size in (70_000, 64, 1 << 20):
            payload = np.random.default_rng(size).bytes(size)
            publisher.publish(payload)
            assert bytes(subscriber.receive(timeout=PATIENCE).data) == payload


def record_sizes(seen: bytes) -> list[int]:
    """Of TLS records, in bytes of what they carry and its tag."""
    sizes, at = list[int](), 0
    while at < len(seen):
        sizes.append(int.from_bytes(seen[at + 3 : at + 5], "big"))
        at += 5 + sizes[-1]
    return sizes


def test_controls_come_once_and_in_order(ends: Ends) -> None:
    said = [b"%d" % number * number for number in range(1000)]
    for control in said:
        ends.here.line.say(control)
    ends.join()
    heard: list[bytes] = []
    wait_until(lambda: (ends.there.look(), len([1 for one in ends.there.news if one[0] == "control"]) == len(said))[1])
    heard = [data for kind, _, data in ends.there.news if kind == "control"]
    assert heard == said
