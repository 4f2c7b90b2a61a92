"""A peer with rights that speaks the frames, and means no good, harms itself only: topics of others cross all the time.

One node listens; an honest node and a client of our own (client.py) have links with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import psutil
import pytest

import rtmw
from rtmw import ANY, Reliability
from tests.net.hosts import PATIENCE, wait_until
from tests.net.link.client import BYTES, Client, described, numpy_type
from tests.net.link.format import ack, begin
from tests.net.link.nodes import LinkedPair
from tests.whole import IS_WHOLE

RELIABLE = Reliability.RELIABLE
CONTROLS = 1_000_000 if IS_WHOLE else 5_000
MEMORY_MOST = 96 << 20
"""Bytes more that the node may take: what it holds of controls for one peer at most is 64 MiB."""
_streams = count()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedPair]:
    linked = LinkedPair(tmp_path_factory.mktemp("hosts"))
    linked.start().wait_up()
    yield linked
    linked.end()


@pytest.fixture
def client(pair: LinkedPair) -> Iterator[Client]:
    """A topic `any` is wanted at the hub, of any type. What the client has done leaves no trace."""
    before = psutil.Process(pair.hub.node.pid).memory_info().rss
    with rtmw.Subscriber("any", ANY, domain=pair.hub.domain, reliability=RELIABLE):
        made = Client(pair.port)
        wait_until(lambda: wants(made, "any"), "the topic is wanted")
        yield made
        carries_on(pair)
        made.close()
    assert psutil.Process(pair.hub.node.pid).memory_info().rss < before + MEMORY_MOST


def wants(client: Client, topic: str) -> bool:
    return any(one["is"] == "interest" and one["topic"] == topic for one in client.heard)


def carries_on(pair: LinkedPair) -> None:
    """A new typed topic crosses from the honest node, whole; and no link with that has ended since it began."""
    number = next(_streams)
    topic, kind = f"stream/{number}", np.dtype([(f"honest{number}", "i8")])
    with (
        rtmw.Subscriber(topic, kind, domain=pair.hub.domain, reliability=RELIABLE, depth=100) as subscriber,
        rtmw.Publisher(topic, kind, domain=pair.press.domain, reliability=RELIABLE, max_blocking=PATIENCE) as publisher,
    ):
        wait_until(partial(is_read, pair, topic), "the topic crosses")
        for value in range(50):
            assert publisher.publish(np.full((), value, kind))
        got = [subscriber.receive(timeout=PATIENCE).value.item()[0] for _ in range(50)]
    assert got == [*range(50)]
    for host in (pair.hub, pair.press):
        assert host.node.poll() is None, host.said
    assert "Traceback" not in pair.hub.said, pair.hub.said
    assert "the link with the node" not in pair.press.said.partition("is up")[2], pair.press.said


def is_read(pair: LinkedPair, topic: str) -> bool:
    return pair.crossed("press", "out", topic)["readers"] > 0


# Proves G237.
def test_a_peer_that_never_reads_is_left_to_itself(pair: LinkedPair) -> None:
    """It asks for what has to be answered, and for a flood, gives room without end, and takes nothing."""
    deaf = Client(pair.port, reads=False)
    wanted = {"type": None, "name": "*", "reliability": "RELIABLE", "depth": 64, "history": 0, "min_interval_ns": 0}
    with rtmw.Publisher("flood", domain=pair.hub.domain, reliability=RELIABLE, max_blocking=0) as flood:
        deaf.say({"is": "interest", "topic": "flood", "wanted": [{**wanted, "deadline_ns": 0}]})
        wait_until(lambda: pair.crossed("hub", "out", "flood")["readers"] > 0, "the route of the flood")
        deaf.send(ack(1, 1 << 40, []))
        for number in range(200):
            deaf.say({"is": "advertise", "topic": f"deaf/{number}", "is_published": True})
        while flood.publish(bytes(100_000)):
            pass
        carries_on(pair)
    deaf.close()


# Proves G237.
def test_many_small_controls_are_taken_one_by_one(client: Client) -> None:
    """Those of routes that come and go, of topics that come and go, and of kinds that nobody knows."""
    said = 0
    while said < CONTROLS:
        topic = f"many/{said % 1000}"
        batch: list[dict[str, Any]] = [
            {"is": "advertise", "topic": topic, "is_published": said % 2 == 0},
            {"is": "interest", "topic": topic, "wanted": []},
            {"is": "unknown", "x": said},
            {"is": "denied", "topic": topic, "cause": "deny", "why": "x"},
            {"is": "clock", "set_ns": said},
        ]
        client.say(*batch * 20)
        said += 100
    wait_until(lambda: client.acknowledged == client.said or client.why_over, "all are taken")
    assert not client.why_over
    route = client.open("any")
    wait_until(lambda: client.answer(route), "it is answered as before")


NAMES = {
    "NUL": "a\0b", "escapes": "\x1b]0;pwned\x07", "a pattern": "any*", "of rtmw itself": "rtmw/node",
    "very long": "x" * 1024, "right to left": "\u202eyna", "no letter": " ", "of another plane": "\U0001f4a3" * 200,
}  # fmt: skip


# Proves G237.
def test_a_topic_with_an_odd_name_is_refused_or_unwanted_and_the_line_goes_on(client: Client) -> None:
    for what, name in NAMES.items():
        client.say(
            {"is": "advertise", "topic": name, "is_published": True},
            {"is": "interest", "topic": name, "wanted": []},
            {"is": "allowed", "topic": name, "verb": "publish"},
        )
        assert cause(client, client.open(name)) in ("unwanted", "own", "pattern"), what
    assert not client.why_over


def cause(client: Client, route: int) -> str:
    """Of the answer about a route."""
    wait_until(lambda: client.answer(route) or client.why_over, "it is answered")
    answer = client.answer(route)
    assert answer is not None, client.why_over
    return str(answer["cause"])


TYPES = {
    "a hundred thousand members": described(
        {"kind": "numpy", "name": "numpy:{m}", "dtype": [["m", "<f8"]] * 100_000, "shape": []}
    ),
    "a size beyond all": described({"kind": "numpy", "name": "n", "dtype": [["m", "<f8"]], "shape": [1 << 62]}),
    "nothing": "",
    "no document": "AAAA",
    "of no kind": described({"kind": "soup", "name": "n"}),
    "very deep": described({"kind": "numpy", "name": "n", "dtype": json.loads("[" * 900 + "]" * 900), "shape": []}),
}


# Proves G237.
def test_a_type_that_cannot_be_is_refused_in_words(client: Client) -> None:
    for what, description in TYPES.items():
        assert len(description) < 15_000, what
        route = client.open("any", description)
        assert cause(client, route) == "type", what
        assert "its type cannot be read" in client.answer(route)["why"]  # type: ignore[index]


MOST = {"depth": (1 << 32) - 1, "history": (1 << 32) - 1, "lifetime_ns": (1 << 63) - 1, "begins": (1 << 63) - 1}


# Proves G237.
def test_numbers_at_their_limits_are_taken_as_they_are(client: Client) -> None:
    client.say(
        {"is": "clock", "set_ns": (1 << 63) - 1},
        {"is": "clock", "set_ns": -(1 << 63) + 1},
        {"is": "leaving", "for_ns": (1 << 63) - 1},
    )
    first = client.open("any", BYTES, **MOST)
    last = client.open("any", BYTES, route=(1 << 32) - 1, reliability="TIMELY", **{**MOST, "priority": 7})
    wait_until(lambda: client.answer(first) and client.answer(last), "both are answered")
    assert [client.answer(route)["cause"] for route in (first, last)] == ["", ""]  # type: ignore[index]
    client.send(begin(first, 1 << 31, b"x", priority=3), 1)
    client.say({"is": "close", "route": last, "sent": (1 << 63) - 1})
    client.say({"is": "close", "route": first, "sent": 0})
    wait_until(lambda: client.acknowledged == client.said, "all are taken")


BAD = [
    *(("advertise", "topic", name) for name in ("", "x" * 1025, "\ud800", 7, None)),
    *(("open", "route", number) for number in (0, 1 << 32, 1.5, True)),
    *(("open", "depth", number) for number in (-1, 1 << 32)),
    *(("open", "lifetime_ns", number) for number in (1 << 63, 1e300)),
    ("open", "description", numpy_type("m", 9000)[:15_000]),
    ("close", "sent", -1),
    ("leaving", "for_ns", 1 << 63),
    ("clock", "set_ns", 1 << 63),
]
GOOD: dict[str, dict[str, Any]] = {
    "advertise": {"topic": "a", "is_published": True}, "close": {"route": 1, "sent": 0}, "leaving": {}, "clock": {},
    "open": {
        "route": 1, "topic": "any", "reliability": "RELIABLE", "priority": 3, "depth": 8, "history": 0,
        "lifetime_ns": 0, "description": BYTES,
    },
}  # fmt: skip


# Proves G237.
def test_a_name_or_number_that_none_has_ends_the_line_of_who_says_it(pair: LinkedPair) -> None:
    for kind, field, value in BAD:
        client = Client(pair.port)
        client.say({"is": kind, **GOOD[kind], field: value})
        wait_until(lambda client=client: client.why_over, "the line is over")  # type: ignore[misc]
        client.close()
        assert f"it broke the protocol: {kind}: {field} is" in client.why_over, client.why_over
    carries_on(pair)


# Proves G237.
def test_a_peer_takes_its_budget_of_types_and_leaves_new_types_to_everybody_else(
    pair: LinkedPair, client: Client
) -> None:
    """It asks for more than half of those that a domain has, and sends a message of each."""
    routes = [client.open("any", numpy_type(f"evil{number}")) for number in range(200)]
    wait_until(lambda: all(client.answer(route) for route in routes), "all are answered")
    for route in routes:
        client.send(begin(route, 1, bytes(8), priority=3), 1)
    wait_until(lambda: sum(client.answer(route)["cause"] == "crowd" for route in routes) == 200 - 64, "64 are kept")  # type: ignore[index]
    refused = next(client.answer(route) for route in routes if client.answer(route)["cause"])  # type: ignore[index]
    assert refused
    assert refused["why"] == "a peer may bring 64 types that nobody else here asks for (max_types of [link])"
    assert not client.why_over
