"""One line on the terminal that says how far something is; nothing where nobody looks."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, Protocol

from rtmw.visible import visible

_CLEAR: Final = "\r\x1b[K"


class Line(Protocol):
    """Shows a text in place of the one before."""

    def __call__(self, text: str) -> None: ...


def is_seen() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()


def in_percent(shown: Line, what: str) -> Callable[[int, int], None]:
    """Shows how much is done, of so much: "checked 43 %"."""
    return lambda done, all: shown(f"{what} {100 * done // max(all, 1)} %")


@contextmanager
def line() -> Generator[Line]:
    """Shows a line on standard error, so that what a command prints stays clean. It is gone when the work is over."""
    if not is_seen():
        yield lambda text: None
        return
    try:
        yield show_over
    finally:
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()


def show_over(text: str) -> None:
    """Shows the text, as much of it as the terminal is wide, in place of the line on which the cursor stands."""
    width = shutil.get_terminal_size().columns - 1
    sys.stderr.write(_CLEAR + visible(text)[:width])
    sys.stderr.flush()
