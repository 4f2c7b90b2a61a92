"""The README keeps its word: its programs run as they stand there.

A Python block that makes only publishers is a publishing program, one that makes only subscribers a subscribing one;
they run as two processes of one domain, the subscriber started first. Every other Python block runs by itself, on a
host that serves transfers.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.child import Spawn
from tests.page import programs
from tests.transfer.core_process import PATIENCE, serving_transfers

README = Path(__file__).parents[1] / "README.md"


def blocks(publisher: bool, subscriber: bool) -> list[str]:
    """Python blocks that make publishers, subscribers, both, or neither."""
    found = programs(README)
    return [b for b in found if ("Publisher(" in b) == publisher and ("Subscriber(" in b) == subscriber]


def test_the_subscriber_of_the_readme_prints_what_its_publisher_publishes(spawn: Spawn) -> None:
    publishers, subscribers = blocks(True, False), blocks(False, True)
    assert publishers, "README shows no publisher"
    assert subscribers, "README shows no subscriber"
    receiving = [spawn(source) for source in subscribers]
    sending = [spawn(source) for source in publishers]
    assert all(child.line() for child in receiving)
    for child in [*sending, *receiving]:
        assert child.wait() == 0, child.stderr


# Proves C4.
def test_every_other_program_of_the_readme_runs(
    spawn: Spawn, domain_id: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # they write where they run
    with serving_transfers(domain_id, tmp_path):
        for source in blocks(True, True) + blocks(False, False):
            child = spawn(source)
            assert child.wait(PATIENCE) == 0, child.stderr


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_names_the_command(command: str) -> None:
    assert re.search(rf"^[ $]*{command}\b", README.read_text(), re.MULTILINE)
