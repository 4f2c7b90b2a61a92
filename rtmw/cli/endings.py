"""A command that is asked to end by a signal ends in order: what `finally` and `with` promise is done."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""Asked to end, or its terminal was closed. Ctrl-C raises KeyboardInterrupt by itself."""


@contextmanager
def ends_in_order() -> Generator[None]:
    """Within the block, these signals raise SystemExit with the status 128 + number; one that is ignored stays so."""
    wanted = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # nohup ignores SIGHUP
    before = {number: signal.signal(number, _exit) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
