"""What tests share: a domain of their own, and other processes in it."""

from __future__ import annotations

import os
import signal
import socket
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import rtmw
from rtmw.pytest_plugin import NUMBERS, claim_number
from tests import collection, order, required
from tests.child import Child, Spawn
from tests.stalls import Stalls

settings.register_profile("rtmw", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rtmw")  # no test is judged by how fast this machine is

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


def pytest_unconfigure() -> None:
    """At exit the interpreter would warn of each socket that is still open."""
    while _claims:
        _claims.pop().close()


WITHOUT_DDS = [*range(100, 215)]
"""Domains of tests in which no node carries anything over DDS: these need no UDP ports."""

_claims: deque[socket.socket] = deque()
_CLAIMS_MOST = 7
"""Of the numbers given last: these stand for DDS domains, too, which nothing shows in /dev/shm."""


def free_number(*, with_dds: bool = True) -> int:
    """A domain that nobody has created, and no other test run has been given lately."""
    number, claim = claim_number(NUMBERS if with_dds else WITHOUT_DDS)
    _claims.append(claim)
    if len(_claims) > _CLAIMS_MOST:
        _claims.popleft().close()
    return number


@pytest.fixture
def domain_id(rtmw_domain_id: int) -> int:
    """The number of a domain of this test alone, as the package's own plugin gives it to users' tests."""
    return rtmw_domain_id


@pytest.fixture
def domain(rtmw_domain: rtmw.Domain) -> rtmw.Domain:
    """A domain of this test alone, as the package's own plugin gives it to users' tests."""
    return rtmw_domain


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
