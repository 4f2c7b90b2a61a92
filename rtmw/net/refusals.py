"""Data of strangers that cannot be used, and failures of one topic or one step: counted by cause, and said once.

Anybody who reaches the ports of a node may send it anything. So each sample is read by itself, by one reader that
raises Refused, inside a `barrier`: an error in it costs nobody but its sender.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from rtmw.errors import RtmwError

log = logging.getLogger("rtmw.node")


class Refused(RtmwError):
    """Data that somebody sent are not what they should be; the message says why."""


class Refusals:
    """Counts what was refused, by cause. Not for several threads."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    @contextmanager
    def barrier(self, cause: str) -> Generator[None]:
        """Nothing that goes wrong within leaves it. `cause`: what it is counted and shown as."""
        try:
            yield
        except Exception as error:  # it may be of any library that reads what came
            self.refuse(cause, error)

    def refuse(self, cause: str, error: Exception) -> None:
        self.counts[cause] += 1
        if self.counts[cause] > 1:
            return
        why = str(error) if isinstance(error, RtmwError) else f"{type(error).__name__}: {error}"
        unexpected = None if isinstance(error, RtmwError) else error
        log.warning("%s refused: %s; more of it is counted only", cause, why, exc_info=unexpected)
