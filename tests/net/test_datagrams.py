"""Datagrams of DDS fit the frames of the line, so that a frame that is lost costs no more than itself."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.dds.network import DATAGRAM_MOST, Line, choose, datagram_size, mtus
from rtmw.net.dds.wire import configuration, join
from rtmw.net.settings import Settings
from tests.conftest import free_number
from tests.net import cable, namespaces
from tests.net.cable import Cable, Faults
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.namespaces import INTERFACE, SECOND, Network
from tests.net.raw import octets_writer, write_bytes

in_namespaces = pytest.mark.skipif(namespaces.obstacle() is not None, reason=str(namespaces.obstacle()))
at_a_cable = pytest.mark.skipif(cable.obstacle() is not None, reason=str(cable.obstacle()))

ETHERNET = 1472
CAPTURED = "<CycloneDDS><Domain><Tracing><PacketCaptureFile>{}</PacketCaptureFile></Tracing></Domain></CycloneDDS>"
RELIABLE = Reliability.RELIABLE


@pytest.mark.parametrize(
    ("of", "is_ipv6", "size"),
    [
        ([1500], False, ETHERNET),
        ([1500], True, 1452),
        ([1420], False, 1392),
        ([65536, 1500, 1420], False, 1392),
        ([1000], True, 1232),
        ([9000], False, DATAGRAM_MOST),
        ([65536], False, DATAGRAM_MOST),
        ([], False, DATAGRAM_MOST),
    ],
)
def test_a_datagram_fits_the_smallest_frame_except_those_of_loopback_and_jumbo_frames(
    of: list[int], is_ipv6: bool, size: int
) -> None:
    assert datagram_size(of, is_ipv6) == size


def test_messages_fragments_and_what_is_sent_again_fit_the_datagram() -> None:
    text = configuration(Settings(), Line(("lo",), datagram=ETHERNET))
    found = {name: int(value) for name, value in re.findall(r"<(\w+Size)>(\d+)B<", text)}
    assert found == {"MaxMessageSize": ETHERNET, "MaxRexmitMessageSize": ETHERNET, "FragmentSize": ETHERNET - 128}


def test_over_loopback_datagrams_are_as_large_as_udp_allows() -> None:
    line = choose(Settings(interface="lo"))
    assert line is not None
    assert line.datagram == DATAGRAM_MOST


def test_interfaces_that_cyclonedds_uri_names_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CYCLONEDDS_URI", "<General><Interfaces><NetworkInterface multicast='true' name='lo'/>")
    assert mtus(()) == mtus(("lo",)) != []


def _captured(file: Path, sender: bytes) -> Iterator[int]:
    """Sizes of the datagrams of a participant. The DDS library writes those that it sends and receives, with their
    heads of IP and UDP, into a file of pcap."""
    data, at = file.read_bytes(), 24
    while at < len(data):
        (size,) = struct.unpack_from("=I", data, at + 8)
        datagram = data[at + 16 : at + 16 + size][28:]
        at += 16 + size
        if datagram[8:20] == sender:
            yield len(datagram)


@pytest.mark.parametrize("datagram", [ETHERNET, DATAGRAM_MOST])
def test_a_large_sample_leaves_in_datagrams_of_the_size_of_the_line(
    datagram: int, hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host, file, size = hosts[0], tmp_path / "sent.pcap", 100_000
    host.start()
    monkeypatch.setenv("CYCLONEDDS_URI", CAPTURED.format(file))
    kept, participant = join(Settings(domain=host.dds_domain), b"{}", Line(("lo",), datagram=datagram))
    with rtmw.Subscriber("large", domain=host.domain, reliability=RELIABLE) as subscriber:
        writer = octets_writer(participant, "large", is_node=False)
        write_bytes(writer, b"\0\1\0\0" + struct.pack("<I", size) + bytes(size))
        assert len(subscriber.receive(timeout=PATIENCE).value) == size
    sender = participant.guid.bytes[:12]
    del writer, participant, kept
    sizes = [*_captured(file, sender)]
    assert sum(sizes) > size
    assert datagram - 128 < max(sizes) <= datagram


def _divided(place: Any) -> int:
    """Datagrams that IP has divided on a host."""
    command = [*place.enter, "cat", "/proc/net/snmp"]
    rows = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()
    names, values = (row.split() for row in rows if row.startswith("Ip:"))
    return int(values[names.index("FragCreates")])


@pytest.fixture
def two(dds_domain: int, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Network, list[Host]]]:
    network = Network(2, request.param)
    hosts = [Host(free_number(), dds_domain, tmp_path, network.place(at)) for at in range(2)]
    yield network, hosts
    for host in hosts:
        host.end()
    network.close()


def _send_large(hosts: list[Host]) -> None:
    with (
        rtmw.Subscriber("large", domain=hosts[1].domain, reliability=RELIABLE) as subscriber,
        rtmw.Publisher("large", domain=hosts[0].domain, reliability=RELIABLE, max_blocking=PATIENCE) as publisher,
    ):
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        for at in range(5):
            assert publisher.publish(bytes([at]) * 300_000)
            assert subscriber.receive(timeout=PATIENCE).value[0] == at


@in_namespaces
@pytest.mark.parametrize("two", [1500, 1280], indirect=True)
# Proves G254.
def test_ip_divides_no_datagram_of_a_node(two: tuple[Network, list[Host]]) -> None:
    _, hosts = two
    for host in hosts:
        host.start()
    _send_large(hosts)
    assert [_divided(host.place) for host in hosts] == [0, 0]


@in_namespaces
@pytest.mark.parametrize("two", [9000], indirect=True)
# Proves G254.
def test_of_several_interfaces_the_one_with_the_smallest_frames_counts(two: tuple[Network, list[Host]]) -> None:
    network, hosts = two
    for at, host in enumerate(hosts):
        network.plug_second(at)
        host.start("--interface", f"{INTERFACE}, {SECOND}")
        assert host.info()["datagram"] == ETHERNET
    _send_large(hosts)
    assert [_divided(host.place) for host in hosts] == [0, 0]


FOREIGN = """
import os, sys, time
os.environ["CYCLONEDDS_URI"] = "<General><Interfaces><NetworkInterface name='eth0'/></Interfaces></General>"
from dataclasses import dataclass
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct, types
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

@dataclass
class Octets(IdlStruct, typename="rtmw::Octets"):
    data: types.sequence[types.byte]

participant = DomainParticipant(int(sys.argv[1]))
qos = Qos(Policy.Reliability.Reliable(0), Policy.History.KeepAll)
reader = DataReader(participant, Topic(participant, "flood", Octets), qos=qos)
while True:
    for sample in reader.take(100):
        print(len(sample.data), flush=True)
    time.sleep(0.001)
"""
"""A program with Cyclone DDS as it is, in which nothing is of rtmw."""


@at_a_cable
# Proves G254.
def test_a_flood_of_large_messages_reaches_a_dds_program_over_a_line_that_loses_one_frame_in_a_hundred(
    dds_domain: int, tmp_path: Path
) -> None:
    line = Cable(Faults(lost=0.01, bits_per_second=50e6, queue=1_000_000))
    host, size, wanted = Host(free_number(), dds_domain, tmp_path, line.place(0), pool="32M"), 65_536, 100
    command = [*line.place(1).enter, sys.executable, "-c", FOREIGN, str(dds_domain)]
    try:
        host.start()
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program,
            rtmw.Publisher("flood", domain=host.domain, reliability=RELIABLE, max_blocking=0) as publisher,
        ):
            assert program.stdout is not None
            try:
                wait_until(lambda: host.crossed("out", "flood", "plain")["readers"] == 1, "the program does not read")
                os.set_blocking(program.stdout.fileno(), False)
                came, before, until = 0, line.loaded[0], time.monotonic() + PATIENCE
                while came < wanted:
                    publisher.publish(bytes(size))
                    came += len(program.stdout.readlines())
                    assert time.monotonic() < until, f"{came} messages came of {host.crossed('out', 'flood', 'plain')}"
                    time.sleep(0.001)
                loaded = line.loaded[0] - before
                assert 3 * came * size >= loaded
            finally:
                program.kill()
    finally:
        host.end()
        line.close()
