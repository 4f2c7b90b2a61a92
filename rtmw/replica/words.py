"""What a replica is told and what it wants done: the control value, messages between nodes, events and effects.

A *batch* is what is appended and read whole, with one id. Positions are those of the log, and each position named here
lies between two batches. The *in-sync set* I are the members without whose acknowledgement nothing is committed; the
*pending set* P are those on their way into it. The *cache* is a run of slices in the control store that continues the
checkpoint: a witness for what slaves have not acknowledged yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol, get_args

from rtmw.replica.control.store import Outcome

MIB: Final = 1 << 20

Table = tuple[tuple[int, int], ...]
"""For each epoch that has records, in ascending order: (epoch, the position behind its last record)."""


class Kind(Enum):
    DATA = 1
    FENCE = 2
    """No message: the id of a message that shall never come (rule 11)."""


class Found(NamedTuple):
    """The batch that has an id."""

    kind: Kind
    start: int
    end: int
    is_same: bool
    """It has the kind and the content that were asked for."""


class Wal(Protocol):
    """The log of this node. No method waits for a disk: `append` and `append_raw` queue, `Synced` tells the rest."""

    @property
    def earliest(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def durable(self) -> int: ...
    @property
    def floor(self) -> int:
        """From here on the log knows each id."""
        ...

    def append(self, epoch: int, id: bytes, kind: Kind, data: Any) -> tuple[int, int] | None:
        """Start and end of the new batch; None: the disk is full. A fence has no data."""
        ...

    def append_raw(self, data: bytes | memoryview) -> bool:
        """Appends whole batches at `end`, unchanged. False: the disk is full, and nothing was appended."""
        ...

    def find(self, id: bytes, kind: Kind, data: Any) -> Found | None:
        """The batch with this id, committed or not."""
        ...

    def epochs(self) -> Table:
        """Derived from the records: an epoch without one has no entry."""
        ...

    def whole(self, start: int, size: int) -> int:
        """The end of the last batch that ends within `size` bytes from `start`; `start` if there is none."""
        ...

    def same(self, start: int, data: bytes) -> int:
        """The end of the last of the batches in `data` that this log has at `start` and behind; `start` if none."""
        ...


# ---- what is kept ----


@dataclass(frozen=True)
class Settings:
    min_insync: int = 2
    sync_timeout: float = 0.5
    lag: float = 2.0
    suspect: float = 1.0
    slice: int = MIB
    cache: int = 64 * MIB
    age: float = 0.0
    """Full segments go when they were full so many seconds ago, by the clock of the master; 0: no limit."""
    bytes: int = 0
    """The oldest go until no more is left; 0: no limit."""


class Slice(NamedTuple):
    start: int
    end: int


@dataclass(frozen=True)
class Control:
    """The value of a log in the control store. One version covers it and its slices (rule 2)."""

    epoch: int
    master: str
    members: frozenset[str]
    in_sync: dict[str, int]
    """I: uuid to incarnation. A member that lost a tail has another incarnation, so it cannot be a candidate."""
    pending: frozenset[str] = frozenset()
    checkpoint: int = 0
    slices: tuple[Slice, ...] = ()
    settings: Settings = Settings()

    @property
    def cached(self) -> int:
        """The cache reaches to here."""
        return self.slices[-1].end if self.slices else self.checkpoint

    def in_sync_without(self, name: str) -> dict[str, int]:
        return {other: incarnation for other, incarnation in self.in_sync.items() if other != name}


@lru_cache(maxsize=64)
def others(names: frozenset[str], me: str) -> tuple[str, ...]:
    """All names but `me`, sorted: a master needs them at each step, and they seldom change."""
    return tuple(sorted(names - {me}))


class Marks(NamedTuple):
    """What a node keeps beside its log, in two checksummed copies."""

    promise: int = 0
    """The largest epoch that this node has agreed to. It accepts no smaller one (rule 3)."""
    incarnation: int = 1
    checkpoint: int = 0


# ---- messages between nodes ----


class Beat(NamedTuple):
    """A master's heartbeat."""

    epoch: int
    commit: int
    earliest: int
    control: Control
    offsets: dict[str, int]
    """What each member has acknowledged; decides who stands first when the master is gone."""
    life: tuple[int, int]
    """That of the `Ack` which asked for the table: an older table says too little."""
    table: Table | None = None
    end: int = 0


class Batches(NamedTuple):
    """Bytes of the master's log at a position."""

    epoch: int
    position: int
    data: bytes | memoryview
    commit: int


class Ack(NamedTuple):
    """A slave's heartbeat, sent at once when something was synced. `epoch` 0: it is aligned to no master."""

    epoch: int
    durable: int
    end: int
    incarnation: int
    promise: int
    life: tuple[int, int]
    """Which life of the slave, and how many times it has left a master in it."""
    is_full: bool = False
    is_beat: bool = False


class TakeOver(NamedTuple):
    """A master asks a slave to succeed it."""

    epoch: int


Message = Beat | Batches | Ack | TakeOver

# ---- events ----


class Received(NamedTuple):
    peer: str
    message: Message


class Lost(NamedTuple):
    """The session to a peer has ended, or its host refuses one."""

    peer: str


class Synced(NamedTuple):
    """`Wal.durable` has moved."""


class Done(NamedTuple):
    """The disk has what the effect said."""

    effect: Effect


class Refetched(NamedTuple):
    """The log was set aside and copied anew, or, if not `is_done`, only set aside."""

    is_done: bool


class Room(NamedTuple):
    """The disk that was full has room again."""


class Failed(NamedTuple):
    """A write or a sync failed: nothing can be said of this log until it was opened anew."""

    words: str


class Rotten(NamedTuple):
    """Bytes that were durable are not as they were."""

    words: str


class Read(NamedTuple):
    """The store's answer; `control` is None if there was none in time."""

    number: int
    version: int
    control: Control | None
    slices: tuple[bytes, ...] = ()
    is_tight: bool = False
    """The store should get no more slices."""


class Changed(NamedTuple):
    number: int
    outcome: Outcome
    version: int
    is_tight: bool = False


class Append(NamedTuple):
    ticket: int
    id: bytes
    since: int
    data: Any
    """The batch, as `Wal.append` takes it."""


class Resolve(NamedTuple):
    """Has this id been written? The answer is WRITTEN or ABSENT, and stays true (rule 11)."""

    ticket: int
    id: bytes
    since: int


class Fresh(NamedTuple):
    """Up to where must a reader read to see all that was committed when it asked? (rule 12)"""

    ticket: int


class Move(NamedTuple):
    """Hand over to a member; an empty name: to whichever is best."""

    ticket: int
    to: str = ""


class Members(NamedTuple):
    """Add and remove members; both at once replaces."""

    ticket: int
    add: str = ""
    remove: str = ""


class TrimTo(NamedTuple):
    """Retention wants what lies below to go."""

    position: int


class Tick(NamedTuple):
    pass


Request = Append | Resolve | Fresh | Move | Members
"""What is answered, under its ticket."""
Event = (
    Received | Lost | Synced | Done | Refetched | Room | Failed | Rotten | Read | Changed
    | Request | TrimTo | Tick
)  # fmt: skip

# ---- effects ----


class Send(NamedTuple):
    peer: str
    message: Message


class Ship(NamedTuple):
    """Send whole batches of this part as `Batches`, with the credit of the session. A later one for the peer replaces
    it. It is void as soon as the replica is not master of `epoch` any more."""

    peer: str
    epoch: int
    start: int
    end: int


class Keep(NamedTuple):
    """Store durably, then tell `Done`."""

    marks: Marks


class Truncate(NamedTuple):
    """Cut the log durably, then tell `Done`."""

    end: int


class Refetch(NamedTuple):
    """Set the log aside and copy the peer's, then tell `Refetched`."""

    peer: str


class Commit(NamedTuple):
    """Readers may read to here. Behind a truncation it may be less than before."""

    position: int


class Trim(NamedTuple):
    position: int


class ReadStore(NamedTuple):
    """Read value and slices, then tell `Read`; if there is no answer in time, without a value."""

    number: int


class ChangeStore(NamedTuple):
    """Write `control` if the store has `version`, in one transaction with the bytes of `put`, and without slices that
    `control` does not name. Then tell `Changed`, with UNKNOWN if there is no answer in time."""

    number: int
    version: int
    control: Control
    put: Slice | None


class Reply(Enum):
    WRITTEN = "written"
    CACHED = "cached"
    PENDING = "pending"
    ABSENT = "absent"
    TAKEN = "taken"
    """The id has other content, or a fence: this message is not in the log, and will not be."""
    UNKNOWABLE = "unknowable"
    FULL = "full"
    MOVED = "moved"
    """This node cannot tell: ask `words`, or another one, with the same id and the same `since`."""
    DONE = "done"
    REFUSED = "refused"


class Answer(NamedTuple):
    """Ticket 0 is nobody's."""

    ticket: int
    reply: Reply
    position: int = 0
    commit: int = 0
    words: str = ""


class Note(NamedTuple):
    """A rule of docs/design/replication.md was applied."""

    rule: int
    words: str


Effect = Send | Ship | Keep | Truncate | Refetch | Commit | Trim | ReadStore | ChangeStore | Answer | Note


def methods(owner: type, prefix: str, kinds: Any) -> dict[type, Callable[..., Any]]:
    """The method of `owner` for each kind of a union: `_read_store` for `ReadStore`, if the prefix is "_"."""
    return {
        kind: getattr(owner, prefix + re.sub(r"\B([A-Z])", r"_\1", kind.__name__).lower()) for kind in get_args(kinds)
    }


# ---- what a master knows ----


@dataclass
class Peer:
    """Another member, as the master of an epoch knows it."""

    acked: int = 0
    """Synced there and verified against this master's log in this epoch (rule 4)."""
    shipped: int = 0
    incarnation: int = 0
    life: tuple[int, int] = (0, 0)
    is_aligned: bool = False
    is_full: bool = False
    heard: float = 0.0
    wanted: tuple[int, float] | None = None
    """A position that it has not acknowledged, and since when."""
    took: float = 0.0
    """Seconds that it took for the one before."""
    last_end: int = -1
    """Its end at its last heartbeat."""

    def keeps_up(self, lag: float) -> bool:
        """It will not soon be behind for so long again: appends would wait for it meanwhile."""
        return self.wanted is None or self.took <= lag


class Waiting(NamedTuple):
    """A request whose batch is in the log and not committed: an entry of the batch sync queue (S2)."""

    ticket: int
    start: int
    end: int
    at: float
    reply: Reply


# ---- what is told of a replica ----


class Role(Enum):
    SLAVE = "slave"
    BEHIND = "left behind"
    CANDIDATE = "candidate"
    MASTER = "master"
    FAILED = "failed"


@dataclass(frozen=True)
class Status:
    role: Role
    epoch: int
    master: str
    in_sync: frozenset[str]
    checkpoint: int
    committed: int
    members: frozenset[str]
    queue: int
    """Requests in the batch sync queue, and the age of the oldest in seconds."""
    oldest: float
    cached: int
    """Bytes in the cache."""
    pending: int
    """Requests that were answered PENDING in this life."""
    switches: int


def common_end(mine: Table, theirs: Table) -> int:
    """The end of the largest epoch that both logs have: up to there they are equal (rule 3)."""
    ends = dict(theirs)
    return next((min(end, ends[epoch]) for epoch, end in reversed(mine) if epoch in ends), 0)
