"""A cable that is pulled within the hello, at every byte of it, in either direction."""

from __future__ import annotations

import asyncio
import itertools
import os
from pathlib import Path

import rtmw
from rtmw.net.link.handshake import dial
from rtmw.net.link.links import Links
from rtmw.net.security.identity import Identity
from tests.net.link.nodes import links_of
from tests.net.security.site import Site
from tests.net.session.relay import Relay
from tests.ports import free_port
from tests.whole import IS_WHOLE

TLS_STEP = 1 if IS_WHOLE else 5
"""Bytes between two cuts. Odd: each connection has its turn."""


async def pull(dialler: Links, port: int, is_forth: bool, step: int) -> int:
    """In each try one of the two connections ends so many bytes later. After how many there is a link."""
    async with Relay(port) as relay:
        for most in itertools.count(step=step):
            at = (relay.connections + 1 + most % 2, is_forth)
            relay.ends_after = lambda *which: most if which == at else None  # noqa: B023
            try:
                await dial(dialler, f"127.0.0.1:{relay.port}")
            except (OSError, rtmw.RtmwError):
                continue
            return most
    raise AssertionError


Domains = tuple[rtmw.Domain, rtmw.Domain]
Identities = tuple[Identity, Identity] | tuple[None, None]


async def pull_both_ways(domains: Domains, folder: Path, keys: Identities, least: int, step: int) -> None:
    before, port = descriptors(), free_port()
    listener = links_of(domains[0], folder / "node.toml", f'listen = "127.0.0.1:{port}"', keys[0])
    listener.open()
    for is_forth in (True, False):
        dialler = links_of(domains[1], folder / "node.toml", 'connect = ["127.0.0.1:1"]', keys[1])
        assert await pull(dialler, port, is_forth, step) > least
        dialler.close()
    assert listener.refused.total() > least // step, listener.refused
    listener.close()
    while descriptors() > before:
        await asyncio.sleep(0.01)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# Proves G244.
def test_a_cable_that_is_pulled_at_each_byte_of_a_hello_costs_that_try_alone(domains: Domains, tmp_path: Path) -> None:
    """In the end there is a link, and of all tries nothing is left behind."""
    hello = 200
    asyncio.run(asyncio.wait_for(pull_both_ways(domains, tmp_path, (None, None), hello, 1), 60))


def test_a_cable_that_is_pulled_within_handshake_and_hello_under_tls_costs_that_try_alone(
    domains: Domains, tmp_path: Path
) -> None:
    """At each byte in `make torture`."""
    site, certificate = Site(tmp_path), 500
    keys = site.node("rtmw://plant/hub"), site.node("rtmw://plant/press")
    asyncio.run(asyncio.wait_for(pull_both_ways(domains, tmp_path, keys, 2 * certificate + 200, TLS_STEP), 600))
