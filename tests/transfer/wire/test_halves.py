"""One half of the protocol, and what its peer says, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rtmw.transfer.address import Address
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.records import TransferId, TransferState
from rtmw.transfer.wire import events as e
from rtmw.transfer.wire import frames as f
from rtmw.transfer.wire.frames import START, ZERO, Chain, Terms, value_of
from rtmw.transfer.wire.receiving import OTHER_PARTS, Receiving
from rtmw.transfer.wire.sending import Sending
from rtmw.transfer.wire.under_way import MOST_AHEAD

TERMS = Terms(block=64, piece=16, window=64, eager=24)
HEADER = Header(Address.parse("ingest"), Kind.BUF, 100)
FILE = replace(HEADER, kind=Kind.FILE)
PARTS = (f.Part(Kind.BUF, 100),)


def is_read(sending: Sending, number: int) -> bool:
    """Are bytes of this transfer asked for, when its receiver wants them?"""
    (write,) = sending.step(e.AddRun((e.Add(TransferId("a", 1, number), "gauge", HEADER, PARTS),)), 0.0)
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


def lane(*adds: e.Add) -> tuple[Sending, list[f.Frame]]:
    """Transfers of one lane are added; what is written, with all bytes that are asked for and answers of a peer."""
    sending, data = Sending(TERMS), bytes(100)
    events: list[e.SendingEvent] = [e.Opened(), e.Room(1000), e.AddRun(adds)]
    written: list[f.Frame] = []
    while events:
        for effect in sending.step(events.pop(0), 0.0):
            if isinstance(effect, e.ReadSource):
                events.append(e.SourceRead(effect.id, effect.position, data[: effect.size]))
            elif isinstance(effect, e.Write):
                written += f.Frames(of_sender=True).feed(effect.data)
    return sending, written


def file(number: int, size: int = 20) -> e.Add:
    return e.Add(TransferId("a", 1, number), "gauge", FILE, (f.Part(Kind.FILE, size, "x"),))


def letter(number: int) -> e.Add:
    return e.Add(TransferId("a", 1, number), "gauge", HEADER, PARTS, letter=bytes(100))


def whole(frames: list[f.Frame]) -> list[int]:
    """Sequences of what became whole, in order."""
    ids = {frame.ref: frame.id.sequence for frame in frames if isinstance(frame, f.Offer)}
    found: list[int] = []
    for frame in frames:
        if isinstance(frame, f.LetterRun):
            found += [id.sequence for id in frame.letters]
        elif isinstance(frame, f.Whole):
            found.append(ids[frame.ref])
    return found


def test_letters_and_files_become_whole_in_the_order_of_their_ids() -> None:
    assert whole(lane(file(1), letter(2), letter(3), file(4), file(5), letter(6))[1]) == [1, 2, 3, 4, 5, 6]


def test_what_waits_for_a_file_says_so_and_goes_on_when_the_file_is_put_off() -> None:
    sending, frames = lane(file(1, 100), letter(2), file(3), letter(4))
    assert whole(frames) == []
    first, ids = TransferId("a", 1, 1), [TransferId("a", 1, number) for number in range(1, 5)]
    assert [sending.waits_for(id) for id in ids] == [None, first, first, first]
    effects = sending.step(e.Heard([f.pack(f.Later(1, 1000, "no folder"))]), 0.0)
    assert e.ReadSource(ids[2], 0, 16) in effects
    assert sending.waits_for(ids[2]) is None
    assert sending.waits_for(ids[3]) == ids[2]


def test_of_a_lane_a_bounded_number_is_sent_ahead_of_its_front() -> None:
    frames = lane(*(file(number, 100) for number in range(1, 40)))[1]
    assert len(frames) == MOST_AHEAD


def test_fronts_of_other_lanes_find_room_beside_files_that_are_sent_ahead() -> None:
    lanes = [
        replace(file(10 * sender + number, 100), sender=f"{sender}") for sender in range(20) for number in range(9)
    ]
    senders = {frame.sender for frame in lane(*lanes)[1] if isinstance(frame, f.Offer)}
    assert senders == {f"{sender}" for sender in range(20)}


def test_letters_that_stand_in_line_are_taken_when_what_was_before_them_has_its_place() -> None:
    receiving, id = Receiving("a", TERMS), TransferId("a", 1, 1)
    chain = Chain(TERMS.block)
    chain.add(bytes(20))
    offer = f.Offer(1, id, 0, "gauge", FILE, (f.Part(Kind.FILE, 20, "x"),))
    letters = {TransferId("a", 1, number): bytes(100) for number in (2, 3)}
    run = f.LetterRun(2, value_of(letters), "gauge", HEADER, letters)
    frames = offer, f.Piece(1, 0, bytes(20)), f.Whole(1, chain.value), run
    receiving.step(e.Opened(), 0.0)
    assert receiving.step(e.Heard([b"".join(map(f.pack, frames))]), 0.0) == [e.Begin(offer)]
    assert receiving.step(e.Begun(id, START), 0.0)[-1] == e.Complete(id)
    assert receiving.step(e.Completed(id), 0.0) == [e.HandOver(id)]
    cancelled, other = letters
    assert receiving.step(e.Heard([f.pack(f.Cancel(cancelled))]), 0.0) == [e.Drop(cancelled, 1)]
    assert receiving.step(e.HandedOver(id), 0.0) == [e.TakeLetters("gauge", HEADER, {other: bytes(100)})]


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
    assert write == e.Write(f.pack(f.Report((id,), TransferState.REFUSED, OTHER_PARTS)))
    assert id not in receiving.arriving


def test_a_letter_that_was_given_back_after_a_cancel_came_too_late_can_be_cancelled() -> None:
    sending, id = Sending(TERMS), TransferId("a", 1, 1)
    sending.step(e.AddRun((e.Add(id, "gauge", HEADER, PARTS, was_sent=True),)), 0.0)
    sending.step(e.Opened(), 0.0)
    assert sending.step(e.Withdraw(id), 0.0) == [e.Write(f.pack(f.Cancel(id)))]
    sending.step(e.Heard([f.pack(f.Report((id,), TransferState.DELIVERED, ""))]), 0.0)
    assert sending.step(e.Withdraw(id), 0.0) == [], "its node would say the same"
    sending.step(e.Heard([f.pack(f.Report((id,), TransferState.SENT, ""))]), 0.0)
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
