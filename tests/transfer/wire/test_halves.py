"""One half of the protocol, and what its peer says, step by step."""

from __future__ import annotations

import pytest

from rtmw.transfer.address import Address
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.records import TransferId, TransferState
from rtmw.transfer.wire import events as e
from rtmw.transfer.wire import frames as f
from rtmw.transfer.wire.receiving import OTHER_PARTS, Receiving
from rtmw.transfer.wire.sending import Sending
from rtmw.transfer.wire.terms import START, ZERO, Chain, Terms

TERMS = Terms(block=64, piece=16, window=64, eager=24)
HEADER = Header(Address.parse("ingest"), Kind.BUF, 100)
PARTS = (f.Part(Kind.BUF, 100),)


def is_read(sending: Sending, number: int) -> bool:
    """Are bytes of this transfer asked for, when its receiver wants them?"""
    (write,) = sending.step(e.Add(TransferId("a", 1, number), "gauge", HEADER, PARTS), 0.0)
    assert isinstance(write, e.Write)
    (offer,) = f.Frames(of_sender=True).feed(write.data)
    assert isinstance(offer, f.Offer)
    effects = sending.step(e.Heard([f.pack(f.Go(offer.ref, 0, 128, ZERO))]), 0.0)
    return any(isinstance(effect, e.ReadSource) for effect in effects)


def test_what_is_read_of_a_cancelled_transfer_leaves_the_room_of_the_stream_to_others() -> None:
    sending = Sending(TERMS)
    sending.step(e.Opened(), 0.0)
    sending.step(e.Room(2 * TERMS.piece), 0.0)
    for number in range(1, 5):
        id = TransferId("a", 1, number)
        assert is_read(sending, number), f"transfer {number}"
        sending.step(e.Withdraw(id), 0.0)
        assert sending.step(e.SourceRead(id, 0, bytes(TERMS.piece)), 0.0) == [], "nobody wants it"


def test_a_read_that_fails_because_its_transfer_was_put_off_meanwhile_fails_nothing() -> None:
    sending, id = Sending(TERMS), TransferId("a", 1, 1)
    sending.step(e.Opened(), 0.0)
    sending.step(e.Room(2 * TERMS.piece), 0.0)
    assert is_read(sending, 1)
    put_off = sending.step(e.Heard([f.pack(f.Later(1, 1000, "the disk is full"))]), 0.0)
    assert e.Delayed(id, "the disk is full") in put_off, "its source is closed then"
    assert sending.step(e.Unreadable(id, "Bad file descriptor"), 0.0) == [e.SetTimer(1.0)]
    (write,) = sending.step(e.Timer(), 1.0)
    assert isinstance(write, e.Write)
    (offer,) = f.Frames(of_sender=True).feed(write.data)
    assert isinstance(offer, f.Offer)
    effects = sending.step(e.Heard([f.pack(f.Go(offer.ref, 0, 128, ZERO))]), 1.0)
    assert e.ReadSource(id, 0, TERMS.piece) in effects
    assert any(isinstance(one, e.Failed) for one in sending.step(e.Unreadable(id, "it was changed"), 1.0))


def test_a_piece_before_a_frame_that_breaks_a_rule_is_stored_since_it_counts_as_received() -> None:
    receiving, id = Receiving("a", TERMS), TransferId("a", 1, 1)
    receiving.step(e.Opened(), 0.0)
    receiving.step(e.Heard([f.pack(f.Offer(1, id, 0, "gauge", HEADER, PARTS))]), 0.0)
    receiving.step(e.Begun(id, START), 0.0)
    with pytest.raises(TransfersDamaged):
        receiving.step(e.Heard([f.pack(f.Piece(1, 0, b"x" * 16)) + bytes(12)]), 0.0)
    assert e.Store(id, 0, b"x" * 16) in receiving.step(e.Lost(), 0.0)
    assert receiving.arriving[id].received == 16


def test_what_is_offered_anew_with_other_sizes_is_refused_and_nothing_of_it_stays() -> None:
    receiving, id = Receiving("a", TERMS), TransferId("a", 1, 1)
    receiving.step(e.Opened(), 0.0)
    receiving.step(e.Heard([f.pack(f.Offer(1, id, 0, "gauge", HEADER, PARTS))]), 0.0)
    receiving.step(e.Begun(id, START), 0.0)
    receiving.step(e.Heard([f.pack(f.Piece(1, 0, bytes(64)))]), 0.0)
    receiving.step(e.Opened(), 0.0)
    shorter = f.Offer(1, id, 0, "gauge", HEADER, (f.Part(Kind.BUF, 40),))
    drop, write = receiving.step(e.Heard([f.pack(shorter)]), 0.0)
    assert drop == e.Drop(id, 2)
    assert write == e.Write(f.pack(f.Report(id, TransferState.REFUSED, OTHER_PARTS)))
    assert id not in receiving.arriving


def test_a_letter_that_was_given_back_after_a_cancel_came_too_late_can_be_cancelled() -> None:
    sending, id = Sending(TERMS), TransferId("a", 1, 1)
    sending.step(e.Add(id, "gauge", HEADER, PARTS, was_sent=True), 0.0)
    sending.step(e.Opened(), 0.0)
    assert sending.step(e.Withdraw(id), 0.0) == [e.Write(f.pack(f.Cancel(id)))]
    sending.step(e.Heard([f.pack(f.Report(id, TransferState.DELIVERED, ""))]), 0.0)
    assert sending.step(e.Withdraw(id), 0.0) == [], "its node would say the same"
    sending.step(e.Heard([f.pack(f.Report(id, TransferState.SENT, ""))]), 0.0)
    assert sending.step(e.Withdraw(id), 0.0) == [e.Write(f.pack(f.Cancel(id)))]


def test_what_is_offered_anew_while_it_is_completed_and_is_put_off_then_is_offered_again() -> None:
    receiving, id, data = Receiving("a", TERMS), TransferId("a", 1, 1), bytes(100)
    chain = Chain(TERMS.block)
    chain.add(data)
    receiving.step(e.Opened(), 0.0)
    receiving.step(e.Heard([f.pack(f.Offer(1, id, 0, "gauge", HEADER, PARTS))]), 0.0)
    receiving.step(e.Begun(id, START), 0.0)
    whole = f.pack(f.Piece(1, 0, data)) + f.pack(f.Whole(1, chain.value))
    assert receiving.step(e.Heard([whole]), 0.0)[-1] == e.Complete(id)
    receiving.step(e.Opened(), 0.0)
    assert receiving.step(e.Heard([f.pack(f.Offer(1, id, 0, "gauge", HEADER, PARTS))]), 0.0) == []
    later = f.pack(f.Later(1, round(TERMS.rest * 1000), "the disk is full"))
    assert receiving.step(e.PutOff(id, "the disk is full"), 0.0) == [e.Write(later)]
