"""Parts of transfers whose node has gone: for how long they are kept, and which go first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rtmw.transfer.carry.journal import Coming
from rtmw.transfer.carry.peer import Peer
from rtmw.transfer.limits import Limits
from rtmw.transfer.records import TransferId
from rtmw.transfer.wire.terms import Terms

__all__ = ["Left", "too_much"]


class Left(NamedTuple):
    """Transfers that one node has begun and does not send now."""

    peer: Peer
    id: TransferId
    coming: Coming

    @property
    def most(self) -> int:
        """Bytes that it has on the disk, at most."""
        return min(self.coming.offer.size, self.coming.mark.position + Terms().reach)


def too_much(parts: Iterable[Left], limits: Limits, wall_ns: int) -> Iterator[tuple[Left, str]]:
    """Those beyond a limit, with the reason."""
    size = 0
    for part in sorted(parts, key=lambda part: -part.coming.left_ns):
        size += part.most
        age = (wall_ns - part.coming.left_ns) / 1e9
        if age > limits.left_age:
            yield part, f"its node has not sent it for {age:.0f} s, and such parts are kept for {limits.left_age:.0f} s"
        elif size > limits.left_bytes:
            yield part, f"parts whose nodes have gone have more than {limits.left_bytes} bytes; the oldest go first"
