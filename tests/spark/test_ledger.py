"""What a task has published is known to whoever runs it again."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import Empty, Queue

import pytest

import rtmw
from rtmw.spark.ledger import Ledger, forget_job
from tests.child import Spawn


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ledgers of these tests lie in a folder of their own."""
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_new_task_has_published_nothing() -> None:
    with Ledger("job", 0, 3) as ledger:
        assert ledger.count[0] == 0


def test_a_second_attempt_finds_what_the_first_has_counted() -> None:
    with Ledger("job", 0, 3) as ledger:
        ledger.count[0] = 41
    with Ledger("job", 0, 3) as again, Ledger("job", 0, 4) as other, Ledger("job", 1, 3) as next_batch:
        assert [again.count[0], other.count[0], next_batch.count[0]] == [41, 0, 0]


def test_what_was_counted_survives_sigkill(spawn: Spawn, temporary: Path) -> None:
    child = spawn(f"""
        import tempfile, time
        tempfile.tempdir = {str(temporary)!r}
        from rtmw.spark.ledger import Ledger
        ledger = Ledger("job", 0, 0)
        ledger.count[0] = 7
        print("counted", flush=True)
        time.sleep(600)
    """)
    assert child.line(60) == "counted"
    child.kill()
    with Ledger("job", 0, 0) as ledger:
        assert ledger.count[0] == 7


# Proves G173.
def test_of_two_attempts_at_once_the_later_one_waits_and_goes_on_behind_the_first() -> None:
    found = Queue[int]()

    def second() -> None:
        with Ledger("job", 0, 3) as ledger:
            found.put(ledger.count[0])

    with Ledger("job", 0, 3) as first:
        first.count[0] = 1
        thread = threading.Thread(target=second)
        thread.start()
        with pytest.raises(Empty):
            found.get(timeout=0.3)
        first.count[0] = 9
    assert found.get(timeout=60) == 9
    thread.join()


def test_a_task_that_is_done_for_good_leaves_nothing_behind(temporary: Path) -> None:
    with Ledger("job", 0, 3) as ledger:
        ledger.forget()
    assert [*next(temporary.iterdir()).iterdir()] == []


def test_a_job_that_is_given_up_leaves_nothing_behind_and_others_stay(temporary: Path) -> None:
    for job in ("failed", "other"):
        for part in range(2):
            with Ledger(job, 0, part) as ledger:
                ledger.count[0] = 1
    forget_job("failed")
    forget_job("failed")
    assert [folder.name for folder in next(temporary.iterdir()).iterdir()] == ["other"]


def test_batches_that_are_committed_are_forgotten(temporary: Path) -> None:
    for batch in range(4):
        with Ledger("query", batch, 0) as ledger:
            ledger.forget_before(batch)
    assert [folder.name for folder in next(temporary.iterdir()).joinpath("query").iterdir()] == ["3"]


def test_a_folder_of_somebody_else_is_not_used(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    with Ledger("job", 0, 0):
        folder = next(temporary.iterdir())
    mine = os.getuid()
    folder.rename(temporary / f"rtmw-spark-{mine + 1}")
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with pytest.raises(rtmw.RtmwError, match="belongs to somebody else; remove it, or set TMPDIR"):
        Ledger("job", 0, 0)
