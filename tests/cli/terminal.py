"""A terminal for commands of which a test looks at what they show."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios


def on_a_terminal(columns: int, rows: int, *arguments: str, status: int = 0) -> list[str]:
    """What a command shows on a terminal of this size, without colours and movements, and ends with this status."""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said_on_a_terminal(columns, rows, *arguments, status=status))
    return [line.strip() for line in text.splitlines()]


def said_on_a_terminal(columns: int, rows: int, *arguments: str, status: int = 0) -> str:
    """What a command sends to a terminal of this size, and ends with this status."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    seen = {**environment, "TERM": "xterm"}
    child = subprocess.Popen([sys.executable, "-m", "rtmw", *arguments], stdout=theirs, stderr=theirs, env=seen)
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # the end of a terminal is an error
        while chunk := os.read(ours, 4096):
            said += chunk
    os.close(ours)
    assert child.wait(60) == status
    return said.decode()
