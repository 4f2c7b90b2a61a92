"""Letters that the tasks of an event loop consume in one turn: one request settles them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from rtmw.transfer.address import Life
from rtmw.transfer.client.line import Line
from rtmw.transfer.client.pending import Pending, error_in
from rtmw.transfer.messages import Consume, Consumed

__all__ = ["Consuming", "Together"]

SETTLED_MOST: Final = 64
"""Letters of one request."""
Loop = asyncio.AbstractEventLoop


class Together:
    """The letters of one request. Written by the thread of the line, once it was asked."""

    __slots__ = ("_errors", "is_done", "items")

    def __init__(self) -> None:
        self.items: list[int] = []
        self.is_done = False
        self._errors: dict[int, Exception] = {}

    def answered(self, pending: Pending) -> None:
        if pending.error is not None:
            self.fail(pending.error)
        elif isinstance(pending.answer, Consumed):
            self._errors = {index: error_in(failed) for index, failed in pending.answer.failed}
            self.is_done = True

    def fail(self, error: Exception) -> None:
        self._errors = dict.fromkeys(range(len(self.items)), error)
        self.is_done = True

    @property
    def refused(self) -> int:
        """How many of them the core did not accept."""
        return len(self._errors)

    def result(self, index: int) -> None:
        """Raises why a letter of a request that is done was not consumed."""
        error = self._errors.get(index)
        if error is not None:
            raise type(error)(*error.args)  # anew for each who asks: a traceback belongs to one of them


class Consuming:
    """Of one inbox. `settled`: is called when a request was answered, in the thread of the line."""

    def __init__(self, line: Line, life: Life, settled: Callable[[Together], object]) -> None:
        self._line, self._requests, self._life, self._settled = line, line.requests, life, settled
        self._open: dict[Loop, Together] = {}
        """What goes out at the end of the turn, under the lock of the requests."""

    async def reached(self, together: Together, index: int) -> None:
        """Until the letter was consumed. Raises why it was not; CoreNotRunning."""
        await self._line.until(lambda: together.is_done, None)
        together.result(index)

    def add(self, item: int) -> tuple[Together, int]:
        """A letter of this turn of the event loop, and its index."""
        loop = asyncio.get_running_loop()
        with self._requests.lock:
            together = self._open.get(loop)
            if together is None:
                together = self._open[loop] = Together()
                loop.call_soon(self._send, loop)
            together.items.append(item)
            index = len(together.items) - 1
            if index + 1 >= SETTLED_MOST:
                self._send(loop)
        return together, index

    def send(self) -> None:
        """All that was gathered goes out now."""
        with self._requests.lock:
            for loop in list(self._open):
                self._send(loop)

    def _send(self, loop: Loop) -> None:
        with self._requests.lock:
            together = self._open.pop(loop, None)
            if together is not None:
                self._ask(together)

    def _ask(self, together: Together) -> None:
        def answered(pending: Pending) -> None:
            together.answered(pending)
            self._settled(together)

        try:
            self._requests.begin(Pending(self._life, Consume(tuple(together.items)), on_done=answered))
        except Exception as error:  # its tasks raise it
            together.fail(error)
            self._line.changed.notify()
