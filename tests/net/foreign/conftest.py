"""A host, and programs of others that tests of one file share: each test has a topic of its own."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import free_number
from tests.net.foreign.build import HERE, LONGEST_S, fast_program, python_modules
from tests.net.foreign.peer import Peer
from tests.net.hosts import Host

numbers = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of these tests waits until all is built."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(LONGEST_S + 120))


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the Python modules of the IDL files."""
    folder = tmp_path_factory.mktemp("idl")
    python_modules(folder)
    return folder


@pytest.fixture(scope="session")
def fast(compiled: Path) -> Path:
    """The Fast DDS program; skips where it cannot be built."""
    return fast_program(compiled)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with a node."""
    alone = Host(free_number(), free_number(), tmp_path_factory.mktemp("host"))
    alone.start()
    yield alone
    alone.end()


@pytest.fixture(scope="module", params=["cyclonedds", "fastdds"])
def peer(request: pytest.FixtureRequest, host: Host, compiled: Path) -> Iterator[Peer]:
    """A program of another vendor's DDS, in the DDS domain of the host."""
    vendor = str(request.param)
    if vendor == "cyclonedds":
        command = [sys.executable, str(HERE / "plain.py"), str(host.dds_domain)]
    else:
        command = [str(request.getfixturevalue("fast")), str(host.dds_domain)]
    program = Peer(vendor, command, compiled, host.log.with_name(f"{vendor}.log"))
    yield program
    program.end()


@pytest.fixture
def topic() -> str:
    """The name of a topic that no other test uses."""
    return f"foreign/{next(numbers)}"
