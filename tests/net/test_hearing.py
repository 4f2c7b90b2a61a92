"""`rtmw node doctor` names who stands still, and lines that carry one way only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rtmw.cli.node_doctor import DEAF_S, checks
from rtmw.cli.node_status import find_status
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until
from tests.net.namespaces import Network, obstacle

WELL = "heard, and hears this node"


def found(host: Host) -> dict[str, str]:
    """What the doctor says of this host: what it found, by name."""
    return {check.name: check.found for check in checks(host.number, find_status(host.number, PATIENCE))}


def advised(host: Host, name: str) -> str:
    return next(check.advice for check in checks(host.number, find_status(host.number, PATIENCE)) if check.name == name)


def of(host: Host) -> str:
    """How the doctor of another host calls it."""
    return f"node on {host.info()['host']}, domain {host.number}"


def says(host: Host, name: str, words: str) -> Callable[[], bool]:
    return lambda: words in found(host).get(name, "")


def test_nodes_that_hear_each_other_are_well(pair: tuple[Host, Host]) -> None:
    here, there = pair
    wait_until(says(here, of(there), WELL), "it is not heard")
    wait_until(says(there, of(here), WELL), "it is not heard")
    assert advised(here, of(there)) == ""


# Proves G307.
def test_a_node_that_is_stopped_is_named_at_once_on_its_own_host(pair: tuple[Host, Host]) -> None:
    host = pair[0]
    assert "is stopped" not in found(host)["node"]
    halt(host)
    assert found(host)["node"] == f"process {host.node.pid} is stopped, and carries nothing"
    assert advised(host, "node").endswith(f"kill -CONT {host.node.pid}")
    go_on(host)
    wait_until(lambda: "is stopped" not in found(host)["node"], "it is still called stopped")


# Proves G307.
def test_a_node_that_stands_still_is_named_by_the_others_until_it_is_heard_again(pair: tuple[Host, Host]) -> None:
    here, there = pair
    name = of(there)
    wait_until(says(here, name, WELL), "it is not heard")
    halt(there)
    wait_until(says(here, name, "nothing heard for "), "its silence is not named")
    wait_until(lambda: not here.info()["peers"], "it counts as a peer for ever")
    assert "nothing heard for " in found(here)[name]
    assert "run rtmw node doctor there" in advised(here, name)
    go_on(there)
    wait_until(says(here, name, WELL), "it is not heard again")
    there.kill()
    wait_until(says(here, name, "nothing heard for "), "its death is not named")
    there.start()
    wait_until(says(here, name, WELL), "its successor is not heard")
    assert [row["pid"] for row in here.info()["hearing"]] == [there.node.pid]


def test_a_node_that_leaves_in_order_is_not_missed(pair: tuple[Host, Host]) -> None:
    here, there = pair
    name = of(there)
    wait_until(says(here, name, WELL), "it is not heard")
    assert there.stop() == 0
    wait_until(lambda: name not in found(here), "it is still missed")


@pytest.fixture
def apart(dds_domain: int, tmp_path: Path) -> Iterator[tuple[Network, list[Host]]]:
    """Two hosts that talk by their addresses."""
    if obstacle() is not None:
        pytest.skip(str(obstacle()))
    network = Network(2)
    hosts = [Host(free_number(), dds_domain, tmp_path, network.place(at, 1 - at)) for at in (0, 1)]
    yield network, hosts
    for host in hosts:
        host.end()
    network.close()


@pytest.mark.parametrize("mute", [0, 1])
# Proves G307.
def test_a_line_that_carries_one_way_only_is_named_by_the_side_that_hears(
    apart: tuple[Network, list[Host]], mute: int
) -> None:
    network, hosts = apart
    for host in hosts:
        host.start("--lease", "30")
    silent, hears = hosts[mute], hosts[1 - mute]
    names = of(silent), of(hears)
    wait_until(says(hears, names[0], WELL), "it is not heard")
    wait_until(says(silent, names[1], WELL), "it is not heard")
    network.mute(mute, 1 - mute)
    wait_until(says(silent, names[1], "heard, but it has heard nothing from here for "), "deafness is not named")
    wait_until(says(hears, names[0], "nothing heard for "), "silence is not named")
    assert silent.info()["hearing"][0]["deaf_s"] > DEAF_S
    assert "from here to there nothing arrives: look for what drops UDP ports" in advised(silent, names[1])
    network.unmute(mute, 1 - mute)
    wait_until(says(silent, names[1], WELL), "it is not heard again")
    wait_until(says(hears, names[0], WELL), "it is not heard again")


def test_a_named_peer_where_nobody_is_heard_is_named_with_what_to_do(apart: tuple[Network, list[Host]]) -> None:
    first, second = apart[1]
    first.start()
    name = f"peer {Network.address(1)}"
    assert found(first)[name] == "no node and no DDS program is heard there"
    assert f"start a node there, on DDS domain {first.dds_domain}" in advised(first, name)
    second.start()
    wait_until(says(first, of(second), WELL), "it is not heard")
    assert name not in found(first)
