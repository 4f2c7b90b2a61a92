"""Signals that a node hears: in its main thread alone, and none is lost when the process begins anew by exec.

A signal waits while every thread of the process blocks it, also through exec. One thread that does not block it is
enough to take it, and whoever listened before has no loop any more. So the process blocks these signals before it has
another thread (numpy starts some when it is imported), the main thread lets them in while its loop listens, and threads
that may outlive the loop block them themselves.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM})
HEARD: Final = ENDING | {signal.SIGHUP}


def hold_signals() -> None:
    """The calling thread, and those that it starts from now on, leave these signals to others."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)


@contextmanager
def signals_held() -> Generator[None]:
    """Calls `hold_signals` for the length of a block. Behind the block the thread hears these signals as before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_signals_in() -> None:
    """The calling thread takes them, and first those that wait."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
