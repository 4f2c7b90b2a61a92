"""Behind a switch with a long queue, an alarm waits for no more than a chunk takes, without any setting."""

from __future__ import annotations

import pytest

from tests.net.link.alarm_delays import Way, measure, pair
from tests.net.namespaces import obstacle, obstacle_to_narrowing
from tests.whole import LONG

WHY_NOT = obstacle() or obstacle_to_narrowing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

CHUNK_BITS = 8 * 16384
TRIES = 5
SHARE = 0.6
"""Of the line, which the flood is to have."""


@pytest.mark.parametrize("way", [Way("loss"), pytest.param(Way("bbr", congestion="bbr"), marks=LONG)], ids=str)
def test_an_alarm_behind_a_flood_waits_for_a_chunk_at_most(way: Way) -> None:
    rate = 8_000_000
    with pair(way, rate) as hosts:
        found = [measure(*hosts, rate, 3.0)]
        while len(found) < TRIES and (found[-1].at(0.5) > 1e3 * CHUNK_BITS / rate or found[-1].share < SHARE):
            found.append(measure(*hosts, rate, 3.0))
    assert found[-1].at(0.5) <= 1e3 * CHUNK_BITS / rate, [one.at(0.5) for one in found]
    assert found[-1].share >= SHARE, [one.share for one in found]
