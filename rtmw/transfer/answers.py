"""The ids that the core has given to what its programs have sent, by request: a program asks again for what was not
answered when its core ended.

Only the last requests of each producer are kept. Answers go to a process in the order of the log, and it sends no more
while 1,024 of its requests are without one (docs/transfer-queues.md), so what is asked again is among the last ones of
its producer.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from operator import attrgetter
from typing import Final, NamedTuple

from rtmw.transfer.address import Life
from rtmw.transfer.records import Request, TransferId

__all__ = ["MOST_ANSWERS", "Answers"]

MOST_ANSWERS: Final = 4096
"""Of one producer: at least so many requests are kept, and at most twice as many."""


class _Run(NamedTuple):
    """Requests one after the other, whose transfers have ids one after the other."""

    number: int
    end: int
    """The number behind the last one."""
    first: TransferId
    copies: int = 1
    """Of a run of one number: its transfers, whose ids follow one after the other."""

    def is_before_copy(self, other: _Run) -> bool:
        """Is the transfer of the other run the next copy of this request?"""
        is_same = self.number == other.number and self.end == other.end == self.number + 1
        return is_same and other.first == _behind(self.first, self.copies)


def _behind(id: TransferId, count: int) -> TransferId:
    return TransferId(id.node, id.incarnation, id.sequence + count)


_number_of: Final = attrgetter("number")


class Answers:
    """Of all producers that live. A producer's runs are in the order of their numbers; copies for `service/*` are one
    run of one number, or several, if their ids do not follow one after the other."""

    def __init__(self) -> None:
        self._runs: dict[Life, list[_Run]] = {}

    def add(self, request: Request, first: TransferId, count: int = 1) -> None:
        """The transfers of so many requests, of which this is the first; `first`: the id of its transfer."""
        runs, run = self._runs.setdefault(request.producer, []), _Run(request.number, request.number + count, first)
        if runs and runs[-1].is_before_copy(run):
            runs[-1] = runs[-1]._replace(copies=runs[-1].copies + 1)
        elif runs and runs[-1].number > run.number:
            insort(runs, run, key=_number_of)
        else:
            runs.append(run)
        if len(runs) > 2 * MOST_ANSWERS:
            del runs[:-MOST_ANSWERS]

    def find(self, request: Request) -> list[TransferId]:
        """The transfers of a request; none: it is not among the last ones, or was a COMMIT. The time does not grow with
        the number of transfers."""
        runs, number, ids = self._runs.get(request.producer, []), request.number, list[TransferId]()
        at = bisect_right(runs, number, key=_number_of) - 1
        while at >= 0 and number < runs[at].end:
            first = _behind(runs[at].first, number - runs[at].number)
            ids += (_behind(first, copy) for copy in range(runs[at].copies))
            at -= 1
        return sorted(ids)

    def forget(self, producer: Life) -> None:
        """It has ended, and asks for nothing again."""
        self._runs.pop(producer, None)
