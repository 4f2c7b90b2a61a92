"""Thousands of endpoints of a DDS program cost a node a bounded part of a core, of memory and of what it says."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.net.crowd import cost, crowd, known
from tests.net.hosts import Host, wait_until
from tests.net.link.hosts import linked_hosts
from tests.net.silence import memory
from tests.whole import IS_WHOLE

COUNT = 10_000 if IS_WHOLE else 1500
CONNECTIONS = 2000 if IS_WHOLE else 200
WATCHED_S = 3.0
CPU_MOST = 0.05
"""Part of a core: a fifth of what 10,000 endpoints took that were looked at again and again."""
STATUS_MOST = 400_000
"""Bytes: a thousand endpoints of 200 bytes each are told, twice."""


def test_a_crowd_of_endpoints_is_cheap_while_it_is_there_and_its_memory_is_returned(hosts: tuple[Host, Host]) -> None:
    """After the first crowd the node has more than before: what it has imported and allocated once, and pages on which
    something small lies. How much that is depends on the order in which its threads allocate. Of each further crowd all
    would stay if nothing were returned, and next to nothing if all is: the bound lies in the middle."""
    host = hosts[0]
    host.start()
    with crowd(host, COUNT):
        wait_until(lambda: cost(host, WATCHED_S).cpu < CPU_MOST, "the node goes on working though nothing changes")
        assert cost(host, 0).status < STATUS_MOST
        first = memory(host.node.pid)
    wait_until(lambda: memory(host.node.pid) < first, f"all of {first} bytes stay")
    before = memory(host.node.pid)
    with crowd(host, COUNT):
        used = memory(host.node.pid)
    returns_memory(host, before, used)
    with crowd(host, COUNT):
        pass
    returns_memory(host, before, used)
    assert known(host) == 0
    assert not host.info()["refusals"]


# Proves G294.
def test_the_memory_of_a_crowd_of_connections_that_come_to_no_link_is_returned(tmp_path: Path) -> None:
    """From one address each, since few of one address are let in at a time; what they say fills buffers."""
    hub, peer = linked_hosts(tmp_path)
    try:
        for host in (hub, peer):
            host.start()
        wait_until(lambda: bool(hub.info()["links"]["peers"]), "there is no link")
        (port,) = hub.info()["links"]["ports"].values()
        before = memory(hub.node.pid)
        seen = [before]

        def is_over() -> bool:
            seen.append(memory(hub.node.pid))
            return max(seen) > 1.3 * before and seen[-1] < 1.1 * before

        with ExitStack() as stack:
            for number in range(CONNECTIONS):
                one = stack.enter_context(socket.socket())
                one.bind((f"127.0.{1 + number // 250}.{1 + number % 250}", 0))
                one.connect(("127.0.0.1", port))
                with suppress(OSError):  # it is one too many
                    one.sendall(b"\x16\x03\x01\x02\x00")
                seen.append(memory(hub.node.pid))
        wait_until(is_over, f"it does not take more than {before} bytes for a while")
        assert hub.info()["links"]["refused"]
    finally:
        for host in (hub, peer):
            host.end()


def returns_memory(host: Host, before: int, used: int) -> None:
    most = (before + used) / 2
    wait_until(lambda: memory(host.node.pid) < most, f"{before} bytes after the first crowd, {used} with the next one")
