"""Waiting for the core: a request that is not answered yet, and one deadline for all waits of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from rtmw.clock import CLOCK
from rtmw.qos import limited
from rtmw.transfer.address import Life
from rtmw.transfer.errors import TransactionAborted, TransferRefused
from rtmw.transfer.messages import Advanced, Failed, Got, Handed, HandedRun, Message, Shown

if TYPE_CHECKING:
    from rtmw.transfer.client.transfer import Transfer
    from rtmw.transfer.header import Level

__all__ = ["NEVER", "Deadline", "Pending", "error_in"]


class Deadline:
    """`timeout`: seconds from now on; None or math.inf: no limit."""

    __slots__ = ("_end", "timeout")

    def __init__(self, timeout: float | None) -> None:
        self.timeout = limited(timeout)
        self._end = None if self.timeout is None else CLOCK.monotonic() + self.timeout

    @property
    def left(self) -> float | None:
        """Seconds, from 0 on; None: no limit."""
        return None if self._end is None else max(0.0, self._end - CLOCK.monotonic())

    @property
    def is_over(self) -> bool:
        return self.left == 0.0

    def ends_before(self, other: Deadline) -> bool:
        return self._end is not None and (other._end is None or self._end < other._end)

    # ---- what a call raises when it is over ----

    def no_room(self) -> TimeoutError:
        return TimeoutError(f"the core has not answered what was sent before within {self.timeout} s; nothing was sent")

    def goes_on(self, transfer: Transfer, level: Level) -> TimeoutError:
        return TimeoutError(f"{transfer!r} has not become {level.name} within {self.timeout} s; it goes on")


NEVER: Final = Deadline(None)


_ERRORS: Final[tuple[type[Exception], ...]] = (TransferRefused, TransactionAborted, ValueError, TransferRefused)
"""The error of each `Failed.how`."""


def error_in(failed: Failed) -> Exception:
    """Return the error that programs get for this answer of the core."""
    return _ERRORS[min(failed.how, len(_ERRORS) - 1)](failed.message)


class Pending:
    """A request that is not answered yet. The line's thread writes it, and wakes the waiting threads afterwards."""

    __slots__ = (
        "advanced", "answer", "error", "first", "got", "is_chain", "is_done", "is_given_up", "life", "message",
        "number", "on_done", "on_handed",
    )  # fmt: skip

    def __init__(
        self,
        life: Life,
        message: Message,
        is_chain: bool = False,
        on_done: Callable[[Pending], None] | None = None,
        on_handed: Callable[[int], None] | None = None,
    ) -> None:
        self.life, self.message, self.number = life, message, 0
        self.is_chain = is_chain
        """The request is a chain, which its sender sends again to another core; else the line does."""
        self.is_done = self.is_given_up = False
        self.answer: Message | None = None
        self.first: list[Handed | Shown] = []
        """Frames that came before the answer itself."""
        self.got = 0
        """Bytes of the body that the core has."""
        self.advanced: tuple[Advanced, ...] = ()
        """How far the transfers are, when the core has taken them."""
        self.error: Exception | None = None
        self.on_done, self.on_handed = on_done, on_handed
        """They are called in the thread of the line, before anybody is woken."""

    def take(self, number: int, message: Message) -> None:
        """Take a frame with the number of the request."""
        if isinstance(message, Got):
            self.got = message.bytes
            return
        if isinstance(message, Advanced):
            self.advanced += (message,)
            return
        if isinstance(message, Handed | HandedRun):
            self._handed((message,) if isinstance(message, Handed) else message)
            return
        if isinstance(message, Shown):
            self.first.append(message)
            if not message.last:
                return
        if isinstance(message, Failed):
            self.error = error_in(message)
        self.answer = message
        self._end()

    def _handed(self, letters: Iterable[Handed]) -> None:
        for letter in letters:
            self.first.append(letter)
            if self.on_handed is not None:
                self.on_handed(letter.item)

    def fail(self, error: Exception) -> None:
        """End the request: no answer comes any more."""
        if not self.is_done:
            self.error = error
            self._end()

    def _end(self) -> None:
        if self.on_done is not None:
            self.on_done(self)
        self.is_done = True

    def result(self) -> Message:
        """Return the answer of a request that is done. Raises what the core has said, or why there is no answer."""
        if self.error is not None:
            raise type(self.error)(*self.error.args)  # anew for each who asks: a traceback belongs to one of them
        assert self.answer is not None, "it is done"
        return self.answer
