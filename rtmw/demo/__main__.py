"""One process of the demonstration: `python -m rtmw.demo ROLE DOMAIN`. It runs until its standard input ends."""

from __future__ import annotations

import signal
import sys

from rtmw.demo.roles import ROLES

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends it in order
    ROLES[sys.argv[1]](int(sys.argv[2]))
