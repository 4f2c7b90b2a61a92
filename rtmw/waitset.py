"""Wait for any of several subscribers at once."""

from __future__ import annotations

from typing import Any

from rtmw import shm
from rtmw.errors import ClosedError
from rtmw.matching import LongWait
from rtmw.qos import limited
from rtmw.subscriber import Subscriber


class WaitSet:
    """A fixed set of subscribers, of any topics, types and domains.

    Sleeps on all of them with one system call (Linux 5.16, up to 128); beyond that it looks twice a millisecond.
    """

    def __init__(self, *subscribers: Subscriber[Any]) -> None:
        for subscriber in subscribers:
            if not isinstance(subscriber, Subscriber):
                raise TypeError(f"a WaitSet is made of subscribers, and was given {subscriber!r}")
        self._subscribers = subscribers

    def wait(self, timeout: float | None = None) -> list[Subscriber[Any]]:
        """Returns the subscribers with something to take, or whose deadline passed (then `receive(0)` says so); []
        after `timeout`.

        Raises ClosedError when one of them is closed. Without a limit it logs why nothing comes, as `receive` does.
        """
        waiting = LongWait(self._log_silence) if limited(timeout) is None else None
        while not (ready := shm.wait_any(self._subscribers, timeout if waiting is None else waiting.left)) and waiting:
            waiting.look()
        for subscriber in ready:
            if subscriber.closed:
                raise ClosedError(f"topic {subscriber.topic!r}: closed while a WaitSet waited for it")
        return ready

    def _log_silence(self) -> None:
        for subscriber in self._subscribers:
            subscriber._log_silence()
