"""A wall clock that is set while messages wait in a node: what is left of their lives does not change."""

from __future__ import annotations

from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.wall_clock import WallClock, wall_clock

COUNT = 30
DAY = 86400


@pytest.fixture
def clock(hosts: tuple[Host, Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WallClock:
    """That of the first host's node, which is started, and is slow."""
    made = wall_clock(tmp_path)
    with monkeypatch.context() as changed:
        for name, value in made.environment.items():
            changed.setenv(name, value)
        hosts[0].start("--max-rate", "10K")
    hosts[1].start()
    return made


def test_a_wall_clock_set_forward_expires_nothing_that_waits_in_a_node(
    hosts: tuple[Host, Host], clock: WallClock
) -> None:
    here, there = hosts
    publisher = rtmw.Publisher("news", domain=here.domain, depth=100, reliability=Reliability.RELIABLE)
    subscriber = rtmw.Subscriber("news", domain=there.domain, depth=100, reliability=Reliability.RELIABLE)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    for _ in range(COUNT):
        assert publisher.publish(bytes(1000), lifetime=1000.0)
    lives = [subscriber.receive(timeout=PATIENCE).expires_ns]
    clock.set_by(DAY)
    lives += [subscriber.receive(timeout=PATIENCE).expires_ns for _ in range(COUNT - 1)]
    assert None not in lives
    wait_until(lambda: here.crossed("out", "news")["sent"] == COUNT, "not all of them are counted")
    assert here.crossed("out", "news")["expired"] == 0
