"""Letters of another node that come whole, many at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from rtmw.transfer.carry.desk import Desk, Work
from rtmw.transfer.carry.half import Turns, log
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.header import Header
from rtmw.transfer.records import TransferId
from rtmw.transfer.wire import events as e
from rtmw.transfer.wire.frames import Raw

__all__ = ["Letters", "header_here"]


@lru_cache(maxsize=1024)
def header_here(header: Header) -> Header:
    """As it is at this node; remembered, because senders repeat themselves."""
    return replace(header, to=replace(header.to, node=""))


class Letters:
    """Of the peer `node`. `turns`: of all that comes from it. `guard`: work for a transfer that may be refused, or put
    off. `told`: the peer is told how a transfer is."""

    def __init__(
        self,
        node: str,
        desk: Desk,
        turns: Turns,
        guard: Callable[[TransferId, Work], Work],
        told: Callable[[TransferId], None],
    ) -> None:
        self._node, self._desk, self._turns, self._guard, self._told = node, desk, turns, guard, told
        self.refused_raw = 0
        self._alone = 0
        """Letters that go one by one, and have no place in their queue yet: those behind do not overtake them."""

    def take(self, run: e.TakeLetters) -> None:
        """In one batch of the log, but for those that have come before. If that cannot be, one by one."""
        header, turns = header_here(run.header), self._turns
        new = {id: body for id, body in run.letters.items() if id not in turns and self._desk.look(id) is None}
        if new and not self._alone and self._desk.arrive_run(header, run.sender, new):
            turns.add_run(new.keys(), self._desk.durable())  # until then nothing else is done with them
        else:
            new = {}
        for id, body in run.letters.items():
            if id not in new:
                self._alone += 1
                turns.add(id, self._guard(id, self._take_one(header, run.sender, id, body)))

    async def _take_one(self, header: Header, sender: str, id: TransferId, body: bytes) -> None:
        try:
            if self._desk.look(id) is None:
                await self._desk.arrive(header, body, sender, id)
        finally:
            self._alone -= 1
        await self._desk.durable()
        self._told(id)

    def take_raw(self, raw: Raw) -> None:
        try:
            self._desk.take_raw(header_here(raw.header), raw.body, raw.sender)
        except TransferRefused as error:
            self.refused_raw += 1
            if self.refused_raw == 1:
                log.warning("a SMALL_RAW of node %s is lost; more are counted only: %s", self._node, error)
