"""The programs for those who come from other systems run as they stand there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.child import Spawn
from tests.page import programs
from tests.transfer.core_process import PATIENCE, serving_transfers

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("from-ros2", "1500.0"),
        ("from-zenoh", "plant/pump 7 b'stop'"),
        ("from-mqtt", "b'running'"),
        ("from-nats", "0 anna b'order 1'"),
    ],
)
def test_the_program_of_the_page_prints_what_it_received(
    page: str, printed: str, spawn: Spawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = programs(DOCS / f"{page}.md")
    monkeypatch.chdir(tmp_path)
    child = spawn(source)
    assert child.line() == printed
    assert child.wait() == 0, child.stderr


def test_the_program_of_a_page_that_needs_transfers_prints_what_it_received(
    spawn: Spawn, domain_id: int, tmp_path: Path
) -> None:
    (source,) = programs(DOCS / "from-ibm-mq.md")
    with serving_transfers(domain_id, tmp_path):
        child = spawn(source)
        assert child.line(PATIENCE) == "plant b'bill 7'", child.stderr
        assert child.wait() == 0, child.stderr
