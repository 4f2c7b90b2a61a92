"""Which parts of transfers whose nodes have gone are freed."""

from __future__ import annotations

from typing import cast

from rtmw.transfer.carry.journal import Coming
from rtmw.transfer.carry.peer import Peer
from rtmw.transfer.core.peers import Left, too_much
from rtmw.transfer.limits import Limits
from rtmw.transfer.records import TransferId
from rtmw.transfer.wire.frames import Mark, Offer
from tests.transfer.wire.written import WRITTEN

OFFER = next(frame for frame in WRITTEN if isinstance(frame, Offer))
MIB = 1 << 20
NOBODY = cast(Peer, None)


def left(number: int, seconds: float, size: int, durable: int = 0) -> Left:
    """A part whose node has gone so many seconds before the time 1,000."""
    offer = OFFER._replace(parts=(OFFER.parts[0]._replace(length=size),))
    coming = Coming(offer, "", Mark(durable), left_ns=round((1000 - seconds) * 1e9))
    return Left(NOBODY, TransferId("plant", 5, number), coming)


def freed(*parts: Left, **limits: float) -> dict[int, str]:
    chosen = Limits(**{"left_age": 100.0, "left_bytes": 100 * MIB, **limits})  # type: ignore[arg-type]
    return {part.id.sequence: cause for part, cause in too_much(parts, chosen, round(1000 * 1e9))}


def test_what_was_left_for_too_long_goes_and_the_cause_says_for_how_long() -> None:
    assert freed(left(1, 99, MIB), left(2, 101, MIB)) == {
        2: "its node has not sent it for 101 s, and such parts are kept for 100 s"
    }


# Proves G203.
def test_of_too_many_bytes_those_go_whose_nodes_have_been_gone_for_longest() -> None:
    parts = [left(number, number, 40 * MIB, 40 * MIB) for number in (4, 2, 3, 1)]
    assert set(freed(*parts)) == {3, 4}


def test_a_part_counts_with_what_may_have_come_of_it_and_not_with_all_that_was_offered() -> None:
    assert not freed(*(left(number, 1, 1 << 40, 8 * MIB) for number in range(4)))
    assert len(freed(*(left(number, 1, 1 << 40, 16 * MIB) for number in range(4)))) == 1
