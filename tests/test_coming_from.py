"""The programs for those who come from other systems run as they stand there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.child import Spawn
from tests.page import programs

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize(
    ("page", "printed"),
    [("from-ros2", "1500.0"), ("from-zenoh", "plant/pump 7 b'stop'"), ("from-mqtt", "b'running'")],
)
def test_the_program_of_the_page_prints_what_it_received(page: str, printed: str, spawn: Spawn) -> None:
    (source,) = programs(DOCS / f"{page}.md")
    child = spawn(source)
    assert child.line() == printed
    assert child.wait() == 0, child.stderr
