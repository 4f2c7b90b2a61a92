"""A process that is killed behind any of its records, also in the undo of the restart, on a real disk."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rtmw.transfer.records import Clr
from tests.child import Spawn
from tests.transfer.driven import Driven
from tests.transfer.letters import drain
from tests.transfer.memory import Core, recovered
from tests.transfer.script import NODE, run
from tests.whole import sample

KILLS = 4
BATCHES = 24
"""That the script appends."""


def killed(path: Path, batches: int, *script: str) -> bool:
    """Whether it was killed; else it ended by itself."""
    command = [sys.executable, "-m", "tests.transfer.script", str(path), str(batches), *script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL or done.stdout == "ended\n", done.stderr
    return done.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def whole() -> Core:
    core = Core()
    run(core.step)
    return core


def test_the_script_has_all_that_is_to_be_killed(whole: Core) -> None:
    assert {type(record).__name__ for _, record in whole.log.shown()} == {
        "Abort", "Change", "Checkpoint", "Clr", "Commit", "End", "Enqueue", "Savepoint", "Start", "Take",
    }  # fmt: skip
    assert len(whole.log.batches) == BATCHES
    log = whole.log.cut(BATCHES)
    recovered(log, 16)
    assert sum(isinstance(record, Clr) for _, record in log.shown()) > sum(
        isinstance(record, Clr) for _, record in whole.log.shown()
    )


@pytest.mark.parametrize("record", sample(range(2, BATCHES + 1), 4))
# Proves G175.
def test_killed_behind_a_record_and_in_the_undo_of_the_restart_a_store_has_what_was_committed(
    record: int, whole: Core, tmp_path: Path
) -> None:
    """A record here is a batch; START is the first that a store appends in a step."""
    path, log = tmp_path / "transfers", whole.log.cut(record)
    assert killed(path, record - 1, "script")
    state = recovered(log, 16)
    wanted = [item.record.body for item in sorted(state.items.values(), key=lambda item: item.place)]
    undone = len(log.batches) - record
    if undone:
        assert killed(path, 1 + record % undone)
    with Driven(path, node=NODE) as store:
        assert drain(store) == wanted


WRITER = """
    import sys
    sys.path.insert(0, {root!r})
    from tests.transfer.driven import Driven
    from tests.transfer.letters import send

    store = Driven({path!r}, node="plant", checkpoint=5000, segment="64K")
    for turn in range(100_000):
        txn = store.begin()
        for part in "abc":
            send(store, f"{life}-{{turn}}-{{part}}".encode() + bytes(turn % 5 * 1500), txn)
            if part == "a":
                store.savepoint(txn, "a")
            if part == "b":
                store.rollback(txn, "a")
        store.commit(txn)
        print(turn, flush=True)
"""


def test_a_writer_that_is_killed_at_any_time_loses_nothing_that_was_committed(tmp_path: Path, spawn: Spawn) -> None:
    chance, path, root = random.Random(3), tmp_path / "transfers", Path(__file__).parents[2]
    for life in range(KILLS):
        child = spawn(WRITER.format(root=str(root), path=str(path), life=life))
        answered, wanted, until = -1, chance.randrange(1, 60), time.monotonic() + 20
        while answered < wanted and time.monotonic() < until:
            answered = int(child.line())
        child.kill()
        with Driven(path, node="plant") as store:
            found = [body.rstrip(b"\0").decode() for body in drain(store)]
        turns = [int(body.split("-")[1]) for body in found]
        assert len(turns) >= 2 * (answered + 1)
        assert found == [f"{life}-{turn}-{part}" for turn in range(len(found) // 2) for part in "ac"]
        assert list((path / "spool").iterdir()) == []
