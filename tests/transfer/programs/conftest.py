from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from tests.transfer.core_process import CoreProcess


@pytest.fixture
def core(domain: rtmw.Domain, tmp_path: Path) -> Iterator[CoreProcess]:
    """That of the test's domain, which has a pool of 8 MiB."""
    core = CoreProcess(domain.id, tmp_path / "transfers")
    core.start()
    core.wait_until_ready()
    yield core
    core.end()


@pytest.fixture
def sender(core: CoreProcess) -> Iterator[rtmw.Sender]:
    with rtmw.Sender("gauge") as sender:
        yield sender


@pytest.fixture
def inbox(core: CoreProcess) -> Iterator[rtmw.Inbox]:
    with rtmw.Inbox("ingest") as inbox:
        yield inbox
