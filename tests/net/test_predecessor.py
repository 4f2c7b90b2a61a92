"""A node that was killed is superseded by the next one of its host at once, however long its lease."""

from __future__ import annotations

import socket

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.dds.discovery import Program
from rtmw.net.dds.succession import Farewells, dead_predecessors, farewell, last_documents, place_of
from rtmw.net.settings import STATUS_TOPIC, Settings
from rtmw.publisher import OwnPublisher
from tests.net.hosts import PATIENCE, Host, wait_until

LASTING = ("--lease", str(20 * PATIENCE))
"""A lease that outlasts every test."""


# Proves G263.
def test_reliable_publishers_elsewhere_go_on_when_a_killed_node_is_back_and_wait_for_no_lease(
    hosts: tuple[Host, Host],
) -> None:
    here, there = hosts
    for host in hosts:
        host.start(*LASTING)
    subscriber = rtmw.Subscriber("on", domain=there.domain, reliability=Reliability.RELIABLE, lease=PATIENCE)
    publisher = rtmw.Publisher("on", domain=here.domain, reliability=Reliability.RELIABLE, max_blocking=0)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    publisher.publish(b"before")
    assert subscriber.receive(timeout=PATIENCE).value == b"before"
    there.kill()
    wait_until(lambda: not publisher.publish(bytes(30_000)), "the publisher does not notice that nothing arrives")
    there.start(*LASTING)
    wait_until(lambda: publisher.publish(b"after") and has_come(b"after", subscriber), "the publisher is refused")


def has_come(message: bytes, subscriber: rtmw.Subscriber[bytes]) -> bool:
    return any(bytes(sample.data) == message for sample in subscriber.take_many(1000))


def test_a_peer_that_was_superseded_is_no_longer_told_of(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    for host in hosts:
        host.start(*LASTING)
    wait_until(lambda: len(here.info()["peers"]) == 1, "the peer is not heard")
    before = there.node.pid
    for _ in range(2):  # two that are killed one after the other
        there.kill()
        there.start(*LASTING)
    wait_until(lambda: f"({before}) has left" in here.said, "the peer has not left")
    wait_until(lambda: [peer["pid"] for peer in here.info()["peers"]] == [there.node.pid], "its successor is not heard")
    wait_until(lambda: here.info()["participants"] == 1, "there are more of it than one")


def test_a_node_that_lives_is_nobodys_predecessor(hosts: tuple[Host, Host]) -> None:
    host, other = hosts
    settings = Settings(domain=host.number, dds_domain=host.dds_domain)
    host.start()
    guid = bytes.fromhex(host.info()["guid"])
    assert dead_predecessors(last_documents(host.domain, settings)) == []
    host.kill()
    with OwnPublisher(STATUS_TOPIC, history=1, domain=host.domain) as stranger:
        for text in (
            b"{",
            b"[]",
            b"{}",
            b'{"domain": %d, "dds_domain": %d, "guid": "ab"}' % (host.number, host.dds_domain),
        ):
            stranger.publish(text)
    assert dead_predecessors(last_documents(host.domain, settings)) == [guid]
    assert last_documents(host.domain, Settings(domain=host.number, dds_domain=other.number)) == []


@pytest.mark.parametrize(("family", "loopback"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_farewell_reaches_a_participant_over_ipv4_and_over_ipv6(family: socket.AddressFamily, loopback: str) -> None:
    guid = bytes(range(16))
    with socket.socket(family, socket.SOCK_DGRAM) as receiver:
        try:
            receiver.bind((loopback, 0))
        except OSError as error:
            pytest.skip(f"{loopback}: {error}")
        receiver.settimeout(PATIENCE)
        port = receiver.getsockname()[1]
        address = f"[{loopback}]:{port}" if ":" in loopback else f"{loopback}:{port}"
        Farewells([guid]).tell({"one": Program(address=address)}, again=False)
        assert receiver.recv(1000) == farewell(guid)


def test_who_calls_an_address_that_is_none_is_told_when_it_has_one() -> None:
    farewells, guid = Farewells([bytes(range(16))]), bytes(range(16))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(PATIENCE)
        farewells.tell({"one": Program(address="nowhere:7400")}, again=False)
        farewells.tell({"one": Program(address=f"127.0.0.1:{receiver.getsockname()[1]}")}, again=False)
        assert receiver.recv(1000) == farewell(guid)


def test_an_ipv6_address_may_name_its_interface_or_number_it() -> None:
    number = socket.if_nametoindex("lo")
    expected = socket.AF_INET6, ("fe80::1", 7400, 0, number)
    assert place_of("[fe80::1%lo]:7400") == place_of(f"[fe80::1%{number}]:7400") == expected


@pytest.mark.parametrize(
    "address", ["", "host:7400", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "[::1]:x", "[::1%none]:1", "::1:7400"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        place_of(address)
