"""Hosts that a node is told to look for."""

from __future__ import annotations

import pytest

from rtmw.errors import RtmwError
from rtmw.net.dds.network import addresses, are_ipv6
from tests.net.hosts import PATIENCE, Host


def test_names_become_addresses_and_ports_stay() -> None:
    assert addresses(("localhost", "10.0.0.7", "10.0.0.7:7410")) == ("127.0.0.1", "10.0.0.7", "10.0.0.7:7410")


def test_where_one_is_an_ipv6_address_all_are_looked_for_by_ipv6() -> None:
    peers = ("fd00::7", "[fd00::7]:7410", "::1")
    assert are_ipv6(peers)
    assert not are_ipv6(("localhost", "10.0.0.7:7410"))
    assert addresses(peers, is_ipv6=True) == ("[fd00::7]", "[fd00::7]:7410", "[::1]")


@pytest.mark.parametrize("peer", ["[10.0.0.7]", "a b", "10.0.0.7:x", "10.0.0.7:70000", ""])
def test_what_is_no_host_is_named(peer: str) -> None:
    with pytest.raises(RtmwError, match="is no host; it must be a name or an address"):
        addresses((peer,))


@pytest.mark.parametrize("peer", ["999.1.1.1", "host.invalid", "." * 300, "a" * 300])
def test_a_host_that_cannot_be_found_is_named(peer: str) -> None:
    with pytest.raises(RtmwError, match=r"cannot be found: .*; name its IPv4 address instead"):
        addresses(("127.0.0.1", peer))


def test_a_host_that_cannot_be_found_ends_the_node_in_words(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    assert host.launch("--peers", "127.0.0.1", "host.invalid").wait(PATIENCE) == 1
    assert "the host 'host.invalid' cannot be found" in host.said
