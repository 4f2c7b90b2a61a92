"""Letters that go to the core together, and groups of them that wait for room in its queue, or for its answer.

Those of an event loop wait for the end of its turn. Those of threads go out at once, unless the core has enough to do
with groups before: then they wait for one of its answers, with what other threads send meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from rtmw.transfer.address import Life
from rtmw.transfer.client.group import MOST_LETTERS, MOST_TOGETHER, Group, Owner
from rtmw.transfer.messages import Message

__all__ = ["Gathering", "Place"]

ENOUGH: Final = 2
"""Groups without an answer: the core works on one, and the next one is there."""

Place: TypeAlias = tuple[Group, int]
"""Of a letter: its group, and its index there."""
Put: TypeAlias = Callable[[Life, int, Message, bool], bool]
"""A frame of a request, by its number; True: wait for room. False: there is none."""


class Gathering:
    """Of one line, under its lock."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self.open: dict[Life, Group] = {}
        """By sender: what goes out soon."""
        self._unsent: deque[Group] = deque()
        """Groups that have their numbers, and for which the queue had no room yet."""
        self._going: set[Group] = set()
        """Those that have their numbers, and no answer."""
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
        """Nothing is to be sent. A look without the lock, at what is so at one moment."""
        return not (self.open or self._unsent)

    def begin(self, owner: Owner) -> Group:
        most = MOST_LETTERS if len(self._going) < ENOUGH else MOST_TOGETHER
        group = self.open[owner._life] = Group(owner, owner._life, most)
        return group

    def number(self, numbers: dict[Life, int]) -> list[Group]:
        """All that was gathered goes out next. `numbers`: of the next request of each sender."""
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
        """False: the queue of the core has no room for all of it."""
        while self._unsent and self.put(self._unsent[0], waits):
            self._unsent.popleft()
        return not self._unsent

    def put(self, group: Group, waits: bool) -> bool:
        return all(self._put(group.life, number, message, waits) for number, message in group.requests())

    def leave_to_next_core(self) -> None:
        """It is asked whatever has no answer."""
        self._unsent.clear()

    def forget(self, life: Life, error: Exception) -> None:
        """Its sender is closed."""
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
        """So many of its letters. Is it time that those go out that waited for an answer, or for room?"""
        self._left -= letters
        if group.is_done:
            self._going.discard(group)
        return bool(self._unsent) or (self._has_waiting and not self._is_busy())

    def fail(self, group: Group, error: Exception) -> None:
        """It has its numbers, and no answer comes any more."""
        self._left -= group.left
        self._going.discard(group)
        group.fail(error)

    def fail_all(self, error: Exception) -> None:
        """Of what has no number yet."""
        for life in list(self.open):
            self.forget(life, error)
