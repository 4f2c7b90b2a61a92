"""The windows that a command measures over, one after the other, until the last one, `q` or Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Final

from rtmw.cli.keys import Pressed, keys
from rtmw.clock import CLOCK

LOOK_S: Final = 0.1
"""How often the keyboard is looked at."""


def windows(seconds: float, most: int | None) -> Generator[None]:
    """Yields at the end of each window of so many seconds, at most so many times; ends when somebody presses `q`.

    A window that ends late because the caller took long does not make the next one shorter than nothing.
    """
    ends_s, left = CLOCK.monotonic(), most
    with keys() as pressed:
        while left is None or left > 0:
            ends_s = max(ends_s + seconds, CLOCK.monotonic())
            if not _pause(ends_s, pressed):
                return
            yield
            left = None if left is None else left - 1


def _pause(until_s: float, pressed: Pressed) -> bool:
    """Whether the time has come; False: `q` was pressed before."""
    while (left := until_s - CLOCK.monotonic()) > 0:
        if "q" in pressed():
            return False
        time.sleep(min(left, LOOK_S))
    return "q" not in pressed()
