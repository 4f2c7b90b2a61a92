"""Links over networks that have IPv6 only, frames of 1,280 bytes at most, or two ways to a host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Place, wait_until
from tests.net.link.hosts import LinkHost
from tests.net.namespaces import INTERFACE, Network, obstacle

pytestmark = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
RELIABLE = Reliability.RELIABLE
MTU = 1280


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network(2, MTU)
    yield made
    made.close()


def use_ipv6_only(network: Network, host: int) -> str:
    """Its address."""
    network.ip(host, "addr", "del", f"{Network.address(host)}/24", "dev", INTERFACE)
    network.ip(host, "addr", "add", f"fd77::{host + 1}/64", "dev", INTERFACE, "nodad")
    return f"[fd77::{host + 1}]"


@pytest.mark.parametrize("has_ipv4", [True, False], ids=["IPv4", "IPv6"])
# Proves G245.
def test_messages_of_all_sizes_cross_where_frames_are_small(network: Network, tmp_path: Path, has_ipv4: bool) -> None:
    at = [Network.address(host) if has_ipv4 else use_ipv6_only(network, host) for host in (0, 1)]
    words = (f'listen = "{at[0]}:7447"\ninsecure = true', f'connect = ["{at[0]}:7447"]\ninsecure = true')
    with ExitStack() as stack:
        hosts = [LinkHost(tmp_path, link, Place(network.place(n).enter), "64M") for n, link in enumerate(words)]
        for host in hosts:
            stack.callback(host.end)
            host.start()
        taker = stack.enter_context(rtmw.Subscriber("a", reliability=RELIABLE, domain=hosts[0].domain))
        out = stack.enter_context(
            rtmw.Publisher("a", reliability=RELIABLE, max_blocking=PATIENCE, domain=hosts[1].domain)
        )
        wait_until(lambda: hosts[0].crossed("in", "a")["writers"] == 1, "the route")
        for size in (0, 64, MTU - 1, MTU, 3 * MTU, 1 << 20):
            assert out.publish(bytes(size))
            assert len(taker.receive(timeout=PATIENCE).value) == size
        (peer,) = hosts[0].info()["links"]["peers"]
        assert peer["address"].startswith(at[1].strip("[]"))
        assert peer["crc"], "the way leads over a network, as far as both ends see"


def test_a_link_comes_up_over_another_address_of_a_name_when_the_first_one_is_gone(
    network: Network, tmp_path: Path
) -> None:
    """Each of both in turn, for the resolver decides which one is first."""
    for host in (0, 1):
        network.plug_second(host)
    ways = network.address(0), "10.78.0.1"
    network.name_hosts(1, {"hub": ways[0], "hub its-second": ways[1]})
    words = 'listen = "0.0.0.0:7447"', 'connect = ["hub:7447"]'
    with ExitStack() as stack:
        hosts = [
            LinkHost(tmp_path, f"{link}\ninsecure = true\nlease = 2", Place(network.place(n).enter))
            for n, link in enumerate(words)
        ]
        stack.callback(hosts[0].end)
        stack.callback(hosts[1].end)
        hosts[0].start()
        for address in ways:
            network.ip(1, "route", "add", "blackhole", f"{address}/32")
            hosts[1].start()
            wait_until(lambda: any(peer["up"] for peer in hosts[1].info()["links"]["peers"]), "the link")
            hosts[1].kill()
            network.ip(1, "route", "del", "blackhole", f"{address}/32")
