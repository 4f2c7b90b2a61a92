"""The Takes of an inbox: what its threads and tasks ask the core for, and the letters that are here ahead of them.

Callers that wait share one Take, which waits at the core. Each answer puts its letters where every caller finds them,
and the first caller to come has the first letter. A Take for which nobody waits any more is given up, so the core hands
over nothing to nobody; letters that were on their way by then are ahead of the next call.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from rtmw.transfer.address import Life
from rtmw.transfer.client.line import Line
from rtmw.transfer.client.pending import Pending
from rtmw.transfer.messages import Handed, Take

__all__ = ["Taking"]

TAKEN_MOST: Final = 64
"""Letters that are asked for at a time, when many come."""


class Taking:
    """Of one inbox; any thread. `came`: is called with the number of each letter, in the thread of the line."""

    def __init__(self, line: Line, life: Life, came: Callable[[int], None]) -> None:
        self._line, self._life, self._came = line, life, came
        self._lock = threading.Lock()
        """Of what is below; nobody waits under it."""
        self._callers: dict[Pending, int] = {}
        """Takes without an answer, and how many callers wait for each."""
        self._most = 1
        self.ahead: deque[Handed] = deque()
        """Letters that were handed over, and that no call has got."""

    @contextmanager
    def asked(self, *, waits: bool) -> Generator[Pending]:
        """For one caller, which waits for the answer. `waits`: the core answers when there is a letter; else at
        once."""
        pending = self._begin(waits)
        try:
            yield pending
        finally:
            self._leave(pending)

    def is_over(self, pending: Pending) -> bool:
        """There is nothing to wait for: an answer has come, or a letter of another one."""
        return pending.is_done or bool(self.ahead)

    @property
    def left(self) -> list[Pending]:
        """Takes without an answer for which nobody waits."""
        with self._lock:
            return [pending for pending, callers in self._callers.items() if not callers]

    def _begin(self, waits: bool) -> Pending:
        with self._lock:
            pending = next(filter(_is_open, self._callers), None) if waits else None
            is_new = pending is None
            if pending is None:
                take = Take(0, self._most, int(waits))
                pending = Pending(self._life, take, on_done=self._answered, on_handed=self._came)
            self._callers[pending] = self._callers.get(pending, 0) + 1
        if is_new:
            self._ask(pending)
        return pending

    def _ask(self, pending: Pending) -> None:
        try:
            self._line.requests.begin(pending)
        except Exception as error:
            pending.fail(error)  # others may wait for it by now
            self._line.changed.notify()
            raise

    def _leave(self, pending: Pending) -> None:
        with self._lock:
            if pending not in self._callers:
                return  # it was answered
            self._callers[pending] -= 1
            gives_up = not self._callers[pending] and _is_open(pending)
        if gives_up:
            self._line.requests.give_up(pending)

    def _answered(self, pending: Pending) -> None:
        """In the thread of the line. More letters are asked for while as many come, and one by one when they are few:
        what one inbox holds, the others do not have."""
        letters = [handed for handed in pending.first if isinstance(handed, Handed)]
        assert isinstance(pending.message, Take), "only those are asked here"
        with self._lock:
            self._callers.pop(pending, None)
            self._most = min(TAKEN_MOST, 2 * self._most) if len(letters) == pending.message.most else 1
        self.ahead.extend(letters)


def _is_open(pending: Pending) -> bool:
    """Does it wait at the core, for whoever comes?"""
    return isinstance(pending.message, Take) and bool(pending.message.waits) and not pending.is_given_up
