"""The two machines of a core: one with the log (class LOG, and all that is part of a transaction), and one without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rtmw.transfer.events import Now
from rtmw.transfer.machine import Machine
from rtmw.transfer.messages import Move
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Request, TransferId, TransferState
from rtmw.transfer.store import is_volatile

__all__ = ["Machines"]


@dataclass(frozen=True, slots=True)
class Machines:
    """The state that steps read; only their `Do` changes it."""

    logged: Machine
    volatile: Machine
    now: Callable[[], Now]

    def of(self, item: int) -> Machine:
        return self.volatile if is_volatile(item) else self.logged

    def find(self, id: TransferId) -> Item | None:
        """Return a transfer that has not ended; None: there is none."""
        return self.logged.state.find(id) or self.volatile.state.find(id)

    def was_sent(self, logged: bool, sender: str, request: Request, once: bytes) -> bool:
        """Was this send accepted before? Then do not check its files again: they may have changed, or be gone.
        TransferRefused: `once` belongs to something else."""
        state = (self.logged if logged else self.volatile).state
        is_asked_again = request.number != 0 and request in state.requests
        return is_asked_again or (bool(once) and state.once.find(sender, once) is not None)

    def move(self, id: TransferId) -> Move:
        """Return how a transfer is, or how it has ended; UNKNOWN: nobody remembers."""
        item = self.find(id)
        if item is not None:
            return Move(id, item.state, item.cause)
        return self.end_of(id)

    def end_of(self, id: TransferId, sender: str = "", once: bytes = b"") -> Move:
        """Return how a transfer has ended. `once`: the sender's own id, under which ends are kept longer."""
        for machine in (self.logged, self.volatile):
            known = machine.state.once.find(sender, once) if once else None
            end = machine.state.ends.get(id) or (known.ids.get(id) if known is not None else None)
            if end is not None:
                return Move(id, end.state, end.cause)
        return Move(id, TransferState.UNKNOWN, "")
