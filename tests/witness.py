"""`python -m tests.witness`: what a program can see of how it was started, as JSON; its exit status is 7."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    seen = {
        "command": Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode().split("\0"),
        "words": [sys.argv, sys.orig_argv],
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "path": sys.path,
        "parent": os.getppid(),
        "group": os.getpgid(0),
        "descriptors": [name for name in os.listdir("/proc/self/fd") if Path("/proc/self/fd", name).exists()],
        "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "read": sys.stdin.read(),
    }
    print(json.dumps(seen))
    print("said", file=sys.stderr)
    sys.exit(7)
