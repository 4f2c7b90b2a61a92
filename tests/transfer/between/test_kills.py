"""T8 between two nodes: either core is killed, behind each record and before each system call that changes a file."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import rtmw
from rtmw import Delivery, Level
from tests.transfer.between.pair import Pair, opened, shown, take, until, written
from tests.transfer.core_process import KILLED, PATIENCE, CoreProcess
from tests.transfer.kill_at_call import killed_at_call
from tests.whole import sample

LETTERS = 8
RECORDS = 34
"""Batches that either core logs, about."""
CALLS = {"station": 280, "centre": 240}
"""System calls that change files, of each core and its start, about."""


@pytest.mark.parametrize("victim", ["station", "centre"])
@pytest.mark.parametrize("batches", sample(range(2, RECORDS), 2))
# Proves G197.
def test_t8_log_either_core_is_killed_behind_a_record_and_each_letter_is_consumed_once(
    stopped: Pair, victim: str, batches: int, tmp_path: Path
) -> None:
    carry_over_a_kill(stopped, victim, lambda core: core.start(KILLED, "--batches", str(batches)), tmp_path)


@pytest.mark.parametrize(
    ("victim", "call"), [(victim, call) for victim, calls in CALLS.items() for call in sample(range(1, calls), 3)]
)
# Proves G197.
def test_t8_log_either_core_is_killed_before_a_system_call_and_each_letter_is_consumed_once(
    stopped: Pair, victim: str, call: int, tmp_path: Path
) -> None:
    def start(core: CoreProcess) -> None:
        core.enter = killed_at_call(tmp_path, call)
        core.start()
        core.enter = []

    carry_over_a_kill(stopped, victim, start, tmp_path)


def carry_over_a_kill(pair: Pair, victim: str, start: Callable[[CoreProcess], None], folder: Path) -> None:
    """Letters, a file and a transaction; `start` starts the core that dies."""
    dying: CoreProcess = getattr(pair, victim)
    (pair.centre if victim == "station" else pair.station).start()
    start(dying)
    file = written(folder / "x", 100_000)

    def follow() -> None:
        dying.process.wait(PATIENCE)
        dying.close_pipes()
        dying.start()

    following = threading.Thread(target=follow)
    following.start()
    consumed: Counter[str] = Counter()
    with (
        opened(lambda: rtmw.Inbox("ingest", folder=pair.inbox, domain=pair.centre.domain)) as inbox,
        opened(lambda: rtmw.Sender("gauge", domain=pair.station.domain)) as sender,
    ):
        sent = [sender.send("ingest@centre", b"%d" % one, delivery=Delivery.LOG) for one in range(LETTERS)]
        sent.append(sender.send("ingest@centre", rtmw.File(folder / "x"), delivery=Delivery.LOG))
        while not _sends_both(sender):
            continue
        while sum(consumed.values()) < LETTERS + 3:
            with take(inbox) as letter:
                consumed[str(letter.files[0].name if letter.files else letter.body)] += 1
        assert inbox.take(0.2) is None
        assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)
        if following.is_alive():  # so few records were logged in this life
            dying.process.kill()
        following.join()
        until(lambda: not shown(sender), "nothing is left at the sender")
    assert set(consumed.values()) == {1}
    assert (pair.inbox / "x").read_bytes() == file
    assert list((pair.inbox / ".rtmw").iterdir()) == []


def _sends_both(sender: rtmw.Sender) -> bool:
    """False: the core that had the transaction has died, so it is undone."""
    try:
        with sender.transaction() as txn:
            txn.send("ingest@centre", b"one of two", delivery=Delivery.LOG)
            txn.send("ingest@centre", b"two of two", delivery=Delivery.LOG)
    except rtmw.TransferError as error:
        if not re.search("undone|not open", str(error)):
            raise
        return False
    return True
