"""Which DDS policies keep a writer and a reader apart, and how that is said."""

from __future__ import annotations

from typing import Any

import pytest

from rtmw.net.dds.wire import FOR_EVER_NS, NODES, Offer, Policies, Request, mismatches
from rtmw.qos import Reliability

SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("offered", "asked", "words"),
    [
        ({"partitions": ("a",)}, {}, "asks for partition the default one; 'a' is offered here"),
        ({}, {"partitions": ("a", "b*")}, "asks for partition 'a', 'b*'; the default one is offered here"),
        ({}, {"reliability": 1}, "asks for RELIABLE; what is published here is TIMELY"),
        ({}, {"durability": 1}, "asks for kept messages (TRANSIENT_LOCAL); no publisher here has a history"),
        ({"durability": 1}, {"durability": 2}, "asks for durability TRANSIENT; TRANSIENT_LOCAL is offered here"),
        ({}, {"deadline_ns": SECOND_NS}, "asks for deadline 1 s; none is offered here"),
        ({"latency_ns": 2 * SECOND_NS}, {}, "asks for latency budget 0 s; 2 s is offered here"),
        ({}, {"ownership": 1}, "asks for ownership EXCLUSIVE; SHARED is offered here"),
        ({"ownership": 1}, {}, "asks for ownership SHARED; EXCLUSIVE is offered here"),
        ({}, {"liveliness": 2}, "asks for liveliness MANUAL_BY_TOPIC; AUTOMATIC is offered here"),
        ({}, {"lease_ns": SECOND_NS // 2}, "asks for liveliness lease 500 ms; none is offered here"),
        ({}, {"order": 1}, "asks for destination order BY_SOURCE_TIMESTAMP; BY_RECEPTION_TIMESTAMP is offered here"),
        ({}, {"scope": 2}, "asks for presentation GROUP; INSTANCE is offered here"),
        ({}, {"is_coherent": True}, "asks for presentation, coherent access yes; no is offered here"),
        ({}, {"is_ordered": True}, "asks for presentation, ordered access yes; no is offered here"),
        (
            {"representations": (2, 0)},
            {"representations": (0, 1)},
            "asks for data representation XCDR1 or XML; XCDR2 is offered here",
        ),
        ({"durability": 9}, {"durability": 10}, "asks for durability kind 10; kind 9 is offered here"),
    ],
)
def test_a_reader_that_asks_for_more_is_told_what_and_what_there_is(
    offered: dict[str, Any], asked: dict[str, Any], words: str
) -> None:
    assert [one.of_reader() for one in mismatches(Policies(**offered), Policies(**asked))] == [words]


@pytest.mark.parametrize(
    ("offered", "asked"),
    [
        ({}, {}),
        ({"partitions": ("",)}, {"partitions": ("*",)}),
        ({"reliability": 1, "durability": 3, "liveliness": 2, "order": 1, "scope": 2}, {}),
        ({"is_coherent": True, "is_ordered": True}, {}),
        ({"deadline_ns": 5, "lease_ns": 5}, {"deadline_ns": 5, "lease_ns": FOR_EVER_NS}),
        ({}, {"latency_ns": 5}),
        ({"representations": (0,)}, {}),
        ({"representations": (0, 2)}, {"representations": (2, 0)}),
    ],
)
def test_who_offers_as_much_as_is_asked_for_meets(offered: dict[str, Any], asked: dict[str, Any]) -> None:
    assert [*mismatches(Policies(**offered), Policies(**asked))] == []


def test_all_that_keeps_two_apart_is_named() -> None:
    found = mismatches(Policies(("a",), ownership=1), Policies(order=1))
    assert [one.policy for one in found] == ["partition", "destination order", "ownership"]


def test_a_node_offers_and_asks_for_what_its_routes_do() -> None:
    kept = Offer(Reliability.TIMELY, 0, 8, history=3, deadline_ns=SECOND_NS)
    asking = Request(reliable=True, depth=8, history=3, min_interval_ns=0, deadline_ns=SECOND_NS)
    assert [*mismatches(kept.policies(True), asking.policies(True))] == []
    (found,) = mismatches(kept.policies(False), asking.policies(True))
    assert (found.policy, found.offered) == ("partition", repr(NODES))
    timely = Offer(Reliability.TIMELY, 0, 8, history=0)
    assert [one.policy for one in mismatches(timely.policies(True), asking.policies(True))] == [
        "reliability",
        "durability",
        "deadline",
    ]
