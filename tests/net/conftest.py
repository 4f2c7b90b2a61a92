"""What tests of the network share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rtmw.net.dds.library import DomainParticipant
from rtmw.net.dds.wire import join
from rtmw.net.settings import Settings
from tests.conftest import free_number
from tests.net.hosts import Host
from tests.net.link.hosts import linked_hosts
from tests.net.ways import DDS, LINK


@pytest.fixture
def dds_domain() -> int:
    """The number of a DDS domain that no other test uses at the moment: that of a free rtmw domain."""
    return free_number()


@pytest.fixture
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    """Two hosts without nodes, which meet over DDS, or over a link (ways.py)."""
    pair: tuple[Host, Host]
    if getattr(request, "param", DDS) == LINK:
        pair = linked_hosts(tmp_path)
    else:
        dds_domain = request.getfixturevalue("dds_domain")
        pair = Host(free_number(), dds_domain, tmp_path), Host(free_number(), dds_domain, tmp_path)
    yield pair
    for host in pair:
        host.end()


@pytest.fixture
def pair(hosts: tuple[Host, Host]) -> tuple[Host, Host]:
    """Two hosts whose nodes are ready."""
    for host in hosts:
        host.start()
    return hosts


@pytest.fixture
def participant(dds_domain: int) -> Iterator[DomainParticipant]:
    """Of this process, in the DDS domain of the hosts; it says that it is a node, and nothing of packs."""
    kept, made = join(Settings(domain=dds_domain), b'{"domain": 99}')
    yield made
    del kept, made
