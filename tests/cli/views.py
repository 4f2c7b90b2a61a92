"""Endpoints and topics as `rtmw.observe` reports them, for tests of what is made of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rtmw.latency import Latency
from rtmw.observe import PublisherView, SubscriberView, TopicView
from rtmw.qos import Reliability

PUBLISHER = PublisherView(
    pid=11,
    process="pump",
    type_name="bytes",
    reliability=Reliability.ADAPTIVE,
    priority=2,
    depth=64,
    history=0,
    published=10,
    bytes=100,
    timed_out=1,
    exhausted=0,
    identity=11 << 32,
    lifetime_ns=0,
    max_blocking=0.1,
)
SUBSCRIBER = SubscriberView(
    pid=22,
    process="panel",
    type_name="bytes",
    reliability=Reliability.ADAPTIVE,
    depth=64,
    received=4,
    bytes=40,
    behind=0,
    missed=3,
    expired=2,
    thinned=1,
    unmatched=0,
    other_types=0,
    deadlines_missed=0,
    lapses=0,
    latency=Latency.of([(900, 999, 3), (2000, 2099, 1)]),
    identity=22 << 32,
    history=0,
    min_interval_ns=0,
    deadline_ns=0,
    lease_ns=0,
)


def topic(name: str = "pump/speed", published: int = 10, **changes: Any) -> TopicView:
    """A topic with one publisher and one subscriber."""
    view = TopicView(name, ("bytes",), published, published * 10, (0,) * 8, (PUBLISHER,), (SUBSCRIBER,))
    return replace(view, **changes)
