"""The two machines of a core: one with the log (class LOG, and all that is part of a transaction), and one without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rtmw.transfer.events import Now
from rtmw.transfer.machine import Machine
from rtmw.transfer.messages import Move
from rtmw.transfer.queues import Item
from rtmw.transfer.records import TransferId, TransferState
from rtmw.transfer.volatile import is_volatile

__all__ = ["Machines"]


@dataclass(frozen=True, slots=True)
class Machines:
    """What the steps look at; only their `Do` changes it."""

    logged: Machine
    volatile: Machine
    now: Callable[[], Now]

    def of(self, item: int) -> Machine:
        return self.volatile if is_volatile(item) else self.logged

    def find(self, id: TransferId) -> Item | None:
        """A transfer that has not ended."""
        return self.logged.state.find(id) or self.volatile.state.find(id)

    def move(self, id: TransferId) -> Move:
        """How a transfer is, or how it has ended; UNKNOWN: nobody remembers."""
        item = self.find(id)
        if item is not None:
            return Move(id, item.state, item.cause)
        end = self.logged.state.ends.get(id) or self.volatile.state.ends.get(id)
        return Move(id, TransferState.UNKNOWN, "") if end is None else Move(id, end.state, end.cause)
