"""A sender and a receiver in processes of their own, which are killed and started again."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path

MIB = 1 << 20
AGAIN = 16 * MIB
"""At most sent again after a kill."""
PATIENCE = 60.0


class Pair:
    """A sender and a receiver, which are started again after each kill."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.source = folder, folder / "run, 1.mcap"
        write_file(self.source, size)
        self.size = size
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
        assert digest(inbox / "in" / "file") == digest(self.source)
        assert list((inbox / ".rtmw").iterdir()) == []
        assert list((self.folder / "b" / "bodies").iterdir()) == []
        assert rest.count("consumed") <= 1

    def close(self) -> None:
        for child in self.children:
            child.kill()
            child.wait(PATIENCE)
            assert child.stdout is not None
            child.stdout.close()

    def endure(self, kills: int) -> None:
        """Killed so many times, in turn, whenever so much more has come."""
        receiver, sender = self.start_receiver(), self.start_sender()
        for number in range(kills):
            goal = (number + 1) * (self.size // (kills + 1))
            until = time.monotonic() + PATIENCE
            while self.arrived() < goal and sender.poll() is None:
                assert time.monotonic() < until
                time.sleep(0.002)
            if number % 2:
                self.kill(sender)
                self.count_sent()
                sender = self.start_sender()
            else:
                self.kill(receiver)
                receiver = self.start_receiver()
        self.finish(receiver, sender)
        assert self.kills == kills
        assert self.sent <= self.size + kills * AGAIN


def write_file(path: Path, size: int) -> None:
    """Of any bytes, which a size determines."""
    dice = random.Random(size)
    with path.open("wb") as file:
        for at in range(0, size, MIB):
            file.write(dice.randbytes(min(MIB, size - at)))


def digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
