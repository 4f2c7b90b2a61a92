"""Keys as they are pressed, without Enter, where a person sits at a terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

NAMES: Final = {"\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left", " ": "space"}
"""What terminals send for keys that have no letter."""

Pressed = Callable[[], list[str]]


def can_press() -> bool:
    """Whether a person sits at a terminal."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())


@contextmanager
def keys() -> Generator[Pressed]:
    """A function that gives the keys pressed since its last call, and never waits; none where nobody can press any."""
    if not can_press():
        yield list
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield lambda: _read(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _read(descriptor: int) -> list[str]:
    text = ""
    while select.select([descriptor], [], [], 0)[0]:
        read = os.read(descriptor, 1024)
        if not read:
            break
        text += read.decode(errors="ignore")
    return split_keys(text)


def split_keys(text: str) -> list[str]:
    """The keys of what a terminal sent: names for those without a letter."""
    found: list[str] = []
    while text:
        code = next((code for code in NAMES if text.startswith(code)), text[0])
        found.append(NAMES.get(code, code))
        text = text[len(code) :]
    return found
