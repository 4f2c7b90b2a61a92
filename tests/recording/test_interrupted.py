"""Ctrl-C in a program that writes a recording."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rtmw.recording import Recording

ROUNDS = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("interrupted")
    program = Path(__file__).with_name("interrupted.py")
    subprocess.run([sys.executable, str(program), str(folder), str(ROUNDS)], check=True, timeout=110)
    return sorted(folder.iterdir())


# Proves G144.
def test_an_exception_in_the_middle_of_writing_leaves_each_message_once(files: list[Path]) -> None:
    for path in files:
        with Recording(path) as recording:
            found = [m.sequence for m in recording.messages()]
            assert found == list(range(len(found))), path
            hundreds = [int(values["row"]) for _, values in recording.metadata]
            assert hundreds == list(range(99, len(found), 100))[: len(hundreds)], path
    assert len(files) == ROUNDS


def test_a_recording_that_was_closed_after_an_exception_is_complete(files: list[Path]) -> None:
    for path in files:
        with Recording(path) as recording:
            assert recording.complete or "open" in path.name, recording.incomplete_because
