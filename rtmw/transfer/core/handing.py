"""The letter that a receiver is handed next, of both machines, and its form as it is handed over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rtmw.transfer.address import Life
from rtmw.transfer.core.machines import Machines
from rtmw.transfer.frames import LARGEST_BYTES
from rtmw.transfer.messages import Handed
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Spooled, own_id

__all__ = ["Handing"]


class Handing:
    """Of one core. `path`: of a body in the spool, as programs find it."""

    def __init__(self, machines: Machines, path: Callable[[Spooled], Path]) -> None:
        self._machines, self._path = machines, path
        self._turn = False

    def head(self, service: str, life: Life, txn: int) -> Item | None:
        """The first transfer of both machines: priority decides, then they take turns. A transaction takes what is
        logged, since only that can be undone."""
        machines = (self._machines.logged,) if txn else (self._machines.logged, self._machines.volatile)
        found: list[Item] = []
        for machine in machines:
            queue = machine.state.queues.get(service)
            head = queue.first(life, machine.state.items) if queue is not None else None
            if head is not None:
                found.append(head)
        if len(found) == 2 and found[0].place[0] == found[1].place[0]:
            self._turn = not self._turn
            return found[self._turn]
        return min(found, key=lambda item: item.place[0]) if found else None

    def handed(self, item: Item) -> Handed:
        """A small body in memory, a large one as a file."""
        record, body = item.record, item.record.body
        if isinstance(body, Spooled):
            path = self._path(body)
            body = path.read_bytes() if body.size <= LARGEST_BYTES else Spooled(str(path), body.size)
        id = own_id(record.id) if record.id.node == self._machines.logged.state.node else record.id
        return Handed(item.lsn, item.deliveries - 1, id, record.sender, record.header, body)
