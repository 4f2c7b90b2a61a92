"""The plugin that pytest finds where rtmw is installed: a test with `rtmw_domain` has a domain of its own."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from rtmw import Domain, DomainError, DomainNotFound
from rtmw.locks import claimed

NUMBERS: Final = (*range(10, 50), *range(75, 100), *range(215, 233))
"""Domains of tests: those whose UDP ports, as DDS domains, the kernel gives to nobody (it gives 32768 to 60999). People
use the lowest ones, and `rtmw demo` takes the first that is free from 50 on."""

_turn = itertools.count(os.getpid() * 31)
"""Test runs at the same time start at different numbers."""


def _taken_ports() -> set[int]:
    """UDP ports of this host that somebody has. Reading takes them from nobody; a node that starts would miss one that
    is bound here for a moment.
    """
    tables = [Path(name) for name in ("/proc/net/udp", "/proc/net/udp6")]
    lines = (line for table in tables if table.exists() for line in table.read_text().splitlines()[1:])
    return {int(line.split()[1].rpartition(":")[2], 16) for line in lines}


def claim_number(numbers: Sequence[int] = NUMBERS) -> tuple[int, socket.socket]:
    """A domain that nobody has created, as rtmw or as DDS, and the socket whose closing gives the claim to it back."""
    taken = _taken_ports()
    for _ in numbers:
        number = numbers[next(_turn) % len(numbers)]
        if not taken.isdisjoint(range(7400 + 250 * number, 7402 + 250 * number)):
            continue
        claim = claimed(f"rtmw-test-{number}")
        if claim is None:
            continue
        try:
            with Domain(number, create=False):
                pass
        except DomainNotFound:
            return number, claim
        except (DomainError, OSError):
            pass
        claim.close()
    raise RuntimeError(f"all domains {numbers[0]} to {numbers[-1]} exist; `rtmw clean` removes one")


@pytest.fixture
def rtmw_domain_id(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The number of a domain that no other test uses, not yet created. RTMW_DOMAIN names it, to programs that the test
    starts as well. The domain is removed afterwards.
    """
    number, claim = claim_number()
    monkeypatch.setenv("RTMW_DOMAIN", str(number))
    with claim:
        yield number
        with suppress(DomainNotFound):
            Domain.unlink(number)


@pytest.fixture
def rtmw_domain(rtmw_domain_id: int) -> Iterator[Domain]:
    """A domain of this test alone, which RTMW_DOMAIN names, with a pool of 8 MiB, all of it open to every priority."""
    with Domain(rtmw_domain_id, pool="8M", reserve=0) as attached:
        yield attached
