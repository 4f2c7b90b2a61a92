"""The letter that a receiver is handed next, of both machines, and its form as it is handed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from rtmw.transfer.address import Life
from rtmw.transfer.core.machines import Machines
from rtmw.transfer.frames import LARGEST_BYTES
from rtmw.transfer.header import Header
from rtmw.transfer.messages import Handed, HandedRun
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Spooled, own_id

__all__ = ["Handing"]


def _kind(item: Item) -> tuple[Header, str, str, int]:
    record = item.record
    return record.header, record.sender, record.id.node, record.id.incarnation


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

    def has_one_machine(self, service: str, life: Life) -> bool:
        """All that this receiver may have is of the machine that has the first one."""
        machines = self._machines.logged, self._machines.volatile
        queues = [(machine.state.queues.get(service), machine.state.items) for machine in machines]
        return sum(queue is not None and queue.first(life, items) is not None for queue, items in queues) == 1

    def handed_all(self, items: Sequence[Item]) -> Iterator[Handed | HandedRun]:
        """Those that follow each other, of one sender and header, are one message."""
        if len(items) == 1:
            yield self.handed(items[0])
            return
        for (header, sender, node, incarnation), same in groupby(items, key=_kind):
            letters = [(one.lsn, one.record.id.sequence, one.record.body) for one in same]
            for at in range(0, len(letters), most := max(1, LARGEST_BYTES // header.length)):
                yield HandedRun(node, incarnation, sender, header, tuple(letters[at : at + most]))  # type: ignore[arg-type]

    def handed(self, item: Item) -> Handed:
        """A small body in memory, a large one as a file."""
        record, body = item.record, item.record.body
        if isinstance(body, Spooled):
            path = self._path(body)
            body = path.read_bytes() if body.size <= LARGEST_BYTES else Spooled(str(path), body.size)
        id = own_id(record.id) if record.id.node == self._machines.logged.state.node else record.id
        return Handed(item.lsn, item.deliveries - 1, id, record.sender, record.header, body)
