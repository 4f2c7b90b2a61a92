"""Tools of others show our topics: those of the cyclonedds wheel, and tshark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from tests.net.hosts import PATIENCE, Host, wait_until
from topics.river import Quality, Reading

Pair = tuple[Host, Host]
ON_LOOPBACK = (
    "<CycloneDDS><Domain><General><Interfaces><NetworkInterface name='lo' multicast='true'/></Interfaces></General>"
    "</Domain></CycloneDDS>"
)


def cyclonedds(host: Host, command: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a tool of the wheel."""
    tool = str(Path(sys.executable).with_name("cyclonedds"))
    domain = ("-i", str(host.dds_domain), "-r", "3s", "--suppress-progress-bar", "--color", "none")
    env = {**os.environ, "CYCLONEDDS_URI": ON_LOOPBACK, "COLUMNS": "200"}
    words = [tool, command, *arguments, *domain]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)


def test_cyclonedds_ls_shows_topic_type_and_policies(host: Host, topic: str) -> None:
    with rtmw.Publisher(topic, Reading, domain=host.domain, priority=5, lifetime=20.0):
        until = time.monotonic() + PATIENCE
        while True:
            said, _ = cyclonedds(host, "ls", "--qos", "-t", topic).communicate(timeout=PATIENCE)
            if "river::Reading" in said and topic in said and "TransportPriority" in said and "Lifespan" in said:
                return
            assert time.monotonic() < until, said


def test_cyclonedds_subscribe_prints_what_is_published(host: Host, topic: str) -> None:
    with rtmw.Publisher(topic, Reading, domain=host.domain) as publisher:
        tool = cyclonedds(host, "subscribe", "--qos", "scan-random", "--type", "scan-random", topic)
        try:
            assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
            publisher.publish(Reading("a place by the river", "pH", 7.25, Quality.BAD, 1))
            assert tool.stdout is not None
            for line in tool.stdout:
                if "a place by the river" in line:
                    return
            raise AssertionError("it ended, and did not print the message")
        finally:
            tool.kill()
            tool.communicate()


SMALL = "udp and less 4096"
"""Announcements, and not the bulk that some other program may send just then: that takes too long to decode."""
RECORDS = ("dumpcap", "-q", "-i", "lo", "-f", SMALL, "-w")
"""The program by which tshark records."""


@pytest.fixture
def capture(tmp_path: Path) -> Iterator[Path]:
    """What goes over the loopback interface, as a program of tshark's package records it into this file."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed: apt-get install tshark")
    file, log = tmp_path / "loopback.pcapng", tmp_path / "dumpcap.log"
    with log.open("wb") as said:
        dumpcap = subprocess.Popen([*RECORDS, str(file)], stderr=said)
    try:
        until = time.monotonic() + PATIENCE
        while "File: " not in log.read_text() and dumpcap.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        if dumpcap.poll() is not None:
            pytest.skip(f"tshark may not capture on this machine: {log.read_text().strip()}")
        yield file
    finally:
        dumpcap.kill()  # it would end with the next datagram that it sees, and there may be none
        dumpcap.wait()


WRITER, READER = "0x000003c2", "0x000004c2"


def decoded(file: Path, topic: str, announced_by: str) -> dict[str, str]:
    """What tshark reads in the announcements of a topic's writer or reader: the lines of each parameter."""
    chosen = f'rtps.param.topicName == "{topic}" && rtps.sm.wrEntityId == {announced_by}'
    command = ["tshark", "-r", str(file), "-Y", chosen, "-V"]
    found: dict[str, str] = {}
    name = ""
    for line in subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE).stdout.splitlines():
        if re.fullmatch(r"PID_\w+|Unknown .*", line.strip()):
            name = line.strip()
            found[name] = ""
        found[name] = found.get(name, "") + line.strip() + "; "
    return found


def test_tshark_reads_the_policies_in_discovery(capture: Path, pair: Pair) -> None:
    here, there = pair
    wait_until(lambda: capture.exists() and capture.stat().st_size > 2000, "nothing is recorded")
    topic = "river/wire"
    subscriber = rtmw.Subscriber(
        topic, Reading, domain=there.domain, min_interval=0.25, deadline=1.5, history=2,
        reliability=rtmw.Reliability.RELIABLE,
    )  # fmt: skip
    publisher = rtmw.Publisher(
        topic, Reading, domain=here.domain, priority=5, lifetime=20.0, history=3,
        reliability=rtmw.Reliability.RELIABLE,
    )  # fmt: skip
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    publisher.publish(Reading("s1"))
    assert subscriber.receive(timeout=PATIENCE).value.station == "s1"
    wait_until(  # a writer offers the deadline that a reader asks for, as soon as that is known
        lambda: all("PID_DEADLINE" in decoded(capture, topic, side) for side in (READER, WRITER)),
        "they are not in what was recorded",
    )
    writer, reader = decoded(capture, topic, WRITER), decoded(capture, topic, READER)
    assert "RELIABLE_RELIABILITY_QOS" in writer["PID_RELIABILITY"]
    assert "TRANSIENT_LOCAL_DURABILITY_QOS" in writer["PID_DURABILITY"]
    assert "KEEP_ALL_HISTORY_QOS" in writer["PID_HISTORY"]
    assert "History Depth: 3" in writer["PID_DURABILITY_SERVICE"]
    assert "Value: 5" in writer["PID_TRANSPORT_PRIORITY"]
    assert "20.000000 sec" in writer["PID_LIFESPAN"]
    assert "1.500000 sec" in writer["PID_DEADLINE"]
    assert "RELIABLE_RELIABILITY_QOS" in reader["PID_RELIABILITY"]
    assert "TRANSIENT_LOCAL_DURABILITY_QOS" in reader["PID_DURABILITY"]
    assert "0.250000 sec" in reader["PID_TIME_BASED_FILTER"]
    assert "1.500000 sec" in reader["PID_DEADLINE"]
