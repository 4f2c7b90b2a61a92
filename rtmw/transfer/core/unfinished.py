"""Work that must be done although no caller waits for it: a full disk puts it off, and it is tried again until done."""

from __future__ import annotations

from collections import deque

from rtmw.errors import LogFull
from rtmw.transfer.core.effects import Do, Steps
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.events import Event

__all__ = ["Unfinished"]


class Unfinished:
    """Steps of the machine with the log, in their order. They have to be such that one that was done in part may be
    done again."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()

    def do(self, event: Event) -> Steps:
        """Now, or when there is room."""
        self._events.append(event)
        yield from self.go_on()

    def go_on(self) -> Steps:
        """Until one has no room again. A transfer that has gone another way meanwhile is left alone."""
        while self._events:
            try:
                yield Do(self._events[0], True)
            except LogFull:
                return
            except TransferRefused:
                pass
            self._events.popleft()
