"""The network under a node changes, and the node follows, and says so."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from rtmw.cli.node_doctor import checks
from rtmw.cli.node_status import find_status
from tests.conftest import free_number
from tests.net.hosts import Host, Place, wait_until
from tests.net.namespaces import INTERFACE, SECOND, Network, obstacle

pytestmark = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))

TOPIC = "followed"


class Two:
    """Two hosts at one bridge."""

    def __init__(self, dds_domain: int, folder: Path) -> None:
        self.network = Network(2)
        self.hosts = [Host(free_number(), dds_domain, folder, self.network.place(at)) for at in (0, 1)]
        self.sent, self.got = 0, list[int]()

    def start(self, *arguments: str) -> None:
        for host in self.hosts:
            host.start(*arguments)

    def stream(self) -> None:
        """A RELIABLE topic from the first to the second, which nothing has come on yet."""
        here, there = (host.domain for host in self.hosts)
        self.subscriber = rtmw.Subscriber(TOPIC, domain=there, reliability=Reliability.RELIABLE)
        self.publisher = rtmw.Publisher(TOPIC, domain=here, reliability=Reliability.RELIABLE, max_blocking=0)

    def has_come(self) -> bool:
        """Has one come since it was asked for the first time? Another one is sent each time."""
        self.sent += self.publisher.publish(b"%d" % self.sent)
        new = [int(sample.value) for sample in self.subscriber.take_many(1000)]
        self.got += new
        return bool(new)

    def flows(self) -> None:
        mark = self.sent
        wait_until(lambda: self.has_come() and self.got[-1] >= mark, "no stream")

    def lost(self) -> int:
        return self.got[-1] - self.got[0] + 1 - len(self.got)

    def ip(self, host: int, *words: str) -> None:
        self.network.ip(host, *words)

    def close(self) -> None:
        for host in self.hosts:
            host.end()
        self.network.close()


@pytest.fixture
def two(dds_domain: int, tmp_path: Path) -> Iterator[Two]:
    made = Two(dds_domain, tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("moves", [0, 1])
# Proves G265.
def test_a_node_follows_to_a_new_address_and_what_is_lost_is_told(two: Two, moves: int) -> None:
    two.start("--lease", "2")
    two.stream()
    two.flows()
    host = two.hosts[moves]
    two.ip(moves, "addr", "del", f"{Network.address(moves)}/24", "dev", INTERFACE)
    wait_until(lambda: "is gone" in host.said, "the log does not say it")
    wait_until(lambda: "is gone" in (host.info()["cut_off"] or ""), "info does not say it")
    assert "network" in [check.name for check in checks(host.number, find_status(host.number)) if check.advice]
    two.ip(moves, "addr", "add", f"{Network.address(10)}/24", "dev", INTERFACE)
    wait_until(lambda: host.said.count("is carried on") == 2, "the node does not begin anew")
    two.flows()
    assert two.subscriber.stats().missed == two.lost()


def test_a_node_follows_when_the_same_address_comes_back(two: Two) -> None:
    two.start("--lease", "2")
    two.stream()
    two.flows()
    for change in ("del", "add"):
        two.ip(0, "addr", change, f"{Network.address(0)}/24", "dev", INTERFACE)
    wait_until(lambda: two.hosts[0].said.count("is carried on") == 2, "the node does not begin anew")
    two.flows()


@pytest.mark.parametrize("why", ["down", "without an address"])
# Proves G265.
def test_an_interface_that_cannot_be_used_yet_is_waited_for(two: Two, why: str) -> None:
    if why == "down":
        two.ip(0, "link", "set", INTERFACE, "down")
    else:
        two.ip(0, "addr", "del", f"{Network.address(0)}/24", "dev", INTERFACE)
    two.start()
    two.stream()
    first = two.hosts[0]
    assert f"{INTERFACE}: down, or without an address" in first.said
    assert "network" in [check.name for check in checks(first.number, find_status(first.number)) if check.advice]
    assert not two.has_come()
    if why == "down":
        two.ip(0, "link", "set", INTERFACE, "up")
    else:
        two.ip(0, "addr", "add", f"{Network.address(0)}/24", "dev", INTERFACE)
    two.flows()


def test_settings_that_are_read_again_while_a_node_waits_for_a_network_are_those_it_begins_with(
    two: Two, tmp_path: Path
) -> None:
    two.ip(0, "link", "set", INTERFACE, "down")
    file = tmp_path / "node.toml"
    file.write_text("topics_out = []\n")
    first, second = two.hosts
    second.start()
    first.start("--config", str(file))
    two.stream()
    file.write_text('topics_out = ["*"]\n')
    first.node.send_signal(signal.SIGHUP)
    wait_until(lambda: "settings read again; changed: topics_out" in first.said, "the log does not say it")
    two.ip(0, "link", "set", INTERFACE, "up")
    two.flows()


@pytest.mark.parametrize("unicast", [False, True])
def test_a_network_that_has_ipv6_only_carries_topics(two: Two, unicast: bool) -> None:
    peers = [("--peers", f"fd77::{2 - at}") if unicast else () for at in (0, 1)]
    for at, host in enumerate(two.hosts):
        two.ip(at, "addr", "del", f"{Network.address(at)}/24", "dev", INTERFACE)
        two.ip(at, "addr", "add", f"fd77::{at + 1}/64", "dev", INTERFACE, "nodad")
        host.start(*peers[at])
    two.stream()
    two.flows()
    wait_until(lambda: bool(two.hosts[0].info()["peers"]), "the nodes do not hear each other")
    assert two.hosts[0].info()["peers"][0]["address"].startswith("[")


def test_of_two_interfaces_the_one_that_is_there_carries_and_both_do_when_both_are_there(two: Two) -> None:
    for at in (0, 1):
        two.network.plug_second(at)
    two.ip(0, "link", "set", SECOND, "down")
    two.start("--interface", f"{INTERFACE}, {SECOND}", "--lease", "2")
    two.stream()
    two.flows()
    first = two.hosts[0]
    assert (first.info()["interface"], f"{SECOND} without an address" in first.info()["interface_why"]) == (
        INTERFACE,
        True,
    )
    two.ip(0, "link", "set", SECOND, "up")
    wait_until(lambda: first.said.count("is carried on") == 2, "the node does not take the second one")
    two.flows()
    wait_until(lambda: first.info()["interface"] == f"{INTERFACE}, {SECOND}", "info does not name both")
    two.network.cut(0)
    two.flows()


def no_interface(two: Two, host: int, peer: str) -> None:
    """Its node is told a peer, and no interface."""
    two.hosts[host].place = Place(two.network.place(host).enter, ("--peers", peer, "--lease", "2"))


# Proves G266.
def test_without_an_interface_a_node_uses_the_one_that_leads_to_its_peers_and_moves_to_no_other(two: Two) -> None:
    two.ip(0, "link", "add", "docker0", "type", "bridge")  # with a lower number it would be the first of all
    two.ip(0, "addr", "add", "172.17.0.1/16", "dev", "docker0")
    two.ip(0, "link", "set", "docker0", "up")
    for at in (0, 1):
        no_interface(two, at, Network.address(1 - at))
        two.hosts[at].start()
    first = two.hosts[0]
    assert first.info()["interface"] == INTERFACE
    two.stream()
    two.flows()
    two.ip(0, "addr", "del", f"{Network.address(0)}/24", "dev", INTERFACE)
    wait_until(lambda: "is gone" in (first.info()["cut_off"] or ""), "info does not say it")
    two.ip(0, "addr", "add", "172.17.0.2/16", "dev", "docker0")  # which is news of the network, and leads nowhere
    two.ip(0, "addr", "add", f"{Network.address(10)}/24", "dev", INTERFACE)
    two.flows()
    assert (first.said.count("is carried on"), first.info()["interface"]) == (2, INTERFACE)


# Proves G267.
def test_a_peer_whose_name_is_not_known_after_the_network_has_changed_is_waited_for(two: Two) -> None:
    name = "far.example"
    two.network.name_hosts(0, {name: Network.address(1)})
    no_interface(two, 0, name)
    two.start()
    two.stream()
    two.flows()
    first = two.hosts[0]
    two.network.name_hosts(0, {})
    two.ip(0, "addr", "del", f"{Network.address(0)}/24", "dev", INTERFACE)
    two.ip(0, "addr", "add", f"{Network.address(10)}/24", "dev", INTERFACE)
    wait_until(lambda: f"the host '{name}' cannot be found" in first.said, "the log does not say it")
    wait_until(lambda: name in (first.info()["cut_off"] or ""), "info does not say it")
    assert not two.has_come() or first.said.count("is carried on") == 1
    two.network.name_hosts(0, {name: Network.address(1)})
    two.flows()
    assert first.node.poll() is None
