"""Clocks that disagree are said, in words, when it matters; and only then."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from dataclasses import replace

import pytest

from rtmw.net.dds import own_topics
from rtmw.net.dds.discovery import Discovery, Program, Refusals
from rtmw.net.dds.library import DomainParticipant, steady_ns
from rtmw.net.dds.own_topics import Beacons, Peer
from rtmw.net.status import disagreement, measured_clocks
from tests.child import Spawn
from tests.net.hosts import PATIENCE, Host, wait_until

MS = 1_000_000


def peer(ahead_ms: int, way_ms: int = 0) -> Peer:
    return Peer(1, "far", 5, 3, 0.0, None, 1, deque([(way_ms * MS, ahead_ms * MS)]))


@pytest.mark.parametrize(
    ("ahead_ms", "way_ms", "shortest_ms", "told"),
    [
        (9, 0, 1, False),  # less than NTP keeps
        (11, 0, 100, True),
        (11, 0, 1000, False),  # less than a tenth
        (101, 0, 1000, True),
        (-101, 0, 1000, True),
        (90, 0, None, False),
        (110, 0, None, True),
        (110, 40, 1000, False),  # may be 90
        (130, 40, 1000, True),
    ],
)
def test_an_offset_matters_beside_the_shortest_lifetime(
    ahead_ms: int, way_ms: int, shortest_ms: int | None, told: bool
) -> None:
    shortest = None if shortest_ms is None else shortest_ms * MS
    assert (disagreement(peer(ahead_ms, way_ms), shortest) is not None) is told


def test_the_warning_says_which_clock_is_off_by_how_much_and_what_it_spoils() -> None:
    said = disagreement(peer(-3000), 250 * MS)
    assert said is not None
    assert "the clock of far (domain 3) is 3 s behind this one" in said
    assert "the shortest lifetime or deadline here is 250 ms" in said
    assert "NTP or PTP" in said


def test_a_clock_that_has_not_been_measured_is_not_accused() -> None:
    assert disagreement(Peer(1, "far", 5, 3, 0.0, None, 1), 1) is None


def test_of_nodes_that_cannot_be_told_apart_by_name_none_has_a_clock(participant: DomainParticipant) -> None:
    discovery = Discovery(participant, Refusals())
    one, other = bytes(16).hex(), bytes(range(16)).hex()
    there = peer(7)
    name = Program(host=there.host, pid=there.pid, domain=there.domain)
    discovery.participants[one] = name
    assert measured_clocks([there], discovery) == [(bytes(16), 7 * MS, 0)]
    assert measured_clocks([there, replace(there, node=2)], discovery) == []
    discovery.participants[other] = name
    assert measured_clocks([there], discovery) == []
    discovery.participants[other] = replace(name, pid=name.pid + 1)
    assert measured_clocks([there], discovery) == [(bytes(16), 7 * MS, 0)]


HELD_S = 0.005
ROUNDS = 20


# Proves G269.
def test_a_node_that_is_held_up_while_it_reads_beacons_measures_no_way_below_0(
    participant: DomainParticipant, dds_domain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held() -> int:
        """Who reads the time when a beacon comes gets no further for a moment."""
        now = steady_ns()
        if sys._getframe(1).f_code is Beacons._receive.__code__:
            time.sleep(HELD_S)
        return now

    monkeypatch.setattr(own_topics, "steady_ns", held)
    refusals, other = Refusals(), DomainParticipant(dds_domain)

    async def talk() -> list[Peer]:
        loop = asyncio.get_running_loop()
        both = [Beacons(one, number, loop, refusals) for number, one in enumerate((participant, other))]
        until = time.monotonic() + PATIENCE
        while not all(len(peer.measured) > ROUNDS for one in both for peer in one.peers.values() or [peer_of_none()]):
            assert time.monotonic() < until, f"no measurements; refused: {refusals.counts}"
            for one in both:
                one.send()
                await asyncio.sleep(0.01)
        for one in both:
            one.close()
        return [peer for one in both for peer in one.peers.values()]

    peers = asyncio.run(talk())
    assert not refusals.counts
    for found in peers:
        assert all(way >= 0 and abs(ahead) <= way // 2 + 1 for way, ahead in found.measured)


def peer_of_none() -> Peer:
    return Peer(0, "nobody", 0, 0, 0.0, None, 0)


S = 1_000_000_000


@pytest.mark.parametrize(
    ("away_ns", "there_ns", "way_ns"),
    [
        (S, S - 5, 5),
        (S, S + S // 2000, S // 1000 + S // 2_000_000),  # as far below 0 as clocks drift: as long as they may
        (S, S + S // 500, None),  # a clock was set
        (100, 20_000, None),
        (-S, 1000 * S, None),  # however long it says that it was there
    ],
)
# Proves G269.
def test_a_way_below_0_is_taken_as_long_as_clocks_may_drift_meanwhile_or_refused(
    away_ns: int, there_ns: int, way_ns: int | None
) -> None:
    assert own_topics._way(away_ns, there_ns) == way_ns


SHIFTED = """
    import sys, time
    real = time.time_ns
    time.time_ns = lambda: real() + 5_000_000_000
    from rtmw.cli import main
    sys.exit(main(["node", "--domain", "{number}", "--dds-domain", "{dds_domain}"]))
"""


def test_a_node_warns_of_a_host_whose_clock_is_ahead(hosts: tuple[Host, Host], domain_id: int, spawn: Spawn) -> None:
    here, there = hosts
    here.start()
    spawn(SHIFTED.format(number=there.number, dds_domain=there.dds_domain))
    wait_until(lambda: f"(domain {there.number}) is 5 s ahead of this one" in here.said, "the log does not warn")
