"""A recorder that dies at any moment: what was in whole chunks is there, and nobody else notices."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

import rtmw
from tests.child import Spawn

RECORD = """
import sys, time, rtmw
recorder = rtmw.Recorder("a", {folder!r}, chunk_bytes=2000, compression={compression!r})
print("ready")
time.sleep(600)
"""


def rows_of(folder: Path) -> list[int]:
    (path,) = folder.glob("*.mcap")
    with rtmw.Recording(path) as recording:
        return [int(message.payload[:8]) for message in recording.messages()]


@pytest.mark.parametrize("seed", range(6))
# Proves G139.
def test_a_killed_recorder_loses_at_most_its_last_second(
    seed: int, domain: rtmw.Domain, spawn: Spawn, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    child = spawn(RECORD.format(folder=str(tmp_path / "run"), compression=chance.choice(["lz4", "zstd", "none"])))
    assert child.line(60) == "ready"
    stamps: list[float] = []
    with rtmw.Publisher("a", domain=domain) as publisher:
        end = time.monotonic() + chance.uniform(0.05, 0.4)
        while time.monotonic() < end:
            assert publisher.publish(b"%08d" % len(stamps) * chance.randint(1, 40))
            stamps.append(time.monotonic())
            if chance.random() < 0.1:
                time.sleep(0.001)
        child.kill()
        assert publisher.publish(b"goes on")
    rows = rows_of(tmp_path / "run")
    assert rows == list(range(len(rows)))


def test_what_was_recorded_a_while_ago_is_in_the_file_though_little_came(
    domain: rtmw.Domain, spawn: Spawn, tmp_path: Path
) -> None:
    child = spawn(RECORD.format(folder=str(tmp_path / "run"), compression="lz4"))
    assert child.line(60) == "ready"
    with rtmw.Publisher("a", domain=domain) as publisher:
        publisher.publish(b"%08d" % 0)
        end = time.monotonic() + 60
        while not rows_of(tmp_path / "run"):
            assert time.monotonic() < end
            time.sleep(0.05)
        child.kill()
    assert rows_of(tmp_path / "run") == [0]
