"""What a node pays for a DDS program with thousands of endpoints: `python -m tests.net.crowd 10000` prints it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import rtmw
from rtmw.net.settings import STATUS_TOPIC
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.silence import cpu_s, memory

_LOOPBACK = '<General><Interfaces><NetworkInterface name="lo" multicast="true"/></Interfaces></General>'
_ROUNDS = 3
_PROGRAM = """
import sys
from dataclasses import dataclass

from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic


@dataclass
class Foreign(IdlStruct, typename="plant.Foreign"):
    number: int


participant = DomainParticipant(int(sys.argv[1]))
topics = [Topic(participant, f"foreign/{number}", Foreign) for number in range(20)]
kept = [(DataWriter, DataReader)[n % 2](participant, topics[n % 20]) for n in range(int(sys.argv[2]))]
print("made", flush=True)
sys.stdin.read()
"""
"""Nothing of rtmw is in it."""


@contextmanager
def crowd(host: Host, count: int) -> Iterator[None]:
    """A program with so many endpoints, all of which the node knows; after it, none."""
    command = [sys.executable, "-c", _PROGRAM, str(host.dds_domain), str(count)]
    env = {**os.environ, "CYCLONEDDS_URI": _LOOPBACK}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"made\n"
        wait_until(lambda: known(host) == count, "the node does not know all of them", 5 * PATIENCE)
        yield
        program.communicate(timeout=PATIENCE)
    wait_until(lambda: known(host) == 0, "the node knows them though they are gone", 5 * PATIENCE)


def known(host: Host) -> int:
    """Endpoints elsewhere that the node knows."""
    status = host.info()
    return len(status["elsewhere"]) + int(status["elsewhere_untold"])


@dataclass(frozen=True)
class Cost:
    """Of a node, while nothing changes."""

    cpu: float
    """Part of a core."""
    memory: int
    status: int
    """Bytes of the document that it publishes once a second."""

    def __str__(self) -> str:
        return f"{100 * self.cpu:.1f} % of a core, {self.memory / 1e6:.0f} MB, status of {self.status:,} bytes"


def cost(host: Host, seconds: float) -> Cost:
    """Over so many seconds."""
    begun, before = time.monotonic(), cpu_s(host.node.pid)
    time.sleep(seconds)
    spent = cpu_s(host.node.pid) - before
    with rtmw.Subscriber(STATUS_TOPIC, history=1, domain=host.domain) as status:
        document = status.receive(timeout=PATIENCE).data.nbytes
    return Cost(spent / (time.monotonic() - begun), memory(host.node.pid), document)


def main(count: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        host = Host(free_number(), free_number(), Path(folder))
        try:
            host.start()
            print(f"none: {cost(host, seconds)}", flush=True)
            for _ in range(_ROUNDS):
                with crowd(host, count):
                    print(f"{count} endpoints: {cost(host, seconds)}", flush=True)
                time.sleep(3)  # it returns memory once a second
                print(f"none again: {cost(host, seconds)}", flush=True)
        finally:
            host.end()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 10.0)
