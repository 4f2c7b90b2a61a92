"""A writer that is killed at any time loses nothing that it was answered, on a real disk and with real processes."""

from __future__ import annotations

import random
import time
from pathlib import Path

import rtmw
from tests.child import Spawn

KILLS = 6

WRITER = """
    import sys, threading
    import rtmw

    log = rtmw.Log({path!r}, segment="64K")
    mouth = threading.Lock()

    def append(number):
        for turn in range(10_000):
            key = f"{{life}}-{{number}}-{{turn}}"
            data = key.encode() + bytes(turn % 3000)
            log.append(data) if turn % 5 else log.append_many([data] * 2)
            with mouth:
                print(key, flush=True)

    life = {life}
    for number in range(4):
        threading.Thread(target=append, args=(number,)).start()
"""


# Proves G117.
def test_a_writer_that_is_killed_loses_nothing_that_was_answered(tmp_path: Path, spawn: Spawn) -> None:
    chance = random.Random(1)
    path, answered = tmp_path / "log", list[str]()
    for life in range(KILLS):
        child = spawn(WRITER.format(path=str(path), life=life))
        wanted = chance.randrange(1, 300)
        until = time.monotonic() + 20
        while wanted and time.monotonic() < until:
            answered.append(child.line())
            wanted -= 1
        child.kill()
        with rtmw.Log(path) as log:
            found = [record.data.rstrip(b"\0").decode() for record in log.read()]
        assert set(answered) <= set(found)
        for number in range(4):  # what a thread appended is there in its order, and each batch is whole
            mine = [key for key in found if key.startswith(f"{life}-{number}-")]
            turns = [int(key.rpartition("-")[2]) for key in mine]
            most = max(turns, default=-1)
            assert turns == [turn for turn in range(most + 1) for _ in range(2 if turn % 5 == 0 else 1)]
