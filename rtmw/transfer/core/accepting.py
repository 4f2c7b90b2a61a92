"""Letters of one frame: in batches for the log, and with one answer for all whose ids follow one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rtmw.transfer.core.effects import Steps, tell
from rtmw.transfer.frames import Frame
from rtmw.transfer.header import Delivery
from rtmw.transfer.messages import AcceptedRun, Run
from rtmw.transfer.records import TransferId

__all__ = ["Accepted", "in_batches"]

LARGEST_BATCH: Final = 48 << 10
"""Bytes of letters that are logged in one batch, at most: it fits into the smallest segment of a log."""
MOST_LETTERS: Final = (1 << 16) - 1
"""In one answer."""
HEADS: Final = 512
"""Of a letter: as much as its record has beside the body, and more."""


def in_batches(run: Run) -> Iterator[Run]:
    """Each of which is one batch of the log. What no log keeps is one."""
    header, bodies = run
    if header.delivery is not Delivery.LOG:
        yield run
        return
    most = max(1, LARGEST_BATCH // (header.length + HEADS))
    for at in range(0, len(bodies), most):
        yield Run(header, bodies[at : at + most])


class Accepted:
    """The letters of a frame that were accepted and are not answered yet."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._count, self._logged = frame, 0, False
        self._id = TransferId("", 0, 0)

    def add(self, number: int, count: int, first: TransferId, logged: bool) -> Steps:
        """So many, from that with this number on; `first`: the id of the first. Others are answered before."""
        node, incarnation, sequence = self._id
        behind = self._frame.number + self._count, TransferId(node, incarnation, sequence + self._count), self._logged
        if (number, first, logged) == behind and self._count + count <= MOST_LETTERS:
            self._count += count
            return
        yield from self.tell()
        self._frame, self._count, self._id, self._logged = self._frame._replace(number=number), count, first, logged

    def tell(self) -> Steps:
        """The answer to those that were added."""
        if self._count:
            yield tell(self._frame, AcceptedRun(self._count, self._id), self._logged)
        self._count = 0
