"""What tests share: a domain of their own, and other processes in it."""

from __future__ import annotations

import itertools
import os
import signal
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import rtmw
from tests import collection, order, required
from tests.child import Child, Spawn
from tests.stalls import Stalls

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell starts background jobs with SIGINT ignored, and so would every child be that these tests interrupt."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of JVMs that live for seconds: without their second compiler and collector they need a third less of the
processors."""
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(name, SHORT_LIVED)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(collection, "collection")
    config.pluginmanager.register(order, "order")
    config.pluginmanager.register(required, "required")
    config.pluginmanager.register(Stalls(), "stalls")


NUMBERS = [*range(10, 50), *range(75, 100), *range(215, 233)]
"""Domains that tests use: those whose UDP ports, as DDS domains, the kernel gives to nobody (it gives 32768 to 60999).
People use the lowest ones, and the demonstration takes the first that is free from 50 on."""

WITHOUT_DDS = [*range(100, 215)]
"""Domains of tests in which no node carries anything over DDS: these need no UDP ports."""

turn = itertools.count(os.getpid() * 31)
"""Test runs at the same time start at different numbers."""


_claims: deque[int] = deque()
_CLAIMS_MOST = 12
"""Sockets that claim the numbers given last: these stand for DDS domains, too, which nothing shows in /dev/shm."""


def has_ports(number: int) -> bool:
    """Whether the two ports are free that a DDS domain of this number has: the kernel gives them to others, too.

    Reading who has them takes them from nobody. Binding them would, for a moment: that of a node which starts.
    """
    taken = {
        int(line.split()[1].rpartition(":")[2], 16)
        for table in ("/proc/net/udp", "/proc/net/udp6")
        if Path(table).exists()
        for line in Path(table).read_text().splitlines()[1:]
    }
    return taken.isdisjoint(range(7400 + 250 * number, 7400 + 250 * number + 2))


def free_number(*, with_dds: bool = True) -> int:
    """A domain that nobody has created, and no other test run has been given lately."""
    numbers = NUMBERS if with_dds else WITHOUT_DDS
    for _ in numbers:
        number = numbers[next(turn) % len(numbers)]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as claim:
            try:
                claim.bind(f"\0rtmw-test-{number}")
                if with_dds and not has_ports(number):
                    continue
                with rtmw.Domain(number, create=False):
                    continue
            except rtmw.DomainNotFound:
                _claims.append(claim.detach())
            except (rtmw.DomainError, OSError):
                continue
        if len(_claims) > _CLAIMS_MOST:
            os.close(_claims.popleft())
        return number
    raise RuntimeError(f"all domains {numbers[0]} to {numbers[-1]} exist; `rtmw clean` removes one")


@pytest.fixture
def domain_id(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The number of a domain of this test alone, not yet created, also named by RTMW_DOMAIN; unlinked afterwards."""
    number = free_number()
    monkeypatch.setenv("RTMW_DOMAIN", str(number))
    yield number
    with suppress(rtmw.DomainNotFound):
        rtmw.Domain.unlink(number)


@pytest.fixture
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """A domain of this test alone with a pool of 8 MiB, all of it open to every priority."""
    with rtmw.Domain(domain_id, pool="8M", reserve=0) as attached:
        yield attached


@pytest.fixture
def spawn(domain_id: int, tmp_path: Path) -> Iterator[Spawn]:
    """Starts other Python processes in the test's domain, from source; whatever still lives at the end is killed."""
    children: list[Child] = []
    same_rtmw = str(Path(rtmw.__file__).parents[1])
    path = os.pathsep.join(filter(None, [same_rtmw, os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "RTMW_DOMAIN": str(domain_id), "PYTHONPATH": path}

    def start(source: str) -> Child:
        children.append(Child(source, tmp_path / f"child_{len(children)}.py", env))
        return children[-1]

    yield start
    for child in children:
        child.end()
