"""Effects: a step asks its driver for them. A step is a generator of effects; it ends with its answer.

    steps = machine.step(event, now)
    effect = next(steps)            # Append: append its records in one batch, and send their LSNs into the generator
    effect = steps.send(lsns)       # anything else: take note, and send None

If the log has no room, the generator is closed: what was appended before is valid, and what was not is not done.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from rtmw.transfer.changes import ChangeRun
from rtmw.transfer.enqueued import EnqueuedRun
from rtmw.transfer.queues import Item
from rtmw.transfer.records import AbortCause, Enqueue, Record, Savepoint, Spooled, TransferId, TransferState

__all__ = ["Aborted", "Append", "Came", "Effect", "Free", "Moved", "MovedRun", "Note", "Steps", "drive"]

T = TypeVar("T")


class Append(NamedTuple):
    """These records, all of them or none."""

    records: Sequence[Record] | EnqueuedRun | ChangeRun

    @property
    def begins(self) -> bool:
        """Do they begin work? A full disk refuses that; for what ends it there is a reserve (docs/log.md)."""
        records = self.records
        if isinstance(records, EnqueuedRun | ChangeRun):
            return isinstance(records, EnqueuedRun)
        return any(isinstance(one, Enqueue | Savepoint) for one in records)


@dataclass(frozen=True, slots=True)
class Free:
    """Nobody needs the body any more. It goes when the records of this step are durable, or never, if they are lost."""

    item: int
    body: bytes | Spooled


@dataclass(frozen=True, slots=True)
class Moved:
    """A transfer has another state; None: it is undone, and never was."""

    id: TransferId
    state: TransferState | None
    cause: str = ""
    item: Item | None = field(default=None, compare=False, repr=False)
    """The transfer itself: for the code that tells its sender."""


@dataclass(frozen=True, slots=True)
class MovedRun:
    """Letters that go the common way are SENT, DELIVERED or CONSUMED, for no cause; one for all of a run, instead of a
    Moved for each."""

    items: Sequence[Item]
    state: TransferState

    def __iter__(self) -> Iterator[Moved]:
        """Each of them as if it had moved by itself."""
        return (Moved(item.record.id, self.state, "", item) for item in self.items)


@dataclass(frozen=True, slots=True)
class Aborted:
    """A transaction was undone as a whole."""

    txn: int
    cause: AbortCause


class Came(NamedTuple):
    """Letters were accepted for any receiver of a service; one for all of a run, instead of a Moved for each."""

    service: str
    node: str = ""
    """That has the service; empty: this one."""
    items: Sequence[int] = ()
    """Their numbers, if they are for another node."""
    ids: Sequence[TransferId] = ()
    """Their ids, if they came from another node."""


Note: TypeAlias = Free | Moved | MovedRun | Aborted | Came
Effect: TypeAlias = Append | Note
Steps: TypeAlias = Generator[Effect, Sequence[int] | None, T]


def drive(steps: Steps[T], append: Callable[[Append], Sequence[int]], notes: list[Note]) -> T:
    """The answer of a step. `append` gives the LSNs; what else the step wants done comes into `notes`, also before an
    error of the step or of `append`."""
    answer: Sequence[int] | None = None
    try:
        while True:
            try:
                effect = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = None
            if isinstance(effect, Append):
                answer = append(effect)
            else:
                notes.append(effect)
    finally:
        steps.close()
