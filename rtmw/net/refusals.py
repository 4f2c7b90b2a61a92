"""Data of strangers that cannot be used, and failures of one topic or one step: counted by cause, and said once.

Anybody who reaches the ports of a node may send it anything. So each sample is read by itself, by one reader that
raises Refused, inside a `barrier`: an error in it costs nobody but its sender.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from rtmw.clock import CLOCK
from rtmw.errors import RtmwError

log = logging.getLogger("rtmw.node")


LINES_MOST = 60
"""Of a kind, a minute."""
_WINDOW_S = 60.0


class Refused(RtmwError):
    """Data that somebody sent are not what they should be; the message says why."""


class Refusals:
    """Not for several threads."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lines: Counter[str] = Counter()
        self._since = CLOCK.monotonic()

    def say(self, level: int, of: str, message: str, *values: object) -> None:
        """In the log; of what others can bring about as often as they like, no more than LINES_MOST lines a minute of
        each kind. `level`: of logging; `of`: what they are about, for the last line of those."""
        now = CLOCK.monotonic()
        if now - self._since >= _WINDOW_S:
            self._lines.clear()
            self._since = now
        self._lines[of] += 1
        if self._lines[of] <= LINES_MOST:
            log.log(level, message, *values)
        if self._lines[of] == LINES_MOST:
            log.warning(
                "that were %d lines of %s; for a minute no more are written: see rtmw node info", LINES_MOST, of
            )

    @contextmanager
    def barrier(self, cause: str) -> Generator[None]:
        """Nothing that goes wrong within leaves it. `cause`: what it is counted and shown as."""
        try:
            yield
        except Exception as error:  # it may be of any library that reads what came
            self.refuse(cause, error)

    def refuse(self, cause: str, error: Exception) -> None:
        self.counts[cause] += 1
        if self.counts[cause] > 1:
            return
        why = str(error) if isinstance(error, RtmwError) else f"{type(error).__name__}: {error}"
        unexpected = None if isinstance(error, RtmwError) else error
        log.warning("%s refused: %s; more of it is counted only", cause, why, exc_info=unexpected)
