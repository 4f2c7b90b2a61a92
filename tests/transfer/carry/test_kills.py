"""FILE between two processes that are killed: at any time, behind each record of a journal, before each system call."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

MIB = 1 << 20
AGAIN = 16 * MIB
"""At most sent again after a kill."""
PATIENCE = 60.0


class Pair:
    """A sender and a receiver, which are started again after each kill."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.source = folder, folder / "run, 1.mcap"
        self.source.write_bytes(random.Random(size).randbytes(size))
        self.port = "0"
        self.children: list[subprocess.Popen[str]] = []
        self.sent = self.kills = 0

    def start_receiver(self, kill: str = "") -> subprocess.Popen[str]:
        child = self._start(["receive", str(self.folder / "b"), self.port], kill)
        assert child.stdout is not None
        line = child.stdout.readline()
        if line:
            self.port = line.strip()
        return child

    def start_sender(self, kill: str = "") -> subprocess.Popen[str]:
        return self._start(["send", str(self.folder / "a"), self.port, str(self.source)], kill)

    def _start(self, arguments: list[str], kill: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.transfer.carry.core", *arguments]
        environment = os.environ | {"RTMW_TEST_KILL": kill}
        self.children.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
        return self.children[-1]

    def kill(self, child: subprocess.Popen[str]) -> None:
        child.kill()
        child.wait(PATIENCE)
        self.kills += 1

    def count_sent(self) -> None:
        """Of the sender's life that has just ended."""
        path = self.folder / "a" / "sent"
        if path.exists():
            self.sent += int.from_bytes(path.read_bytes(), "little")
            path.unlink()

    def arrived(self) -> int:
        """Bytes that the receiver has of the file."""
        parts = list((self.folder / "b" / "inbox" / ".rtmw").glob("*.part"))
        try:
            return parts[0].stat().st_size if parts else 0
        except FileNotFoundError:
            return 0

    def finish(self, receiver: subprocess.Popen[str], sender: subprocess.Popen[str]) -> None:
        """It comes whole, once, and nothing is left of it."""
        told, _ = sender.communicate(timeout=PATIENCE)
        assert told == "ended {'CONSUMED': 1}\n"
        self.count_sent()
        receiver.kill()
        rest, _ = receiver.communicate(timeout=PATIENCE)
        inbox = self.folder / "b" / "inbox"
        assert hashlib.sha256((inbox / "in" / "file").read_bytes()).digest() == self._hash()
        assert list((inbox / ".rtmw").iterdir()) == []
        assert list((self.folder / "b" / "bodies").iterdir()) == []
        assert rest.count("consumed") <= 1

    def _hash(self) -> bytes:
        return hashlib.sha256(self.source.read_bytes()).digest()

    def close(self) -> None:
        for child in self.children:
            child.kill()
            child.wait(PATIENCE)
            assert child.stdout is not None
            child.stdout.close()


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


def test_t7_a_file_whose_cores_are_killed_again_and_again_comes_whole_and_little_is_sent_again(large: Pair) -> None:
    receiver, sender = large.start_receiver(), large.start_sender()
    for number in range(5):
        goal = (number + 1) * 10 * MIB
        until = time.monotonic() + PATIENCE
        while large.arrived() < goal and sender.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.002)
        if number % 2:
            large.kill(sender)
            large.count_sent()
            sender = large.start_sender()
        else:
            large.kill(receiver)
            receiver = large.start_receiver()
    large.finish(receiver, sender)
    assert large.kills == 5
    assert large.sent <= 64 * MIB + large.kills * AGAIN


@pytest.mark.parametrize("record", range(1, 6))
def test_a_receiver_killed_behind_each_record_of_its_journal_goes_on(small: Pair, record: int) -> None:
    """BEGIN, two MARKs, PLACE, END."""
    receiver, sender = small.start_receiver(f"journal {record}"), small.start_sender()
    assert receiver.wait(PATIENCE) == -signal.SIGKILL
    small.finish(small.start_receiver(), sender)


@pytest.mark.parametrize("record", range(1, 4))
def test_a_sender_killed_behind_each_record_of_its_journal_goes_on(small: Pair, record: int) -> None:
    """SOURCE, SENT, and a SENT or DONE: that the last block is durable may be told by the end alone."""
    receiver, sender = small.start_receiver(), small.start_sender(f"journal {record}")
    assert sender.wait(PATIENCE) == -signal.SIGKILL
    small.finish(receiver, small.start_sender())


@pytest.mark.parametrize("call", range(1, 15, 2))
def test_a_receiver_killed_before_a_system_call_goes_on(small: Pair, call: int) -> None:
    receiver, sender = small.start_receiver(f"disk {call}"), small.start_sender()
    assert receiver.wait(PATIENCE) == -signal.SIGKILL
    assert not (small.folder / "b" / "inbox" / "in" / "file").exists() or call > 10
    small.finish(small.start_receiver(), sender)
