from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import rtmw
from tests.conftest import free_number
from tests.transfer.between.pair import Pair


@pytest.fixture
def domains() -> Iterator[tuple[int, int]]:
    """Of two hosts."""
    numbers = free_number(with_dds=False), free_number(with_dds=False)
    with rtmw.Domain(numbers[0], pool="8M", reserve=0), rtmw.Domain(numbers[1], pool="8M", reserve=0):
        yield numbers
    for number in numbers:
        with suppress(rtmw.DomainNotFound):
            rtmw.Domain.unlink(number)


@pytest.fixture
def stopped(domains: tuple[int, int], tmp_path: Path) -> Iterator[Pair]:
    """Two nodes that may send each other all, and have not begun yet."""
    made = Pair(tmp_path, domains)
    yield made
    made.end()


@pytest.fixture
def pair(stopped: Pair) -> Pair:
    stopped.start()
    return stopped


@pytest.fixture
def sender(pair: Pair) -> Iterator[rtmw.Sender]:
    """At the station."""
    with rtmw.Sender("gauge", domain=pair.station.domain) as sender:
        yield sender


@pytest.fixture
def inbox(pair: Pair) -> Iterator[rtmw.Inbox]:
    """At the centre, with a folder."""
    with rtmw.Inbox("ingest", folder=pair.inbox, domain=pair.centre.domain) as inbox:
        yield inbox
