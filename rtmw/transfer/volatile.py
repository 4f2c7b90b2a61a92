"""Transfers that no log keeps (SMALL_RAW, NORMAL): the same machine, whose records go nowhere.

Its LSNs are numbers that no log reaches, so that a transfer's number says which of the two has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rtmw.errors import LogFull
from rtmw.transfer.ages import Ages
from rtmw.transfer.effects import Append, Note, drive
from rtmw.transfer.errors import TransactionAborted
from rtmw.transfer.events import Event, Now
from rtmw.transfer.limits import Limits
from rtmw.transfer.machine import Machine
from rtmw.transfer.records import NEVER_LOGGED, Start
from rtmw.transfer.state import State
from rtmw.transfer.store import Submitted

__all__ = ["Volatile", "is_volatile"]

_FIRST: Final = NEVER_LOGGED


def is_volatile(item: int) -> bool:
    """Is this the number of a transfer that no log keeps?"""
    return item >= _FIRST


class Volatile:
    """One thread. `incarnation`: of its ids; another one for each start of the core, for they count from 1."""

    def __init__(self, node: str, incarnation: int, limits: Limits, now: Callable[[], Now]) -> None:
        state = State()
        state.apply(_FIRST, Start(1, node, incarnation))
        self.machine, self._now, self._next = Machine(state, limits), now, _FIRST + 1
        self.ages = Ages()

    def submit(self, event: Event) -> Submitted:
        """As `Store.submit`; nothing waits for a disk."""
        notes: list[Note] = []
        try:
            answer = drive(self.machine.step(event, self._now()), self._number, notes)
        except (TransactionAborted, LogFull) as error:
            return Submitted(None, error, notes, None, False)
        return Submitted(answer, None, notes, None, False)

    def note_time(self) -> None:
        """Call it about once a second."""
        self.ages.note(self._next - 1, self._now().wall_ns)

    def _number(self, effect: Append) -> range:
        begin = self._next
        self._next += len(effect.records)
        return range(begin, self._next)
