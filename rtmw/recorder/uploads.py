"""Finished files of a recording, sent to a remote place, in the order in which they were finished.

A thread sends; the recorder never waits for it until it is closed. A file that could not be sent is tried again after a
pause, which doubles up to a minute. It stays on this host until it is there as a whole. Where the place has not failed,
but something is wrong with this file, those behind it go first.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rtmw.clock import CLOCK
from rtmw.errors import RemoteFailed
from rtmw.notebook import ShownByFields
from rtmw.recording.places import RemotePath, send

__all__ = ["UploadStats", "Uploads"]

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


@dataclass(frozen=True)
class UploadStats(ShownByFields):
    """Since the recorder began."""

    sent: int = 0
    """Files that are there."""
    waiting: int = 0
    """Finished files that are not there yet; of a recorder that is closed, those that stayed here."""
    lost: int = 0
    """Finished files that somebody else removed here before they were sent."""
    failures: int = 0
    """Attempts that failed."""
    problem: str = ""
    """Why the last attempt failed; "": it did not."""


class Uploads:
    """Sends files that are complete to a place. `put` is for one thread. `sent` is told each file when it is there,
    in the thread that sends."""

    def __init__(self, target: RemotePath, sent: Callable[[Path], None], first_pause: float = FIRST_PAUSE_S) -> None:
        self.target = target
        self._told, self._first_pause = sent, first_pause
        self._files: deque[Path] = deque()
        self._tried = set[Path]()
        """Files of `_files` that this thread has tried to send: what is there under their names may come from that
        attempt."""
        self._sent = self._lost = self._failures = 0
        self._problem = ""
        self._until: float | None = None
        """When to give up, on the monotonic clock; None: not before the recorder is closed."""
        self._changed = threading.Condition()
        """Protects all of this."""
        self._thread: threading.Thread | None = None
        """Begins with the first file, or earlier."""

    def begin(self) -> None:
        """Have the thread: no thread can begin when the program is about to end, and the last file is put then."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rtmw-recorder-uploads", daemon=True)
            self._thread.start()

    def put(self, path: Path) -> None:
        """Has a file sent that is complete. It does not wait."""
        with self._changed:
            self._files.append(path)
            self._changed.notify_all()
        self.begin()

    def waits(self, path: Path) -> bool:
        """Is the file not there yet?"""
        with self._changed:
            return path in self._files

    def stats(self) -> UploadStats:
        with self._changed:
            return UploadStats(self._sent, len(self._files), self._lost, self._failures, self._problem)

    def close(self, patience: float) -> tuple[Path, ...]:
        """Wait until all are there, for so many seconds and the attempt that is made then; those that are not there."""
        with self._changed:
            self._until = CLOCK.monotonic() + patience
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        return tuple(self._files)

    def _run(self) -> None:
        pause = self._first_pause
        while (path := self._next()) is not None:
            try:
                self._send(path)
            except Exception as error:  # whatever it is, the files behind this one are to be sent
                if not self._failed(path, error, pause):
                    return
                pause = min(2 * pause, LONGEST_PAUSE_S)
                continue
            pause = self._first_pause
            self._told(path)
            with self._changed:
                self._files.popleft()
                self._tried.discard(path)
                self._sent, self._problem = self._sent + 1, ""

    def _next(self) -> Path | None:
        """The next file, when there is one; None: no more will come."""
        with self._changed:
            while not self._files and self._until is None:
                self._changed.wait()
            return self._files[0] if self._files else None

    def _send(self, path: Path) -> None:
        """Raises OSError, RtmwError."""
        target = self.target / path.name
        assert isinstance(target, RemotePath)
        if target.exists():
            if path not in self._tried:
                raise FileExistsError(f"{target} exists, of another recording: name another place, or remove it")
            if target.info().size == path.stat().st_size:
                return  # the answer to the last attempt was lost
        self._tried.add(path)
        send(path, target)

    def _failed(self, path: Path, error: Exception, pause: float) -> bool:
        """Counts it and waits; False: the time is up."""
        with self._changed:
            self._failures, self._problem = self._failures + 1, str(error) or repr(error)
            if not path.exists():
                self._files.popleft()
                self._tried.discard(path)
                self._lost += 1
                return True
            if not isinstance(error, RemoteFailed):
                self._files.rotate(-1)
            end = CLOCK.monotonic() + pause
            while CLOCK.monotonic() < min(end, self._until or end):
                self._changed.wait(min(end, self._until or end) - CLOCK.monotonic())
            return self._until is None or CLOCK.monotonic() < self._until
