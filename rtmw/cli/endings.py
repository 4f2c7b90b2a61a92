"""A command that is asked to end by a signal ends in order: what `finally` and `with` promise is done."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""Asked to end, or its terminal was closed."""


class Demand:
    """A `threading.Event` that handlers of signals may set. That one takes a lock, which the thread may hold that the
    handler interrupts: then it would wait for itself."""

    def __init__(self) -> None:
        self._is_set, self._told = False, SimpleQueue[None]()

    def set(self) -> None:
        self._is_set = True
        self._told.put(None)

    def clear(self) -> None:
        self._is_set = False
        with suppress(Empty):
            while True:
                self._told.get_nowait()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it is set, at the latest after so many seconds."""
        if not self._is_set:
            with suppress(Empty):
                self._told.get(timeout=timeout)
        return self._is_set


@contextmanager
def ends_in_order() -> Generator[None]:
    """Within the block, these signals raise SystemExit with the status 128 + number, and SIGINT KeyboardInterrupt.

    SIGHUP stays ignored where it was (nohup). SIGINT does not: a shell without job control begins each command with `&`
    so, and `kill -INT` is how a script ends it.
    """
    before = {number: signal.signal(number, _exit) for number in heeded(SIGNALS)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def until_asked() -> Generator[Demand]:
    """Within the block, SIGINT, SIGTERM and SIGHUP set the demand: the command comes to its end by itself."""
    end = Demand()
    numbers = [signal.SIGINT, *heeded(SIGNALS)]
    before = {number: signal.signal(number, lambda _number, _frame: end.set()) for number in numbers}
    try:
        yield end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def heeded(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Without SIGHUP where that is ignored, as nohup has it: the command is to outlive its terminal."""
    is_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [number for number in numbers if number != signal.SIGHUP or not is_nohup]


def _exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
