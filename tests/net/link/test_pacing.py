"""Behind a switch with a long queue, an alarm waits for no more than a chunk takes, without any setting."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.net import cable
from tests.net.hosts import Host, wait_until
from tests.net.link.alarm_delays import FarLine, Measured, Way, far_pair, measure, pair
from tests.net.namespaces import obstacle, obstacle_to_narrowing
from tests.whole import IS_WHOLE, LONG

WHY_NOT = obstacle() or obstacle_to_narrowing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

CHUNK_BITS = 8 * 16384
TRIES = 5
SHARE = 0.6
"""Of the line, which the flood is to have."""


QUEUED = 0.005
"""Seconds for which a link leaves a queue on the way alone: QUEUE_US of rtmw/net/link/pacing.c."""


def measured(hosts: tuple[Host, Host], rate: int, limits: dict[float, float], share: float) -> list[Measured]:
    """Until quantiles of the delays keep their limits, in ms, and the flood has its share; the last one is the best."""

    def is_good(one: Measured) -> bool:
        return one.share >= share and all(one.at(quantile) <= limit for quantile, limit in limits.items())

    found = [measure(*hosts, rate, 3.0)]
    while len(found) < TRIES and not is_good(found[-1]):
        found.append(measure(*hosts, rate, 3.0))
    assert is_good(found[-1]), [({at: one.at(at) for at in limits}, one.share) for one in found]
    return found


@pytest.mark.parametrize(
    "way", [Way("loss"), *(pytest.param(Way(name, congestion=name), marks=LONG) for name in ("cubic", "bbr"))], ids=str
)
# Proves G223.
def test_an_alarm_behind_a_flood_waits_for_a_chunk_at_most(way: Way) -> None:
    rate = 8_000_000
    with pair(way, rate) as hosts:
        measured(hosts, rate, {0.5: 1e3 * CHUNK_BITS / rate}, SHARE)
        assert {one for host in hosts for one in algorithms(host)} == {way.congestion}


FAR = [FarLine(20_000_000, lost=0.01), pytest.param(FarLine(20_000_000), marks=LONG)]


@pytest.mark.skipif(cable.obstacle() is not None, reason=str(cable.obstacle()))
@pytest.mark.parametrize("has_rate", [False, pytest.param(True, marks=LONG)])
@pytest.mark.parametrize("far", FAR, ids=str)
# Proves G225.
def test_on_a_far_way_an_alarm_waits_for_a_chunk_and_a_flood_fills_the_way_though_some_packets_are_lost(
    far: FarLine, has_rate: bool
) -> None:
    rate = far.bits_per_second
    least = far.one_way_s + CHUNK_BITS / rate
    limits = {0.5: 1e3 * least, 0.9: 1e3 * (least + QUEUED)}
    if IS_WHOLE:  # also of an alarm whose packet is lost: its copy comes
        limits[0.99] = 1e3 * (least + 2 * QUEUED)
    with far_pair(Way("far", has_rate=has_rate), far) as hosts:
        found = measured(hosts, rate, limits, 0.8 if IS_WHOLE else SHARE)
        assert {one for host in hosts for one in algorithms(host)} == {"bbr"}, "in place of the host's reno"
        wait_until(lambda: twins(hosts)[0]["copies"] >= len(found[-1].delays), "each alarm has a copy")
        assert [(one["twin"], one["copies_left_out"]) for one in twins(hosts)] == [(True, 0)] * 2


def twins(hosts: tuple[Host, Host]) -> list[dict[str, Any]]:
    """What each end says of its link."""
    return [host.info()["links"]["peers"][0] for host in hosts]


def algorithms(host: Host) -> list[str]:
    """How TCP of the connections of a host finds the rate of the way."""
    told = subprocess.run(
        [*host.place.enter, "ss", "-tiHO"], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    return [word for word in told.split() if word in ("reno", "cubic", "bbr")]
