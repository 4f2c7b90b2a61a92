"""Peers of links are shown as those of DDS are: who they are, and how far their clocks are apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rtmw.net.link.control import CLOCK_SET_NS, Control
from rtmw.net.link.messages import Clock, pack
from tests import warm
from tests.net.hosts import Host, wait_until
from tests.net.link.nodes import LinkedPair
from tests.net.link.test_control import PEER, All, allowing, said
from tests.wall_clock import wall_clock

HOUR = 3600
SURE_NS = 100_000_000
"""Two readings of the clocks are not of the same moment."""


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[LinkedPair]:
    pair = LinkedPair(tmp_path).with_keys()
    yield pair
    pair.end()


def listed(host: Host) -> list[dict[str, Any]]:
    """The other nodes, as `rtmw node list` has them."""
    told = warm.run("node", "list", "--json", "--domain", str(host.number), check=True).stdout
    found: list[dict[str, Any]] = json.loads(told)[1:]
    return found


def shown(host: Host, word: str) -> str:
    return warm.run("node", word, "--domain", str(host.number)).stdout


def test_list_and_doctor_show_peers_of_links_and_that_their_clocks_agree(linked: LinkedPair) -> None:
    linked.start().wait_up()
    wait_until(lambda: listed(linked.hub)[0]["offset_ns"] is not None, "the offset is measured")
    (row,) = listed(linked.hub)
    assert (row["name"], row["by"], row["pid"]) == ("rtmw://plant/press", "link", linked.press.node.pid)
    assert abs(row["offset_ns"]) < SURE_NS
    assert row["round_trip_ns"] > 0
    assert row["warning"] is None
    assert "rtmw://plant/press" in shown(linked.hub, "list")
    assert "1 node, 0 other DDS participants" in shown(linked.hub, "doctor")
    assert f"clock of {row['host']}, domain {linked.press.number}" in shown(linked.hub, "doctor")
    assert "1 other node" in shown(linked.hub, "info")


def test_a_wall_clock_that_is_set_is_seen_over_a_link_and_no_longer_once_it_is_right(
    linked: LinkedPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked.start("hub")
    folder = tmp_path / "clock"
    folder.mkdir()
    clock = wall_clock(folder)
    with monkeypatch.context() as changed:
        for name, value in clock.environment.items():
            changed.setenv(name, value)
        linked.start("press")
    linked.wait_up()
    clock.set_by(HOUR)

    def offset() -> float:
        return float(listed(linked.hub)[0]["offset_ns"] or 0)

    wait_until(lambda: abs(offset() - HOUR * 1e9) < SURE_NS, "the hub sees it")
    wait_until(lambda: f"(domain {linked.press.number}) is 3.6e+03 s ahead of this one" in linked.hub.said, "it warns")
    wait_until(lambda: abs(float(listed(linked.press)[0]["offset_ns"] or 0) + HOUR * 1e9) < SURE_NS, "and the press")
    assert "NTP or PTP" in shown(linked.hub, "doctor")
    clock.set_by(0)
    wait_until(lambda: abs(offset()) < SURE_NS, "it is right again")
    wait_until(lambda: "is no longer in the way" in linked.hub.said, "the log says so")


def test_a_peer_hears_of_a_wall_clock_once_and_again_when_it_was_set() -> None:
    control = Control(PEER, allowing(), All())
    assert said(control.see_clock(5)) == [Clock(5)]
    assert control.see_clock(5 + CLOCK_SET_NS - 1) == []
    assert said(control.see_clock(5 - CLOCK_SET_NS)) == [Clock(5 - CLOCK_SET_NS)]
    assert control.peer_set_ns is None
    assert control.heard(pack(Clock(-7))) == []
    assert control.peer_set_ns == -7
