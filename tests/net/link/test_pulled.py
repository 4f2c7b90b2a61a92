"""A cable that is pulled within the hello, at every byte of it, in either direction."""

from __future__ import annotations

import asyncio
import itertools
import os
from pathlib import Path

import rtmw
from rtmw.net.link.greeting import dial
from rtmw.net.link.links import Links
from tests.net.link.nodes import free_port, links_of
from tests.net.session.relay import Relay


async def pull(dialler: Links, port: int, is_forth: bool) -> int:
    """In each try one of the two connections ends a byte later. How many tries it takes until there is a link."""
    async with Relay(port) as relay:
        for most in itertools.count():
            at = (relay.connections + 1 + most % 2, is_forth)
            relay.ends_after = lambda *which: most if which == at else None  # noqa: B023
            try:
                await dial(dialler, f"127.0.0.1:{relay.port}")
            except (OSError, rtmw.RtmwError):
                continue
            return most
    raise AssertionError


async def pull_both_ways(domains: tuple[rtmw.Domain, rtmw.Domain], folder: Path) -> None:
    before, port = descriptors(), free_port()
    listener = links_of(domains[0], folder / "node.toml", f'listen = "127.0.0.1:{port}"')
    listener.open()
    for is_forth in (True, False):
        dialler = links_of(domains[1], folder / "node.toml", 'connect = ["127.0.0.1:1"]')
        assert await pull(dialler, port, is_forth) > 200, "so long is a hello"
        dialler.close()
    assert listener.refused["connection lost"] > 200
    listener.close()
    while descriptors() > before:
        await asyncio.sleep(0.01)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_cable_that_is_pulled_at_each_byte_of_a_hello_costs_that_try_alone(
    domains: tuple[rtmw.Domain, rtmw.Domain], tmp_path: Path
) -> None:
    """In the end there is a link, and of all tries nothing is left behind."""
    asyncio.run(asyncio.wait_for(pull_both_ways(domains, tmp_path), 60))
