"""What one peer can make a core keep, however many streams it opens and leaves."""

from __future__ import annotations

from rtmw.transfer.address import Address
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.records import TransferId
from rtmw.transfer.wire import events as e
from rtmw.transfer.wire import frames as f
from rtmw.transfer.wire.frames import MOST_ARRIVING, MOST_OFFERS
from rtmw.transfer.wire.receiving import Receiving

SIZE = 1000


def offer(ref: int, sequence: int) -> f.Offer:
    header = Header(Address.parse("ingest"), Kind.BUF, SIZE)
    return f.Offer(ref, TransferId("b", 1, sequence), 0, "gauge", header, (f.Part(Kind.BUF, SIZE),))


# Proves G201.
def test_transfers_that_are_begun_and_left_on_stream_after_stream_are_put_off_at_a_bound() -> None:
    receiving, number, answers = Receiving("b"), 0, f.Frames(of_sender=False)
    for _ in range(2 * MOST_ARRIVING // MOST_OFFERS):
        receiving.step(e.Opened(), 0.0)
        for ref in range(1, MOST_OFFERS):
            number += 1
            for effect in receiving.step(e.Heard([f.pack(offer(ref, number))]), 0.0):
                if isinstance(effect, e.Begin):
                    receiving.step(e.Begun(effect.offer.id, e.START), 0.0)
                elif isinstance(effect, e.Write):
                    (later,) = answers.feed(effect.data)
                    assert isinstance(later, f.Later)
                    assert later.cause == f"{MOST_ARRIVING} others are arriving"
            receiving.step(e.Heard([f.pack(f.Piece(ref, 0, b"x"))]), 0.0)
    assert len(receiving.arriving) == MOST_ARRIVING
    receiving.step(e.Opened(), 0.0)
    assert receiving.step(e.Heard([f.pack(offer(1, 1))]), 0.0) == [e.Rewind(TransferId("b", 1, 1))], "it goes on"
