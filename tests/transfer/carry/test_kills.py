"""FILE between two processes that are killed: at any time, behind each record of a journal, before each system call."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.transfer.carry.pair import MIB, PATIENCE, Pair
from tests.whole import sample


def pair_of(folder: Path, size: int) -> Iterator[Pair]:
    pair = Pair(folder, size)
    yield pair
    pair.close()


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Pair]:
    yield from pair_of(tmp_path, 64 * MIB)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Pair]:
    yield from pair_of(tmp_path, 20 * MIB)


# Proves G195.
def test_t7_a_file_whose_cores_are_killed_again_and_again_comes_whole_and_little_is_sent_again(large: Pair) -> None:
    large.endure(5)


@pytest.mark.parametrize("record", sample(range(1, 6), 2))
def test_a_receiver_killed_behind_each_record_of_its_journal_goes_on(small: Pair, record: int) -> None:
    """BEGIN, two MARKs, PLACE, END."""
    receiver, sender = small.start_receiver(f"journal {record}"), small.start_sender()
    assert receiver.wait(PATIENCE) == -signal.SIGKILL
    small.finish(small.start_receiver(), sender)


@pytest.mark.parametrize("record", sample(range(1, 4), 2))
def test_a_sender_killed_behind_each_record_of_its_journal_goes_on(small: Pair, record: int) -> None:
    """SOURCE, SENT, and a SENT or DONE: that the last block is durable may be told by the end alone."""
    receiver, sender = small.start_receiver(), small.start_sender(f"journal {record}")
    assert sender.wait(PATIENCE) == -signal.SIGKILL
    small.finish(receiver, small.start_sender())


@pytest.mark.parametrize("call", sample(range(1, 15), 3))
def test_a_receiver_killed_before_a_system_call_goes_on(small: Pair, call: int) -> None:
    receiver, sender = small.start_receiver(f"disk {call}"), small.start_sender()
    assert receiver.wait(PATIENCE) == -signal.SIGKILL
    assert not (small.folder / "b" / "inbox" / "in" / "file").exists() or call > 10
    small.finish(small.start_receiver(), sender)
