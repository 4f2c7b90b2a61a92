"""The order in which transfers come whole at their receiver: that of sending, within a lane.

A lane has the transfers of one sender to one service, of one priority and class. Its first transfer that has not gone
to the peer holds the later ones back. What cannot be taken now (LATER) holds back none: it is passed over.

Only the front of a lane sends what makes a transfer whole (a letter, or WHOLE). The peer works in the order of these
frames, so nothing waits for an answer of the peer. The bytes of a few transfers behind the front are sent meanwhile,
if they are no letters.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import Final, NamedTuple

from rtmw.transfer.header import Delivery, Header
from rtmw.transfer.wire.outgoing import Outgoing

__all__ = ["MOST_AHEAD", "MOST_FILES", "Lane", "LaneKey", "lane_key"]

MOST_AHEAD: Final = 16
"""Transfers of a lane that are sent at a time, the front included."""
MOST_FILES: Final = 128
"""Transfers without an answer for which the peer opens files. Those behind a front stop at half of this, so that a
front finds room."""

_LEAST: Final = 64
"""Entries up to which a lane is not rid of those that count not."""


class LaneKey(NamedTuple):
    """Which lane."""

    sender: str
    service: str
    priority: int
    is_logged: bool


def lane_key(sender: str, header: Header) -> LaneKey:
    return LaneKey(sender, header.to.service, header.priority, header.delivery is Delivery.LOG)


class Lane:
    """One lane of a sending half, on one stream."""

    def __init__(self) -> None:
        self._queued: list[tuple[int, int, int, Outgoing]] = []
        """A heap of those that were not offered. Without `is_queued`, an entry counts not."""
        self._ahead: list[tuple[int, int, int, Outgoing]] = []
        """The same of others that hold back (`Outgoing.holds_back`)."""
        self._entries, self._most = 0, _LEAST

    def queue(self, one: Outgoing) -> None:
        """It waits to be offered."""
        heapq.heappush(self._queued, self._entry(one))

    def hold(self, one: Outgoing) -> None:
        """Later transfers wait for it while it holds back."""
        if len(self._ahead) > self._most:
            self._ahead = sorted(entry for entry in self._ahead if entry[-1].holds_back)
            self._most = max(_LEAST, 2 * len(self._ahead))
        heapq.heappush(self._ahead, self._entry(one))

    def _entry(self, one: Outgoing) -> tuple[int, int, int, Outgoing]:
        self._entries += 1
        return one.add.id.incarnation, one.add.id.sequence, self._entries, one

    @property
    def next(self) -> Outgoing | None:
        """The first transfer that waits to be offered."""
        while self._queued and not self._queued[0][-1].is_queued:
            heapq.heappop(self._queued)
        return self._queued[0][-1] if self._queued else None

    @property
    def front(self) -> Outgoing | None:
        """The transfer for which all later ones wait; None: there is none."""
        while self._ahead and not self._ahead[0][-1].holds_back:
            heapq.heappop(self._ahead)
        if self.next is None or (self._ahead and self._ahead[0] < self._queued[0]):
            return self._ahead[0][-1] if self._ahead else None
        return self._queued[0][-1]

    @property
    def has_many_ahead(self) -> bool:
        """So many hold back that no other one is offered behind them."""
        holding = (entry for entry in self._ahead if entry[-1].holds_back)
        return sum(1 for _ in islice(holding, MOST_AHEAD)) == MOST_AHEAD
