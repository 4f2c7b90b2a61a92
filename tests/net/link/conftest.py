"""Lines for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw.net.link.library import Context
from rtmw.net.security.certificates import AUTHORITIES, NODE, der
from rtmw.net.security.identity import read_node
from tests.conftest import free_number
from tests.net.link.cable import Cabled, cabled_pair
from tests.net.link.ends import End, Ends
from tests.net.security.site import Site

POOL = "64M"


@pytest.fixture
def domains() -> Iterator[tuple[rtmw.Domain, rtmw.Domain]]:
    """Two domains, one for each end."""
    with rtmw.Domain(free_number(), pool=POOL) as here, rtmw.Domain(free_number(), pool=POOL) as there:
        yield here, there
    for domain in (here, there):
        rtmw.Domain.unlink(domain.id)


@pytest.fixture
def ends(domains: tuple[rtmw.Domain, rtmw.Domain]) -> Iterator[Ends]:
    """Two lines without TLS, not joined yet."""
    both = Ends(End(domains[0]), End(domains[1]))
    yield both
    both.close()


def contexts(folder: Path) -> tuple[Context, Context]:
    """To connect and to accept, with the keys of a folder."""
    _, authorities = read_node(folder)
    pem, trusted = (folder / NODE).read_bytes(), [der(one) for one in authorities]
    assert (folder / AUTHORITIES).exists()
    return Context(pem, trusted, False), Context(pem, trusted, True)


@pytest.fixture
def tls_ends(domains: tuple[rtmw.Domain, rtmw.Domain], tmp_path: Path) -> Iterator[Ends]:
    """Two lines with keys of one site, not joined yet."""
    site = Site(tmp_path)
    keys = [contexts(site.keys(f"rtmw://plant/{name}")) for name in ("hub", "press")]
    both = Ends(End(domains[0], keys[0]), End(domains[1], keys[1]))
    yield both
    both.close()


@pytest.fixture
def cabled(tmp_path: Path) -> Iterator[Cabled]:
    """Two nodes with a cable between, not started."""
    with cabled_pair(tmp_path) as both:
        yield both


@pytest.fixture
def third() -> Iterator[rtmw.Domain]:
    """The domain of a third node."""
    number = free_number()
    with rtmw.Domain(number, pool="8M") as domain:
        yield domain
    rtmw.Domain.unlink(number)
