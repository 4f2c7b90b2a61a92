"""A disk that stands still: nobody on the bus notices, and what was not recorded is counted."""

from __future__ import annotations

import json
import time
from pathlib import Path

import rtmw
from tests.child import Spawn
from tests.recorder.files import payloads_of

LONG_S = 60.0
BATCH, BATCHES = 500, 20

STALLED = """
import ctypes, json, sys, threading, rtmw
recorder = rtmw.Recorder("a", {folder!r}, chunk_bytes=10_000, buffer_bytes=100_000)
print("ready")
sys.stdin.readline()
print("stands still", flush=True)
ctypes.PyDLL(None).read(0, ctypes.create_string_buffer(1), 1)  # with the interpreter's lock: who writes files waits
print("goes on")
sys.stdin.readline()
recorder.close()
stats = recorder.stats()
print(json.dumps([stats.messages, {{cause.name: count for cause, count in stats.missing.items()}}]))
"""


def seconds_a_batch(publisher: rtmw.Publisher[bytes]) -> float:
    """Of processor time: the best of many."""
    best = float("inf")
    for _ in range(BATCHES):
        began = time.thread_time()
        for _ in range(BATCH):
            assert publisher.publish(bytes(200))
        best = min(best, time.thread_time() - began)
    return best


# Proves G137.
def test_a_disk_that_stands_still_slows_no_publisher_and_what_it_did_not_take_is_counted(
    domain: rtmw.Domain, spawn: Spawn, tmp_path: Path
) -> None:
    with rtmw.Publisher("a", domain=domain, reliability=rtmw.Reliability.RELIABLE, max_blocking=0.0) as publisher:
        alone = seconds_a_batch(publisher)
        child = spawn(STALLED.format(folder=str(tmp_path / "run")))
        assert child.line(LONG_S) == "ready"
        child.send()
        assert child.line(LONG_S) == "stands still"
        beside = seconds_a_batch(publisher)
        child.send()
        assert child.line(LONG_S) == "goes on"
        child.send()
        messages, missing = json.loads(child.line(LONG_S))
    assert messages + sum(missing.values()) == BATCH * BATCHES
    assert missing["OVERFLOWED"] > 0
    assert len(payloads_of([tmp_path / "run" / "run_0.mcap"])) == messages
    assert beside < 5 * alone  # beside any subscriber that keeps up it is twice
