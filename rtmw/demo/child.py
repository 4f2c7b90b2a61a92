"""The duties of every child process: it runs until its standard input ends, and reports in lines of JSON.

The parent closes the standard input of a child to end it. If the parent dies, the kernel does.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from rtmw.clock import CLOCK

RATE_HZ = 100.0


def report(kind: str, **data: Any) -> None:
    """Tell the parent: a `kind` of line, and what belongs to it."""
    print(json.dumps({"kind": kind, **data}), flush=True)


def ended(then: Callable[[], object] | None = None) -> threading.Event:
    """An event that is set (and `then` called, in another thread) when standard input ends."""
    event = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        event.set()
        if then is not None:
            then()

    threading.Thread(target=wait, daemon=True).start()
    return event


def ticks(end: threading.Event, rate_hz: float = RATE_HZ) -> Iterator[None]:
    """Go on at this rate until the end; a turn that comes late does not move those after it."""
    next_s = CLOCK.monotonic()
    while not end.is_set():
        yield
        next_s += 1 / rate_hz
        end.wait(max(0.0, next_s - CLOCK.monotonic()))
