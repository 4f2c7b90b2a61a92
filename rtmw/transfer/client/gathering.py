"""Letters that wait for the end of the turn of their event loop, and groups that wait for room in the core's queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from rtmw.transfer.address import Life
from rtmw.transfer.client.group import Group, Owner
from rtmw.transfer.messages import Message

__all__ = ["Gathering", "Place"]

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
        self.left = 0
        """Letters without an answer."""

    def begin(self, owner: Owner) -> Group:
        group = self.open[owner._life] = Group(owner, owner._life)
        return group

    def number(self, numbers: dict[Life, int]) -> list[Group]:
        """All that was gathered goes out next. `numbers`: of the next request of each sender."""
        groups = list(self.open.values())
        self.open.clear()
        for group in groups:
            numbers[group.life] = group.number_from(numbers[group.life])
        self._unsent += groups
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
            self.fail(group, error)

    def fail(self, group: Group, error: Exception) -> None:
        self.left -= group.left
        group.fail(error)

    def fail_all(self, error: Exception) -> None:
        """Of what has no number yet."""
        for life in list(self.open):
            self.forget(life, error)
