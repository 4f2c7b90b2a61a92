"""A node says which network interface it uses, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import free_number
from tests.net.hosts import Host, Place
from tests.net.namespaces import INTERFACE, Network, obstacle

LOOPBACK = '<General><Interfaces><NetworkInterface name="lo" multicast="true"/></Interfaces></General>'


@pytest.fixture
def apart(dds_domain: int, tmp_path: Path) -> Iterator[Host]:
    """A host in a network namespace, with loopback and one other interface."""
    if obstacle() is not None:
        pytest.skip(str(obstacle()))
    network = Network(1)
    host = Host(free_number(), dds_domain, tmp_path, Place(network.place(0).enter))
    yield host
    host.end()
    network.close()


def interface_of(host: Host) -> tuple[str, str]:
    told = host.info()
    assert f"over {told['interface']} ({told['interface_why']})" in host.said
    return told["interface"], told["interface_why"]


def test_with_peers_and_no_interface_the_one_that_dds_chose_is_shown(apart: Host) -> None:
    apart.start("--peers", Network.address(1))
    name, why = interface_of(apart)
    assert name == INTERFACE
    assert why.startswith(f"{Network.address(0)}; peers are named and no interface, so it is the one by which")


def test_the_interface_that_the_settings_name_is_used(apart: Host) -> None:
    apart.start("--interface", INTERFACE, "--peers", Network.address(1))
    assert interface_of(apart) == (INTERFACE, "it was named")


def test_the_interface_that_cyclonedds_uri_names_is_used(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    host.wire = LOOPBACK
    host.start("--peers", "127.0.0.1")
    assert interface_of(host) == ("lo", "CYCLONEDDS_URI names it")


@pytest.mark.parametrize("arguments", [(), ("--interface", "lo")])
def test_one_that_the_settings_and_an_expert_name_is_named_to_dds_once(
    hosts: tuple[Host, Host], arguments: tuple[str, ...]
) -> None:
    host = hosts[0]
    host.wire = LOOPBACK
    host.start(*arguments)
    assert interface_of(host) == ("lo", "CYCLONEDDS_URI names it")


def test_a_file_of_an_expert_is_looked_into(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    host, file = hosts[0], tmp_path / "cyclone.xml"
    file.write_text(f"<CycloneDDS><Domain>{LOOPBACK}</Domain></CycloneDDS>")
    host.wire = f"file://{file}"
    host.start()
    assert interface_of(host) == ("lo", "CYCLONEDDS_URI names it")


def test_without_either_it_is_loopback(hosts: tuple[Host, Host]) -> None:
    hosts[0].start()
    name, why = interface_of(hosts[0])
    assert name == "lo"
    assert "it reaches this host only" in why
