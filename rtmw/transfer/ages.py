"""When transfers were accepted, by their numbers, without a time in each of them.

Numbers ascend. About once a second a mark says which number was the last one at which time; a transfer with a larger
number came later. At most MARKS_MOST are kept: those go first that say least about the age of what lies around
them. So an age is right to about a second, or to a hundredth of itself.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from typing import Final, NamedTuple, cast

__all__ = ["EVERY_NS", "Ages"]

MARKS_MOST: Final = 512
EVERY_NS: Final = 1_000_000_000


class _Mark(NamedTuple):
    number: int
    """The last one at this time."""
    wall_ns: int
    """Since 1970."""


class Ages:
    """Of one machine."""

    def __init__(self) -> None:
        self._marks: list[_Mark] = []

    def note(self, number: int, wall_ns: int) -> None:
        """The last number at this time. Calls within a second of the last mark add none."""
        marks = self._marks
        if marks and number <= marks[-1].number:
            marks[-1] = _Mark(marks[-1].number, max(wall_ns, marks[-1].wall_ns))
        elif not marks or wall_ns >= marks[-1].wall_ns + EVERY_NS:
            marks.append(_Mark(number, wall_ns))
            if len(marks) > MARKS_MOST:
                self._thin()

    def _thin(self) -> None:
        marks, now = self._marks, self._marks[-1].wall_ns
        spans = zip(marks, marks[2:], strict=False)
        lost = [(after.wall_ns - before.wall_ns) / (now - before.wall_ns + EVERY_NS) for before, after in spans]
        del marks[1 + lost.index(min(lost))]

    def since(self, number: int) -> int:
        """When the transfer with this number was accepted, or a little before. Of one that is older than all marks, the
        time of the first mark; 0: there is none."""
        at = bisect_left(self._marks, (number,)) - 1
        return self._marks[max(at, 0)].wall_ns if self._marks else 0

    def __len__(self) -> int:
        return len(self._marks)

    def pack(self) -> bytes:
        return json.dumps(self._marks).encode()

    @classmethod
    def unpack(cls, data: bytes, last: int) -> Ages:
        """As `pack` wrote them, up to the last number that there is. What cannot be read says nothing: an age is for
        people."""
        ages = cls()
        try:
            for number, wall_ns in cast("list[list[int]]", json.loads(data)):
                if number <= last:
                    ages.note(int(number), int(wall_ns))
        except (ValueError, TypeError, RecursionError):
            pass
        return ages
