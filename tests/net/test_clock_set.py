"""A wall clock that is set while messages wait in a node: what is left of their lives does not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.ways import BOTH_WAYS
from tests.wall_clock import WallClock, wall_clock

COUNT = 10
"""More than a node takes in advance of a line that is so slow."""
LIFETIME = 1000.0
HOUR = 3600
DAY = 24 * HOUR


@dataclass(frozen=True)
class Clocks:
    """Of the nodes, which have started and measured how far they are apart."""

    sender: WallClock
    receiver: WallClock


@pytest.fixture
def clocks(hosts: tuple[Host, Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clocks:
    """The node of the first host sends slowly."""
    made = list[WallClock]()
    for host, arguments in zip(hosts, (("--max-rate", "10K"), ()), strict=True):
        folder = tmp_path / f"clock_{host.number}"
        folder.mkdir()
        made.append(wall_clock(folder))
        with monkeypatch.context() as changed:
            for name, value in made[-1].environment.items():
                changed.setenv(name, value)
            host.start(*arguments)
    for host in hosts:
        wait_until(partial(is_measured, host), "the clock of the other node is not measured")
    return Clocks(*made)


def is_measured(host: Host) -> bool:
    info = host.info()
    links: list[dict[str, Any]] = info["links"]["peers"] if info["links"] else []
    over_links = any(peer["least_round_trip_ns"] for peer in links)
    return over_links or any(peer["offset_ns"] is not None for peer in info["peers"])


@BOTH_WAYS
# Proves G48.
def test_a_wall_clock_that_is_set_expires_nothing_that_waits_in_a_node(
    hosts: tuple[Host, Host], clocks: Clocks
) -> None:
    here, there = hosts
    settings: list[Callable[[], None]] = [
        partial(clocks.sender.set_by, DAY),
        partial(clocks.sender.set_by, HOUR),
        partial(clocks.sender.set_by, -HOUR),
        partial(clocks.receiver.set_by, HOUR),
        partial(clocks.sender.set_by, HOUR, at_each_reading=True),
        partial(clocks.sender.set_by, -HOUR, at_each_reading=True),
    ]
    publisher = rtmw.Publisher("news", domain=here.domain, depth=100, reliability=Reliability.RELIABLE)
    subscriber = rtmw.Subscriber("news", domain=there.domain, depth=100, reliability=Reliability.RELIABLE)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    for set_clock in settings:
        for _ in range(COUNT):
            assert publisher.publish(bytes(1000), lifetime=LIFETIME)
        first = subscriber.receive(timeout=PATIENCE)
        set_clock()
        for sample in (first, *(subscriber.receive(timeout=PATIENCE) for _ in range(COUNT - 1))):
            assert sample.expires_ns is not None
            ends = sample.source_time_ns / 1e9 + LIFETIME
            assert sample.expires_ns / 1e9 == pytest.approx(ends, abs=PATIENCE), set_clock
    sent = len(settings) * COUNT
    wait_until(lambda: here.crossed("out", "news")["sent"] == sent, "not all of them are counted")
    assert here.crossed("out", "news")["expired"] == there.crossed("in", "news")["expired"] == 0
