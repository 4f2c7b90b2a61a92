"""Letters that go to the core in one frame, and what has become of each.

An event loop gathers what its tasks send in one turn; a program sends a batch. A group is the program's table of these
letters: a byte for the state of each and one for the level that it has reached, so an answer for all of them is a few
copies of bytes. A `Transfer` of a group looks at its place in the table when somebody asks it.

`Gathering` has the groups that wait for room in the core's queue, or for its answer. Letters of an event loop wait for
the end of its turn. Those of threads go out at once, unless the core has enough to do with groups before: then they
wait for one of its answers, with what other threads send meanwhile.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, Protocol, TypeAlias
from weakref import WeakValueDictionary, ref

from rtmw.transfer.address import Life
from rtmw.transfer.client.waiting import error_in
from rtmw.transfer.errors import TransferError
from rtmw.transfer.header import Delivery, Header, Level
from rtmw.transfer.messages import Accepted, Failed, Message, Move, Run, Sends
from rtmw.transfer.records import ENDED, TransferId, TransferState
from rtmw.waiting import Loop, Waiting

__all__ = ["LOST", "REACHED", "RESTARTED", "Gathering", "Group", "Groups", "Place"]


REACHED: Final = {
    TransferState.HELD: Level.NONE,
    TransferState.ACCEPTED: Level.ACCEPTED,
    TransferState.SENT: Level.SENT,
    TransferState.DELIVERED: Level.DELIVERED,
    TransferState.CONSUMED: Level.CONSUMED,
}
"""The level that a state has reached. One that is not here reaches none any more."""
LOST: Final = "the transfer was accepted before its core was started anew, and has ended since; nobody knows how"
RESTARTED: Final = "its core was started anew; nobody knows how it has ended"
"""Why a transfer is UNKNOWN."""


MOST_LETTERS: Final = 32
"""Letters that an event loop gathers for one frame: the core works on them while the program makes the next ones."""
MOST_TOGETHER: Final = 128
"""Letters in one frame of a batch, or while the core has enough to do with others before."""
MOST_BYTES: Final = 64 << 10
"""Bytes of the bodies in one frame."""
_SILENT: Final = 255
"""Stands instead of a state: its transaction was undone, and it never was; or the core has refused it."""
_UNANSWERED: Final = int(TransferState.HELD)
_ACCEPTED, _SENT = bytes([Level.ACCEPTED]), bytes([Level.SENT])


class Watched(Protocol):
    """A Transfer, as its group tells it that it has moved."""

    def _tell(self) -> None: ...


class Owner(Protocol):
    """The sender of a group."""

    _life: Life

    def _went_out(self, letters: int, size: int) -> None: ...

    def _went_wrong(self, error: Exception) -> None: ...

    @property
    def _groups(self) -> Groups: ...

    @property
    def _node(self) -> str:
        """The sender's own node."""
        ...


class Group:
    """Letters in one frame. Filled under the lock of the line; written by its thread after the group went out."""

    def __init__(self, owner: Owner, life: Life, most: int = MOST_LETTERS) -> None:
        self._owner, self.life, self.number, self._most = owner, life, 0, most
        self._runs: list[tuple[Header, list[bytes]]] = []
        self._header: Header | None = None
        self._bodies: list[bytes] = []
        """Bodies of the last run."""
        self.left = self.bytes = 0
        """Letters that have no answer; bytes of the bodies, when it goes out."""
        self.is_logged = False
        """Some of its letters have Delivery.LOG."""
        self.thread = 0
        self.loop: Loop | None = None
        """Thread and loop of the turn that has begun it. As long as that thread finds the group open and the loop
        running, the turn goes on. Before Python 3.12, to ask asyncio for the loop of a thread takes a system call."""
        self.full_at = most
        """With this many letters the group goes out at once."""
        self.lowest = 0
        """A level that all letters have reached, as of the answer to the last one."""
        self._states, self._levels = bytearray(), bytearray()
        self._accepted_levels = b""
        """The level that each letter reaches when it is accepted."""
        self._ids: list[tuple[int, TransferId]] = []
        """Index of the first letter, and its id, of each run that was accepted."""
        self._causes: dict[int, str] = {}
        self._errors: dict[int, Exception] = {}
        self.waiting = Waiting()
        """Threads and tasks that wait for an answer."""
        self._watched: WeakValueDictionary[int, Watched] | None = None
        """Transfers that are told of each move, by index; None: nobody asks for progress, so no table is made."""

    def add(self, header: Header, body: bytes) -> int:
        """Add a letter, and return its index."""
        if header is not self._header:  # headers are remembered, so equal ones are one object
            self._begin_run(header)
        self._bodies.append(body)
        index = self.left
        self.left = index + 1
        return index

    def add_run(self, header: Header, bodies: Sequence[bytes]) -> None:
        """Add letters with one header."""
        self._begin_run(header)
        self._bodies += bodies
        self.left += len(bodies)

    def _begin_run(self, header: Header) -> None:
        self._end_run()
        self._header, self._bodies = header, []
        self.is_logged |= header.delivery is Delivery.LOG
        self._runs.append((header, self._bodies))
        self.full_at = min(self._most, self.left - (self.bytes - MOST_BYTES) // header.length)

    def _end_run(self) -> None:
        if self._header is not None:
            self.bytes += len(self._bodies) * self._header.length

    def number_from(self, number: int) -> int:
        """Number the letters, which go out now. `number`: that of the first. Returns the one behind the last."""
        self._end_run()
        self.number, count = number, self.left
        self._states, self._levels = bytearray(count), bytearray(count)
        self._accepted_levels = b"".join([self._accepted_level(header) * len(bodies) for header, bodies in self._runs])
        self._owner._went_out(count, self.bytes)
        return number + count

    def _accepted_level(self, header: Header) -> bytes:
        """Return the level of a letter that is accepted. The core of a receiver of this node is the sender's: it has
        all bytes when it accepts."""
        return _SENT if header.to.node in ("", self._owner._node) else _ACCEPTED

    def has(self, number: int) -> bool:
        return self.number <= number < self.number + len(self._states)

    def requests(self) -> Iterator[tuple[int, Message]]:
        """Yield the requests that have no answer, with their numbers."""
        at = 0
        for state, same in groupby(self._states):
            begin, at = at, at + len(list(same))
            if state == _UNANSWERED:
                yield self.number + begin, Sends(tuple(_between(self._runs, begin, at)))

    # ---- of a letter ----

    @property
    def is_done(self) -> bool:
        return not self.left

    def is_answered(self, index: int) -> bool:
        return bool(self._states) and self._states[index] != _UNANSWERED

    def is_over(self, index: int, level: Level) -> bool:
        """Has the letter reached the level, or will it never?"""
        if not self.is_answered(index):
            return False
        return self._levels[index] >= level or self._states[index] not in REACHED

    def all_reached(self, level: Level) -> bool:
        return self.lowest >= level or (not self.left and min(self._levels, default=Level.NONE) >= level)

    def all_over(self, level: Level) -> bool:
        """Has each letter reached the level, or will it never?"""
        if self.left:
            return False
        return self.all_reached(level) or all(self.is_over(index, level) for index in range(len(self._levels)))

    def error_of(self, index: int) -> Exception | None:
        return self._errors.get(index)

    def state_of(self, index: int) -> tuple[TransferId, TransferState, Level, str] | None:
        """Return id, state, level and cause of a letter; None: it has no answer, or was refused."""
        if not self._states or self._states[index] in (_UNANSWERED, _SILENT):
            return None
        state, level = TransferState(self._states[index]), Level(self._levels[index])
        return self._id_of(index), state, level, self._causes.get(index, "")

    def _id_of(self, index: int) -> TransferId:
        begin, first = self._ids[bisect_right(self._ids, index, key=lambda run: run[0]) - 1]
        return TransferId(first.node, first.incarnation, first.sequence + index - begin)

    def watch(self, index: int, transfer: Watched) -> None:
        """Tell a transfer of each move of its letter, for as long as the program keeps the transfer."""
        if self._watched is None:
            self._watched = WeakValueDictionary()
        self._watched[index] = transfer

    # ---- in the thread of the line ----

    def take(self, number: int, message: Message) -> None:
        """Take an answer. One for what was answered before counts for nothing."""
        index = number - self.number
        if isinstance(message, Accepted) and message.ids:
            self._accepted(index, min(message.count, len(self._states) - index), message.ids[0])
        elif isinstance(message, Accepted):
            self._refused(index, TransferError(LOST))
        elif isinstance(message, Failed):
            self._refused(index, error_in(message))

    def _accepted(self, index: int, count: int, first: TransferId) -> None:
        end = index + count
        if self._states.count(_UNANSWERED, index, end) < count:
            return
        insort(self._ids, (index, first))
        self._states[index:end] = bytes([TransferState.ACCEPTED]) * count
        self._levels[index:end] = self._accepted_levels[index:end]
        self._answered(index, count)
        self._owner._groups.put(self, first, index)

    def _refused(self, index: int, error: Exception) -> None:
        if not self._states[index]:
            self._errors[index], self._states[index] = error, _SILENT  # a task that sees it over finds the error
            self._answered(index, 1)
            self._owner._went_wrong(error)

    def _answered(self, index: int, count: int) -> None:
        self.left -= count
        if self.is_done:
            self.lowest = min(self._levels)
            self._runs, self._bodies = [], []
        if self._watched is not None:
            for at, watched in list(self._watched.items()):
                if index <= at < index + count:
                    watched._tell()

    def fail(self, error: Exception) -> None:
        """End the group: no answer comes any more."""
        if not self._states:
            self._states, self._levels = bytearray(self.left), bytearray(self.left)
        for index, state in enumerate(self._states):
            if state == _UNANSWERED:
                self._errors[index] = error
        for index in self._errors:
            self._states[index] = _SILENT
        self.left = 0
        self.waiting.wake()

    def told(self, index: int, move: Move) -> bool:
        """Note a move of a letter. Is that news?"""
        before = self._states[index]
        if move.state is TransferState.UNKNOWN and before in ENDED:
            return False  # the core that has told its end is gone
        assert move.state is not None, "no letter of a group is part of a transaction"
        if move.cause or index in self._causes:
            self._causes[index] = move.cause
        self._states[index] = move.state
        self._levels[index] = max(self._levels[index], REACHED.get(move.state, Level.NONE))
        if self._watched is not None and (watched := self._watched.get(index)) is not None:
            watched._tell()
        return move.state != before

    def going(self) -> list[TransferId]:
        """Return the ids of letters that were accepted and have not ended."""
        over = {_UNANSWERED, _SILENT, TransferState.UNKNOWN, *ENDED}
        return [self._id_of(index) for index, state in enumerate(self._states) if state not in over]


def _between(runs: Iterable[tuple[Header, list[bytes]]], begin: int, end: int) -> Iterator[Run]:
    """Yield the letters with these indexes."""
    for header, bodies in runs:
        found = bodies[max(begin, 0) : max(end, 0)]
        begin, end = begin - len(bodies), end - len(bodies)
        if found:
            yield Run(header, tuple(found))


class Groups:
    """The groups of one sender that the program still keeps, by the ids of their letters. In the thread of the line."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], tuple[list[int], list[tuple[ref[Group], int]]]] = {}
        """Sequences of the first letters of runs; and their groups, with the index there. By node and incarnation."""
        self._room = 64

    def put(self, group: Group, first: TransferId, index: int) -> None:
        firsts, groups = self._runs.setdefault((first.node, first.incarnation), ([], []))
        at = bisect_right(firsts, first.sequence)
        firsts.insert(at, first.sequence)
        groups.insert(at, (ref(group), index))
        if len(firsts) > self._room:
            self._drop_dead()

    def _drop_dead(self) -> None:
        for key, (firsts, groups) in list(self._runs.items()):
            kept = [(one, two) for one, two in zip(firsts, groups, strict=True) if two[0]() is not None]
            self._runs[key] = [one for one, _ in kept], [two for _, two in kept]
        self._room = max(64, 2 * sum(len(firsts) for firsts, _ in self._runs.values()))

    def find(self, id: TransferId) -> tuple[Group, int] | None:
        """Return the group of a letter, and its index there; None: the program keeps no letter of the group."""
        firsts, groups = self._runs.get((id.node, id.incarnation), ((), ()))
        at = bisect_right(firsts, id.sequence) - 1
        if at < 0:
            return None
        group, index = groups[at][0](), groups[at][1] + id.sequence - firsts[at]
        return (group, index) if group is not None and group.has(group.number + index) else None

    def going(self) -> list[TransferId]:
        """Return the ids of all letters that have not ended."""
        live = {id(group): group for _, groups in self._runs.values() for one, _ in groups if (group := one())}
        return [one for group in live.values() for one in group.going()]


ENOUGH: Final = 2
"""Number of groups without an answer that keep the core at work: it works on one, and the next one is there."""

Place: TypeAlias = tuple[Group, int]
"""The place of a letter: its group, and its index there."""
Put: TypeAlias = Callable[[Life, int, Message, bool], bool]
"""Sends a frame of a request, by its number; True: it waits for room. Returns False: there is none."""


class Gathering:
    """The groups of one line that go out, or wait for answers; used under the lock of the line."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self.open: dict[Life, Group] = {}
        """Groups that go out soon, by sender."""
        self._unsent: deque[Group] = deque()
        """Groups that have their numbers, and for which the queue had no room yet."""
        self._going: set[Group] = set()
        """Groups that have their numbers, and no answer."""
        self._has_waiting = False
        """Letters of threads are gathered, which wait for an answer."""
        self._left = 0
        """Letters that have their numbers, and no answer."""

    @property
    def unanswered(self) -> int:
        """Letters without an answer."""
        return self._left + sum(group.left for group in list(self.open.values()))

    @property
    def is_empty(self) -> bool:
        """Is nothing to be sent? It looks without the lock, at what is so at one moment."""
        return not (self.open or self._unsent)

    def begin(self, owner: Owner) -> Group:
        most = MOST_LETTERS if len(self._going) < ENOUGH else MOST_TOGETHER
        group = self.open[owner._life] = Group(owner, owner._life, most)
        return group

    def number(self, numbers: dict[Life, int]) -> list[Group]:
        """Number all gathered groups; they go out next. `numbers`: that of the next request of each sender."""
        groups = list(self.open.values())
        self._unsent += groups  # before `open` has them no more: see is_empty
        self.open.clear()
        self._has_waiting = False
        for group in groups:
            numbers[group.life] = group.number_from(numbers[group.life])
            self._left += group.left
        self._going.update(groups)
        return groups

    def send(self, waits: bool) -> bool:
        """Send the groups that have numbers. False: the queue of the core has no room for all of them."""
        while self._unsent and self.put(self._unsent[0], waits):
            self._unsent.popleft()
        return not self._unsent

    def put(self, group: Group, waits: bool) -> bool:
        return all(self._put(group.life, number, message, waits) for number, message in group.requests())

    def leave_to_next_core(self) -> None:
        """Leave to the next core what has no answer: it is asked all that."""
        self._unsent.clear()

    def forget(self, life: Life, error: Exception) -> None:
        """End the open group of a sender that is closed."""
        group = self.open.pop(life, None)
        if group is not None:
            group.fail(error)

    def may_wait(self) -> bool:
        """May a letter of a thread wait for an answer, since the core has enough to do?"""
        if not self._is_busy():
            return False
        self._has_waiting = True
        return True

    def _is_busy(self) -> bool:
        """Has the core enough to do with groups before? With letters of LOG one group is enough, until as many letters
        have gathered as it has: each frame of them takes a sync, so fewer frames with more letters are faster."""
        if len(self._going) >= ENOUGH:
            return True
        is_logged = any(group.is_logged for group in self.open.values())
        return is_logged and bool(self._going) and self.unanswered - self._left < self._left

    def answered(self, letters: int, group: Group) -> bool:
        """Note that letters of a group were answered. May those go out that waited for an answer, or for room?"""
        self._left -= letters
        if group.is_done:
            self._going.discard(group)
        return bool(self._unsent) or (self._has_waiting and not self._is_busy())

    def fail(self, group: Group, error: Exception) -> None:
        """End a group that has its numbers: no answer comes any more."""
        self._left -= group.left
        self._going.discard(group)
        group.fail(error)

    def fail_all(self, error: Exception) -> None:
        """End all groups that have no numbers yet."""
        for life in list(self.open):
            self.forget(life, error)
