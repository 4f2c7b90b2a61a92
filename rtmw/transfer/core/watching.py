"""Memory and counters of a core for people who watch (T11): the last errors as events, and eight numbers."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import asdict, dataclass
from typing import Any, Final

from rtmw.observe.transfers import TransferCounters
from rtmw.transfer.machine import Machine
from rtmw.transfer.queues import Item
from rtmw.transfer.records import ENDED, AbortCause, Spooled, TransferState
from rtmw.transfer.wire.frames import Offer

__all__ = ["BAD", "Events", "Happening", "counters_of"]

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
    """Of the transfer; of a transaction its number; empty: of neither."""
    to: str
    sender: str
    cause: str

    def row(self) -> dict[str, Any]:
        return asdict(self)


class Events:
    """The last ones."""

    def __init__(self) -> None:
        self.last: deque[Happening] = deque(maxlen=KEPT)
        self.count = 0
        """Of all, since the core was started."""

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
        """The part of a transfer that has come was removed."""
        return self._add(Happening(wall_ns, "FREED", str(offer.id), str(offer.header.to), offer.sender, cause))

    def of_disk(self, cause: str, wall_ns: int) -> Happening:
        """`cause`: why nothing is logged; empty: there is room again."""
        return self._add(Happening(wall_ns, "FULL" if cause else "ROOM", "", "", "", cause))

    def of_store(self, cause: str, wall_ns: int) -> Happening:
        """Its ids have a new incarnation."""
        return self._add(Happening(wall_ns, "RESTORED", "", "", "", cause))


def counters_of(machines: tuple[Machine, ...], redelivered: int) -> TransferCounters:
    """A walk over all transfers that are more than a part of a run: about 0.1 µs each."""
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
