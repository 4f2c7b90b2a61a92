"""The log of a daemon on standard error: nothing in a line steers a terminal or ends the line, and no kind of line
fills the log.

Peers and programs can bring about many of the lines that a daemon logs, as often as they like. So a place in the source
that logs may write LINES_MOST lines within a minute. What comes beyond is counted, and the last of these lines says how
many there were. A line that a user of this host brings about is counted for that user, so none hides those of others.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, TypeAlias

from rtmw.clock import CLOCK, Clock
from rtmw.text.visible import visible

LINES_MOST: Final = 60
"""Lines of a kind, which is a place in the source, within a minute."""
WINDOW_S: Final = 60.0
BOUNDED_BEFORE: Final = {"is_bounded": True}
"""`extra` of a line that another DaemonLog has written before: that one has bounded its kind."""


_Kind: TypeAlias = tuple[str, int, str]
_ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def many(lines: int) -> dict[str, int]:
    """`extra` of a line that stands for so many of its kind."""
    return {"stands_for": lines}


def of_user(user: str) -> dict[str, str]:
    """`extra` of a line that a local user brings about: `uid:1000`. Hosts are too many to have a count each."""
    return {"user": user}


class VisibleLines(logging.Formatter):
    """A message is one line. The lines of a traceback are indented, so that none of them is taken for a message."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = visible(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: _ExcInfo) -> str:
        return "\n".join(f"  {visible(line)}" for line in super().formatException(ei).split("\n"))


@dataclass
class _Window:
    """A minute of a kind, from its first line on."""

    begun: float
    written: int = 0
    more: int = 0
    """Lines that were counted only."""
    last: logging.LogRecord | None = None
    """The last of these."""


class DaemonLog(logging.StreamHandler[Any]):
    """A handler that writes to standard error, a few lines of each kind a minute. Any thread may use it. Its owner
    calls `say_more` about once a second, for kinds of which no further line comes."""

    def __init__(self, form: logging.Formatter, clock: Clock = CLOCK) -> None:
        super().__init__(sys.stderr)
        self._clock = clock
        self.setFormatter(form)
        self._windows: dict[_Kind, _Window] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Called with the lock of the handler."""
        if getattr(record, "is_bounded", False):
            super().emit(record)
            return
        self._end_windows(self._clock.monotonic() - WINDOW_S)
        kind = record.pathname, record.lineno, getattr(record, "user", "")
        window = self._windows.setdefault(kind, _Window(self._clock.monotonic()))
        lines = getattr(record, "stands_for", 1)
        if window.written < LINES_MOST - 1:  # and one that says how many more there were
            super().emit(record)
            window.written += 1
            lines -= 1
        if lines:
            window.more += lines
            window.last = record

    def say_more(self) -> None:
        """Writes how many lines were not written, for each kind whose minute is over."""
        with self._locked():
            self._end_windows(self._clock.monotonic() - WINDOW_S)

    def close(self) -> None:
        with self._locked():
            self._end_windows(self._clock.monotonic())
        super().close()

    def _end_windows(self, begun: float) -> None:
        """Ends the windows that began at `begun` or before, and writes for each how many of its lines were not
        written."""
        for kind in [kind for kind, window in self._windows.items() if window.begun <= begun]:
            window = self._windows.pop(kind)
            if window.last is not None:
                super().emit(_of_more(window.last, window.more))

    @contextmanager
    def _locked(self) -> Generator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()


def _of_more(last: logging.LogRecord, more: int) -> logging.LogRecord:
    text = f"{more} more lines of this kind within a minute, the last of them: {last.getMessage()}"
    return logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, text, None, None)


def say_more(log: logging.Logger) -> None:
    """DaemonLog.say_more of the log, if it has one."""
    for handler in log.handlers:
        if isinstance(handler, DaemonLog):
            handler.say_more()


@contextmanager
def written(log: logging.Logger, form: logging.Formatter) -> Generator[None]:
    """The log is written to standard error meanwhile, from INFO on."""
    handler = DaemonLog(form)
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()
