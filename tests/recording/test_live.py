"""Recordings that another program is writing at this moment."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtmw.recording import Recording

LIMIT_S = 100.0
LARGEST_GROUP = 60_000
"""Bytes that a chunk of `endless.py` can have in the file, with what belongs to it."""


@contextlib.contextmanager
def writing(path: Path, messages: int) -> Iterator[subprocess.Popen[bytes]]:
    """A program that writes; it is there, and so is the beginning of the file."""
    program = Path(__file__).with_name("endless.py")
    with subprocess.Popen([sys.executable, str(program), str(path), str(messages)]) as process:
        try:
            deadline = time.monotonic() + LIMIT_S
            while not (path.exists() and path.stat().st_size > 0):
                assert time.monotonic() < deadline
                assert process.poll() is None
                time.sleep(0.001)
            yield process
        finally:
            process.kill()


# Proves G143.
def test_who_follows_a_recording_gets_every_message_once_and_sees_its_end(tmp_path: Path) -> None:
    path, found, chunks = tmp_path / "live.mcap", [], 0
    deadline = time.monotonic() + LIMIT_S
    with writing(path, 50_000), Recording(path) as recording:
        while not recording.complete:
            assert time.monotonic() < deadline
            recording.refresh()
            for chunk in recording.chunks[chunks:]:
                found += recording.read(chunk).sequence.tolist()
            chunks = len(recording.chunks)
    assert found == list(range(50_000))


@pytest.mark.parametrize("size", [1, 10_000, 100_000, 400_000])
def test_who_is_killed_while_it_writes_leaves_every_whole_chunk(tmp_path: Path, size: int) -> None:
    path = tmp_path / "killed.mcap"
    with writing(path, 100_000_000) as process:
        deadline = time.monotonic() + LIMIT_S
        while path.stat().st_size < size:
            assert time.monotonic() < deadline
        process.kill()
    with Recording(path) as recording:
        found = [m.sequence for m in recording.messages()]
        assert found == list(range(len(found)))
        assert path.stat().st_size - recording.chunks[-1].side_position < LARGEST_GROUP if recording.chunks else True
        assert not recording.complete
