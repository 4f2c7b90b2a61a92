"""The rows of a task that have been published: a second attempt on this host goes on behind them.

Spark runs a task again when it fails, and a batch of a stream when the driver was killed. A message cannot be taken
back, so each task counts in a file which rows are on the bus; the file is mapped, so that SIGKILL takes nothing away.
Between a message and its count lies one instruction: one message of a task may come twice, and none is lost, provided
that Spark computes the same rows in the same order again, as it does from recordings.

Attempts at the same rows that run on one host at the same time take turns: the later one waits until the first one has
ended, which Spark may have given up already, and goes on behind it.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from rtmw.closing import Closing
from rtmw.errors import RtmwError
from rtmw.locks import FileLock

WORD = 8
LOOK_S = 0.05
"""Seconds between looks whether another attempt has ended."""


def ledgers() -> Path:
    """The folder of this user's ledgers on this host."""
    folder = Path(tempfile.gettempdir(), f"rtmw-spark-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise RtmwError(f"{folder} belongs to somebody else; remove it, or set TMPDIR to a folder of your own")
    return folder


def forget_job(job: str) -> None:
    """Removes the ledgers of a job, none of whose tasks will run again."""
    shutil.rmtree(ledgers() / job, ignore_errors=True)


class Ledger(Closing):
    """The count of one task's rows that are on the bus.

    `job` names what Spark may run again as a whole, `batch` one run of a stream, `part` the task in it. Waits while
    another attempt at the same rows runs.
    """

    def __init__(self, job: str, batch: int, part: int) -> None:
        self._job = ledgers() / job
        folder = self._job / str(batch)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / str(part)
        self._lock = FileLock(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        while not self._lock.take():
            time.sleep(LOOK_S)
        with self._path.open("a+b") as file:
            file.truncate(WORD)
            self._map = mmap.mmap(file.fileno(), WORD)
        self.count = memoryview(self._map).cast("q")
        """Memory of one number: how many rows are on the bus. Whoever publishes them writes it."""

    def forget(self) -> None:
        """The task is done for good: nobody will ask again."""
        self._path.unlink(missing_ok=True)
        for folder in (self._path.parent, self._job):
            with suppress(OSError):  # others are still at it
                folder.rmdir()

    def forget_before(self, batch: int) -> None:
        """Batches before this one are committed, and never run again."""
        for folder in self._job.iterdir():
            if int(folder.name) < batch:
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        self.count.release()
        self._map.close()
        self._lock.close()
