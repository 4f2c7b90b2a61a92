"""Keys as they are pressed, without Enter, where a person sits at a terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

NAMES: Final = {"\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left", " ": "space"}
"""The sequences that terminals send for keys that have no letter."""

Pressed = Callable[[], list[str]]


def can_press() -> bool:
    """Whether a person sits at a terminal, and what is typed there is meant for us."""
    return has_terminal() and _is_in_front(sys.stdin.fileno())


@contextmanager
def keys() -> Generator[Pressed]:
    """A function that gives the keys pressed since its last call, and never waits; none where nobody can press any.

    In the background of a shell (`&`, or Ctrl-Z and `bg`) the terminal is left alone: to touch it would stop us.
    """
    if not has_terminal():
        yield list
        return
    terminal = _Terminal(sys.stdin.fileno())
    try:
        yield terminal.pressed
    finally:
        terminal.restore()


class _Terminal:
    """Gives keys while we are in front; each time asked anew, since a shell moves us there and back."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._before: list[Any] | None = None
        """How the shell had set it up."""
        self._is_ours()

    def pressed(self) -> list[str]:
        return _read(self._descriptor) if self._is_ours() else []

    def _is_ours(self) -> bool:
        """Whether we may touch it; then it gives keys without Enter."""
        if not _is_in_front(self._descriptor):
            return False
        found = termios.tcgetattr(self._descriptor)
        if found[tty.LFLAG] & termios.ICANON:  # also when a shell has set it back
            self._before = found
            tty.setcbreak(self._descriptor, termios.TCSANOW)
        return True

    def restore(self) -> None:
        if self._before is not None and _is_in_front(self._descriptor):
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)


def has_terminal() -> bool:
    """Whether there are keys at all; `can_press` says whether they are ours just now."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())


def _is_in_front(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # a terminal that does not control us stops nobody
        return True


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
