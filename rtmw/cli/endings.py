"""A command that is asked to end by a signal ends in order: what `finally` and `with` promise is done."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""Asked to end, or its terminal was closed."""


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
def until_asked() -> Generator[threading.Event]:
    """Within the block, SIGINT, SIGTERM and SIGHUP set the event: the command comes to its end by itself."""
    end = threading.Event()
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
