"""A log in memory whose power can be cut behind each batch; what is in it are bytes, as in a real one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from rtmw.transfer.address import Address, Life
from rtmw.transfer.events import Append, Effect, Event, Now, Steps
from rtmw.transfer.header import Delivery, Header, Kind
from rtmw.transfer.limits import Limits
from rtmw.transfer.machine import Machine, append, undo_losers
from rtmw.transfer.records import Checkpoint, Record, Start, pack, unpack
from rtmw.transfer.recovery import checkpoint_of, redo
from rtmw.transfer.state import State

T = TypeVar("T")

NODE = "plant"
ME = Life(4711, 1000, 1)
Batch = list[tuple[int, bytes]]
"""LSN and bytes of each record."""


class MemoryLog:
    """Batches of records; each batch is there whole, or not at all."""

    def __init__(self, batches: Iterable[Batch] = ()) -> None:
        self.batches = list(batches)
        last = self.batches[-1][-1] if self.batches else None
        self.end = 0 if last is None else last[0] + self._size(last[1])
        self.fails_after: int | None = None
        """So many batches from now, the disk is full."""

    @staticmethod
    def _size(data: bytes) -> int:
        return (32 + len(data) + 7) // 8 * 8

    def append(self, records: Iterable[Record]) -> list[int]:
        if self.fails_after is not None:
            if self.fails_after == 0:
                raise OSError("the disk is full")
            self.fails_after -= 1
        batch: Batch = []
        for record in records:
            data = pack(record)
            batch.append((self.end, data))
            self.end += self._size(data)
        self.batches.append(batch)
        return [lsn for lsn, _ in batch]

    def checkpoint(self, state: State) -> None:
        for part in checkpoint_of(state):
            self.append([part])

    def records(self) -> list[tuple[int, bytes]]:
        return [one for batch in self.batches for one in batch]

    def shown(self) -> list[tuple[int, Record]]:
        return [(lsn, unpack(data, lsn)) for lsn, data in self.records()]

    def trimmed(self) -> MemoryLog:
        """From the last checkpoint on; here each is one record."""
        last = max(
            at for at, batch in enumerate(self.batches) if isinstance(unpack(batch[0][1], batch[0][0]), Checkpoint)
        )
        return MemoryLog(self.batches[last:])

    def cut(self, batches: int) -> MemoryLog:
        """What is there after a power cut behind so many batches."""
        return MemoryLog(self.batches[:batches])


def drive(log: MemoryLog, steps: Steps[T], effects: list[Effect] | None = None) -> T:
    answer: list[int] | None = None
    while True:
        try:
            effect = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        answer = None
        if isinstance(effect, Append):
            try:
                answer = log.append(effect.records)
            except OSError:
                steps.close()
                raise
        elif effects is not None:
            effects.append(effect)


def recovered(log: MemoryLog, deliveries: int) -> State:
    """Redo and undo; what the undo logs is appended."""
    state = redo(log.records()).state
    if state is None:
        log.batches.clear()
        log.end = 0
        state = State()
        log.checkpoint(state)
    drive(log, undo_losers(state, deliveries))
    return state


class Core:
    """A machine on a log in memory."""

    def __init__(self, log: MemoryLog | None = None, limits: Limits | None = None) -> None:
        self.log = log or MemoryLog()
        self.limits = limits or Limits()
        state = recovered(self.log, self.limits.deliveries)
        drive(self.log, append(state, Start(state.life + 1, NODE, 5)))
        self.machine = Machine(state, self.limits)
        self.effects: list[Effect] = []
        self.now = Now(0, 10**18)

    @property
    def state(self) -> State:
        return self.machine.state

    def step(self, event: Event) -> object:
        self.effects.clear()
        return drive(self.log, self.machine.step(event, self.now), self.effects)


def header(body: bytes, to: str = "ingest", priority: int = 0, **more: int) -> Header:
    return Header(Address.parse(to), Kind.BUF, len(body), delivery=Delivery.LOG, priority=priority, **more)
