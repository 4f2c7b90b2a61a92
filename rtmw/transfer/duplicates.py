"""What has come or was sent before: by the numbers of a node, and by the ids that senders choose.

A transfer comes exactly once by (node, incarnation, sequence). Of each incarnation of a node, `Seen` keeps the largest
sequence, and the sequences below it that have not come, as ranges. That a transfer has come is said by its ENQUEUE
itself, so no crash can separate the two. An undone ENQUEUE has not come.

A node numbers what it sends to all nodes, so here each of its sequences may be a gap. Of too many gaps the two oldest
become one, and what has come between them is forgotten: of what has not ended, and of ends that its node does not know
yet, the state knows the ids by itself (`State.has_come`); nothing else is sent again.

With one id of its own, a sender of one name sends once, as with `Log.append`. `once` is, in frames and records, a
digest of what was sent (16 bytes), and behind it the id as the log has labels; no bytes where the sender has chosen no
id.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

from rtmw.log import Label, pack_labels, unpack_labels
from rtmw.transfer.address import Life
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.header import Kind
from rtmw.transfer.records import Request, TransferId, TransferState

__all__ = [
    "DIGEST",
    "LARGEST_SEQUENCE",
    "MOST_ONCE",
    "Ending",
    "HighWater",
    "Once",
    "OnceEntry",
    "Requests",
    "Seen",
    "pack_once",
]


MOST_GAPS: Final = 4096
MOST_INCARNATIONS: Final = 16
LARGEST_SEQUENCE: Final = (1 << 63) - 1
"""Sequence of an id, at most: a checkpoint has the largest one of an incarnation as a signed number."""


@dataclass(slots=True)
class HighWater:
    """Which sequences have come: those of an incarnation of a node, or those of the requests of a program."""

    high: int = -1
    """All sequences up to here have come, but for the gaps."""
    gaps: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """First and last sequence of each gap, in order."""

    def _gap(self, sequence: int) -> int:
        """Return the index of the gap that has the sequence; -1: none has."""
        at = bisect_right(self.gaps, (sequence, 1 << 64)) - 1
        return at if at >= 0 and sequence <= self.gaps[at][1] else -1

    def __contains__(self, sequence: int) -> bool:
        return sequence <= self.high and self._gap(sequence) < 0

    def add(self, sequence: int, count: int = 1) -> None:
        """Add `count` sequences one after the other; if they are several, all of them are above `high`."""
        if sequence > self.high:
            if sequence > self.high + 1:
                self.gaps.append((self.high + 1, sequence - 1))
            self.high = sequence + count - 1
            return
        at = self._gap(sequence)
        if at >= 0:
            first, last = self.gaps[at]
            self.gaps[at : at + 1] = [gap for gap in ((first, sequence - 1), (sequence + 1, last)) if gap[0] <= gap[1]]

    def discard(self, sequence: int) -> None:
        if sequence not in self:
            return
        at = bisect_right(self.gaps, (sequence, 0))
        first = last = sequence
        if at < len(self.gaps) and self.gaps[at][0] == sequence + 1:
            last = self.gaps.pop(at)[1]
        if at and self.gaps[at - 1][1] == sequence - 1:
            first = self.gaps.pop(at - 1)[0]
            at -= 1
        if last == self.high:
            self.high = first - 1
        else:
            self.gaps.insert(at, (first, last))

    def forget(self) -> None:
        """Make the two oldest gaps one, if there are too many."""
        if len(self.gaps) > MOST_GAPS:
            self.gaps[:2] = [(self.gaps[0][0], self.gaps[1][1])]


class Requests:
    """The requests that programs of this host have made, by producer. A producer that has ended is forgotten."""

    def __init__(self) -> None:
        self.marks: dict[Life, HighWater] = {}

    def __contains__(self, request: Request) -> bool:
        mark = self.marks.get(request.producer)
        return mark is not None and request.number in mark

    def add(self, request: Request, count: int = 1) -> None:
        """Add `count` requests, of which this is the first; if there are several, all are new (`is_new`). If there are
        too many gaps the oldest is closed: a program does not ask again for what lies so far back."""
        mark = self.marks.get(request.producer)
        if mark is None:
            mark = self.marks[request.producer] = HighWater(0)
        mark.add(request.number, count)
        if len(mark.gaps) > MOST_GAPS:
            del mark.gaps[0]

    def is_new(self, request: Request) -> bool:
        """Was neither this request made, nor any later one of its producer?"""
        mark = self.marks.get(request.producer)
        return request.number > (0 if mark is None else mark.high)


class Seen:
    """The transfers that have come from all nodes. The last incarnations of each are known; what comes from an earlier
    one is refused."""

    def __init__(self) -> None:
        self.marks: dict[str, dict[int, HighWater]] = {}

    def __contains__(self, id: TransferId) -> bool:
        mark = self.marks.get(id.node, {}).get(id.incarnation)
        return mark is not None and id.sequence in mark

    def is_new(self, id: TransferId) -> bool:
        """Has neither it nor any later one of its incarnation come?"""
        mark = self.marks.get(id.node, {}).get(id.incarnation)
        return mark is None or id.sequence > mark.high

    def check(self, id: TransferId) -> None:
        """Raises TransferRefused, if it cannot be said whether it has come."""
        if id.sequence > LARGEST_SEQUENCE:
            raise TransferRefused(f"transfer {id} has a sequence above 2^63 - 1, which no store gives")
        known = self.marks.get(id.node, {})
        if id.incarnation not in known and len(known) == MOST_INCARNATIONS and id.incarnation < min(known):
            raise TransferRefused(
                f"transfer {id} is of an incarnation of its node before the last {MOST_INCARNATIONS}, so nobody knows "
                "whether it has come already; send it again with a new id"
            )

    def add(self, first: TransferId, count: int = 1) -> None:
        """Add `count` ids one after the other; if they are several, all are new."""
        known = self.marks.setdefault(first.node, {})
        mark = known.get(first.incarnation)
        if mark is None:
            mark = known[first.incarnation] = HighWater()
        mark.add(first.sequence, count)
        mark.forget()
        if len(known) > MOST_INCARNATIONS:
            del known[min(known)]

    def discard(self, id: TransferId) -> None:
        mark = self.marks.get(id.node, {}).get(id.incarnation)
        if mark is not None:
            mark.discard(id.sequence)
            mark.forget()


DIGEST: Final = 16
MOST_ONCE: Final = 65_536
"""Ids of senders that are remembered; then the oldest is forgotten."""
Key: TypeAlias = tuple[str, bytes]
"""Name of the sender, and its id."""


class Ending(NamedTuple):
    """How a transfer has ended."""

    state: TransferState
    cause: str
    request: Request
    """The request that has sent it."""


@dataclass(slots=True)
class OnceEntry:
    """The transfers that were sent under an id."""

    digest: bytes
    ids: dict[TransferId, Ending | None] = field(default_factory=dict[TransferId, Ending | None])
    """How each has ended, by id; one a receiver of `service/*`. None: it has not ended."""


def pack_once(id: Label, to: str, kind: Kind, body: bytes) -> bytes:
    """Return the digest of what is sent, and behind it the id. Raises TypeError, ValueError: the id is none."""
    digest = blake2b(bytes([kind, len(to)]) + to.encode(), digest_size=DIGEST)
    digest.update(body)
    labels = pack_labels(None, id)
    assert labels is not None, "there is an id"
    return digest.digest() + labels


class Once:
    """The transfers that all senders have sent under ids of their own."""

    def __init__(self) -> None:
        self.entries: dict[Key, OnceEntry] = {}

    def find(self, sender: str, once: bytes) -> OnceEntry | None:
        """Return the transfers that were sent under this id. TransferRefused: they had another body or address."""
        entry = self.entries.get((sender, once[DIGEST:]))
        if entry is not None and entry.digest != once[:DIGEST]:
            raise TransferRefused(
                f"sender {sender!r} has sent something else with id={unpack_labels(once[DIGEST:])[1]!r}; an id belongs "
                "to one body and one address"
            )
        return entry

    def add(self, sender: str, once: bytes, id: TransferId) -> None:
        key = sender, once[DIGEST:]
        entry = self.entries.get(key)
        if entry is None or entry.digest != once[:DIGEST]:
            entry = self.entries[key] = OnceEntry(once[:DIGEST])
            if len(self.entries) > MOST_ONCE:
                del self.entries[next(iter(self.entries))]
        entry.ids[id] = None

    def discard(self, sender: str, once: bytes, id: TransferId) -> None:
        """Forget a transfer that was undone: it never was."""
        key = sender, once[DIGEST:]
        entry = self.entries.get(key)
        if entry is not None and entry.ids.pop(id, entry) is None and not entry.ids:
            del self.entries[key]

    def end(self, sender: str, once: bytes, id: TransferId, ending: Ending) -> None:
        entry = self.entries.get((sender, once[DIGEST:]))
        if entry is not None and id in entry.ids:
            entry.ids[id] = ending
