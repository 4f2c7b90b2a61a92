"""Letters of one frame: in batches for the log, and with one answer for all whose ids follow one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rtmw.transfer.core.effects import Steps, tell
from rtmw.transfer.frames import Frame
from rtmw.transfer.header import Delivery, Header, is_alike, resized
from rtmw.transfer.messages import AcceptedRun, Run
from rtmw.transfer.records import TransferId
from rtmw.transfer.runs import is_plain

__all__ = ["Accepted", "Letters", "in_batches"]

LARGEST_BATCH: Final = 52 << 10
"""Bytes of records that are logged in one batch, at most: the smallest segment of a log has so much room."""
MOST_LETTERS: Final = (1 << 16) - 1
"""In one answer."""
_HEADS: Final = 32 + 7 + 101
"""Of a letter in the log: the head of its record, what fills it up, and its ENQUEUE without body, header and names."""


class Letters(NamedTuple):
    """Letters that follow each other, to be enqueued in one step."""

    header: Header
    """Of the first; those of the others differ in the length alone."""
    bodies: Sequence[bytes]


def in_batches(runs: Sequence[Run], *names: str) -> Iterator[Letters]:
    """The letters of a frame. What is logged is one batch of the log, and each record has these names."""
    for letters in _joined(runs) if len(runs) > 1 else (Letters(*runs[0]),):
        header, bodies = letters
        if header.delivery is not Delivery.LOG:
            yield letters
            continue
        largest = header.length if len(runs) == 1 else max(map(len, bodies))
        most = max(1, LARGEST_BATCH // (largest + _beside_body(header, names)))
        if len(bodies) <= most:
            yield letters
            continue
        for at in range(0, len(bodies), most):
            part = bodies[at : at + most]
            yield Letters(resized(header, len(part[0])), part)


def _beside_body(header: Header, names: Iterable[str]) -> int:
    """Bytes that a letter takes in the log beside its body, at most."""
    return _HEADS + len(header.pack()) + sum(len(name.encode()) for name in names)


def _joined(runs: Iterable[Run]) -> Iterator[Letters]:
    """Runs that go the common way, and whose headers differ in the length alone, are one."""
    first, bodies, joins = None, list[bytes](), False
    for header, more in runs:
        is_common = is_plain(header)
        if first is not None and joins and is_common and is_alike(first, header):
            bodies += more
            continue
        if first is not None:
            yield Letters(first, bodies)
        first, bodies, joins = header, list(more), is_common
    if first is not None:
        yield Letters(first, bodies)


class Accepted:
    """The letters of a frame that were accepted and are not answered yet."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._count, self._logged = frame, 0, False
        self._id = TransferId("", 0, 0)

    def add(self, number: int, count: int, first: TransferId, logged: bool) -> Steps:
        """So many, from that with this number on; `first`: the id of the first. Others are answered before."""
        if self._count:
            node, incarnation, sequence = self._id
            id = TransferId(node, incarnation, sequence + self._count)
            behind = self._frame.number + self._count, id, self._logged
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
