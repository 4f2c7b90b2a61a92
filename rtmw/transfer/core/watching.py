"""Memory and counters of a core for people who watch (T11): the last errors as events, eight numbers, and queues."""

from __future__ import annotations

import shutil
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rtmw.observe.transfers import TransferCounters, TransferQueue
from rtmw.transfer.address import Address
from rtmw.transfer.machine import Machine
from rtmw.transfer.queues import Item
from rtmw.transfer.records import ENDED, AbortCause, Spooled, TransferState
from rtmw.transfer.store import Ages
from rtmw.transfer.wire.frames import Offer
from rtmw.units import counted, size

__all__ = ["BAD", "Events", "Happening", "Room", "counters_of", "full_words", "queues_of"]

BAD: Final = (ENDED - {TransferState.CONSUMED}) | {TransferState.DEAD}
"""States that are events."""
KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class Happening:
    """An event: something went another way than that of a transfer that is consumed."""

    time_ns: int
    """Wall clock, since 1970."""
    what: str
    """The state that a transfer has come to; UNDONE of a transaction; FREED of a part that its node
    has left; FULL and ROOM of the disk of the core; RESTORED of its store."""
    id: str
    """Id of the transfer, or number of the transaction; empty: it is of neither."""
    to: str
    sender: str
    cause: str

    def row(self) -> dict[str, Any]:
        return asdict(self)


class Events:
    """The last events of a core."""

    def __init__(self) -> None:
        self.last: deque[Happening] = deque(maxlen=KEPT)
        self.count = 0
        """Number of all events since the core was started."""

    def _add(self, happening: Happening) -> Happening:
        self.last.append(happening)
        self.count += 1
        return happening

    def of_transfer(self, item: Item, state: TransferState, cause: str, wall_ns: int) -> Happening:
        record = item.record
        return self._add(Happening(wall_ns, state.name, str(record.id), str(record.header.to), record.sender, cause))

    def of_transaction(self, txn: int, cause: AbortCause, sender: str, wall_ns: int) -> Happening:
        return self._add(Happening(wall_ns, "UNDONE", str(txn), "", sender, cause.name))

    def of_part(self, offer: Offer, cause: str, wall_ns: int) -> Happening:
        """Add an event: the part of a transfer that had come was removed."""
        return self._add(Happening(wall_ns, "FREED", str(offer.id), str(offer.header.to), offer.sender, cause))

    def of_disk(self, cause: str, wall_ns: int) -> Happening:
        """Add an event of the disk. `cause`: why nothing is logged; empty: there is room again."""
        return self._add(Happening(wall_ns, "FULL" if cause else "ROOM", "", "", "", cause))

    def of_store(self, cause: str, wall_ns: int) -> Happening:
        """Add an event: the ids of the store have a new incarnation."""
        return self._add(Happening(wall_ns, "RESTORED", "", "", "", cause))


class Room:
    """Whether the disk of the core has room: its log and its spool find it out each by what was last to be kept.

    `say` is called when one of them comes to have no room, with what is refused and why, and with "" when both have.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self._log_is_full = False
        self.lacks = 0
        """Size of the last body, for which the spool had no room; 0: it has room."""
        self._enough = 0
        """Bytes that are free when the spool has room again."""

    @property
    def is_full(self) -> bool:
        return self._log_is_full or bool(self.lacks)

    def log_has_none(self, why: str) -> None:
        if not self._log_is_full:
            self._log_is_full = True
            self._say(why)

    def log_has_some(self) -> None:
        if self._log_is_full:
            self._log_is_full = False
            self._say_again()

    def spool_has_none(self, size: int) -> str:
        """Note that the spool has no room for a body of this size. Returns the words for its sender."""
        free, was_full = self._free(), bool(self.lacks)
        self.lacks, self._enough = size, size if free < size else free + size  # more is free than a quota lets one have
        why = f"a body of {size} bytes has no room in {self._folder}, where {free} are free"
        if not was_full:
            self._say(why)
        return why

    def spool_has_some(self) -> None:
        if self.lacks:
            self.lacks = 0
            self._say_again()

    def look(self) -> None:
        """Is there room for the last body? Its sender may have gone."""
        if self.lacks and self._free() >= self._enough:
            self.spool_has_some()

    def _free(self) -> int:
        return shutil.disk_usage(self._folder).free

    def _say_again(self) -> None:
        if not self.is_full:
            self._say("")


def counters_of(machines: tuple[Machine, ...], redelivered: int) -> TransferCounters:
    """Return the counters. It walks over all transfers that are more than a part of a run: about 0.1 µs each."""
    states: Counter[TransferState] = Counter()
    ended: Counter[TransferState] = Counter()
    size = 0
    for machine in machines:
        ended.update(machine.state.counts)
        items = machine.state.items
        states[TransferState.ACCEPTED] += items.runs.letters
        size += items.inline_bytes
        for item in items.made.values():
            states[item.state] += item.counts_at(machine.state.node)
            size += item.record.body.size if isinstance(item.record.body, Spooled) else 0
    parked, failed = states.total(), ended.total() - ended[TransferState.CONSUMED]
    return TransferCounters(
        parked=parked,
        body_bytes=size,
        dead=states[TransferState.DEAD],
        transactions=sum(len(machine.open) for machine in machines),
        accepted=parked + ended.total(),
        consumed=ended[TransferState.CONSUMED],
        failed=failed,
        redelivered=redelivered,
    )


def full_words(data: Path, kept: TransferCounters, log_bytes: int, lacks: int) -> str:
    """Return how full the disk is, what is kept there, and what makes room. `lacks`: see Room."""
    body = f", and a body of {size(lacks)} had no room there" if lacks else ""
    number = counted(kept.parked, "transfer") + (f" ({counted(kept.dead, 'dead letter')})" if kept.dead else "")
    return (
        f"the disk of {data} has {size(shutil.disk_usage(data).free)} free{body}. Kept there are {number} with "
        f"{size(kept.body_bytes)} of bodies, and {size(log_bytes)} of log. Receivers that consume make room (rtmw "
        "transfers shows where letters wait); so does rtmw transfers cancel, and what you remove from that disk. Then "
        "it goes on by itself"
    )


def queues_of(machines: Iterable[tuple[Machine, Ages]]) -> list[TransferQueue]:
    """Return what waits, without dead letters, by service and node; the queue with the oldest transfer comes first."""
    counts: Counter[tuple[str, str]] = Counter()
    since: dict[tuple[str, str], int] = {}
    for machine, ages in machines:
        firsts: dict[tuple[str, str], int] = {}
        for to, number, first in _parts(machine):
            queue = to.service, to.node
            counts[queue] += number
            firsts[queue] = min(first, firsts.get(queue, first))
        for queue, first in firsts.items():
            since[queue] = min(ages.since(first), since.get(queue, sys.maxsize))
    return [TransferQueue(*queue, counts[queue], since[queue]) for queue in sorted(since, key=lambda one: since[one])]


def _parts(machine: Machine) -> Iterator[tuple[Address, int, int]]:
    """Yield for each part to whom it is, how many there are, and the number of the first of them."""
    for run, left, first in machine.state.items.runs.waiting():
        yield run.model.header.to, left, first
    for item in machine.state.items.made.values():
        if item.state is not TransferState.DEAD and item.counts_at(machine.state.node):
            yield item.record.header.to, 1, item.lsn
