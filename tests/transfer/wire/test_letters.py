"""Letters that go together, and what is said of several transfers in one frame."""

from __future__ import annotations

import pytest

from rtmw.transfer.address import Address
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.records import TransferId, TransferState
from rtmw.transfer.wire import events as e
from rtmw.transfer.wire import frames as f
from rtmw.transfer.wire.frames import MOST_OFFERS, value_of
from rtmw.transfer.wire.receiving import Receiving
from rtmw.transfer.wire.sending import Sending

FIVE, SIX = (Header(Address.parse("ingest"), Kind.BUF, size) for size in (5, 6))
FIRST, SECOND, THIRD, FOURTH = (TransferId("b", 1, sequence) for sequence in (1, 2, 5, 6))
LETTERS = {FIRST: b"first", THIRD: b"third"}


def letter(id: TransferId, body: bytes) -> e.Add:
    header = FIVE if len(body) == 5 else SIX
    return e.Add(id, "gauge", header, (f.Part(Kind.BUF, len(body)),), letter=body)


def said(effects: list[e.SendingEffect] | list[e.ReceivingEffect], *, of_sender: bool) -> list[f.Frame]:
    frames = f.Frames(of_sender=of_sender)
    return [frame for effect in effects if isinstance(effect, e.Write) for frame in frames.feed(effect.data)]


def sending(*adds: e.Add) -> list[f.Frame]:
    machine = Sending()
    machine.step(e.Opened(), 0.0)
    return said(machine.step(e.AddRun(adds), 0.0), of_sender=True)


def receiving() -> Receiving:
    machine = Receiving("b")
    machine.step(e.Opened(), 0.0)
    return machine


def run(letters: dict[TransferId, bytes], ref: int = 1) -> f.LetterRun:
    return f.LetterRun(ref, value_of(letters), "gauge", FIVE, letters)


def heard(machine: Receiving, *frames: f.Frame) -> list[e.ReceivingEffect]:
    return machine.step(e.Heard([b"".join(map(f.pack, frames))]), 0.0)


def test_letters_with_one_header_go_in_one_frame_and_keep_their_order() -> None:
    frames = sending(letter(FIRST, b"first"), letter(THIRD, b"third"), letter(FOURTH, b"second"))
    assert frames == [run(LETTERS), f.LetterRun(3, value_of({FOURTH: b"second"}), "gauge", SIX, {FOURTH: b"second"})]


def test_letters_leave_in_the_order_of_their_ids_since_that_is_the_order_of_sending() -> None:
    assert sending(letter(THIRD, b"third"), letter(FIRST, b"first")) == [run(LETTERS)]


def test_of_more_letters_than_may_be_on_their_way_the_rest_waits_for_answers() -> None:
    machine = Sending()
    machine.step(e.Opened(), 0.0)
    ids = [TransferId("b", 1, sequence) for sequence in range(MOST_OFFERS + 2)]
    (first,) = said(machine.step(e.AddRun(tuple(letter(id, b"12345") for id in ids)), 0.0), of_sender=True)
    assert isinstance(first, f.LetterRun)
    assert list(first.letters) == ids[:MOST_OFFERS]
    report = f.pack(f.Report(tuple(ids[:2]), TransferState.SENT, ""))
    (rest,) = said(machine.step(e.Heard([report]), 0.0), of_sender=True)
    assert isinstance(rest, f.LetterRun)
    assert (rest.ref, list(rest.letters)) == (MOST_OFFERS + 1, ids[MOST_OFFERS:])


def test_letters_that_come_are_taken_together_and_reported_together() -> None:
    machine = receiving()
    assert heard(machine, run(LETTERS)) == [e.TakeLetters("gauge", FIVE, LETTERS)]
    states = {FIRST: (TransferState.SENT, ""), SECOND: (TransferState.DEAD, "why"), THIRD: (TransferState.SENT, "")}
    assert said(machine.step(e.StatesFound(states), 0.0), of_sender=False) == [
        f.Report((FIRST, THIRD), TransferState.SENT, ""),
        f.Report((SECOND,), TransferState.DEAD, "why"),
    ]
    assert machine.arriving == {}


def test_all_letters_of_a_frame_that_is_not_what_was_sent_are_refused() -> None:
    frames = said(heard(receiving(), run(LETTERS)._replace(value=bytes(16))), of_sender=False)
    assert [(frame.ids, frame.state) for frame in frames if isinstance(frame, f.Report)] == [
        ((FIRST, THIRD), TransferState.REFUSED)
    ]


@pytest.mark.parametrize("is_letter", [True, False])
def test_what_is_put_off_after_it_was_offered_again_on_a_new_stream_is_offered_later(is_letter: bool) -> None:
    offer = f.Offer(1, FIRST, 0, "gauge", FIVE, (f.Part(Kind.BUF, 5),))
    value = bytes.fromhex("a1a7e5c1") * 4
    apart = (offer, f.Piece(1, 0, b"first"), f.Whole(1, value))
    machine, sent = receiving(), (run({FIRST: b"first"}),) if is_letter else apart
    heard(machine, *sent)
    if not is_letter:
        machine.arriving[FIRST].stage = type(machine.arriving[FIRST].stage).COMPLETING
    machine.step(e.Opened(), 0.0)
    assert heard(machine, *sent) == []
    (later,) = said(machine.step(e.PutOff(FIRST, "full"), 0.0), of_sender=False)
    assert later == f.Later(1, 1000, "full")


def test_a_transfer_that_is_dropped_for_a_stream_before_is_said_to_be_gone_on_that_stream_alone() -> None:
    machine = receiving()
    (drop,) = heard(machine, f.Cancel(FIRST))
    assert isinstance(drop, e.Drop)
    machine.step(e.Opened(), 0.0)
    assert machine.step(e.Dropped(FIRST, drop.stream), 0.0) == []
    (again,) = heard(machine, f.Cancel(FIRST))
    assert isinstance(again, e.Drop)
    gone = machine.step(e.Dropped(FIRST, again.stream), 0.0)
    assert said(gone, of_sender=False) == [f.Report((FIRST,), TransferState.CANCELLED, "")]


def test_ends_that_are_settled_together_are_each_settled() -> None:
    machine = receiving()
    assert heard(machine, f.Settled((FIRST, THIRD), TransferState.CONSUMED)) == [e.Settle((FIRST, THIRD))]


def other(sequence: int) -> TransferId:
    return TransferId("c", 1, sequence)


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ((run({other(1): b"first"}),), "a transfer of another node"),
        ((f.Settled((other(1), other(2)), TransferState.CONSUMED),), "a transfer of another node"),
        ((run(LETTERS), run({SECOND: b"twice"}, 2)), "the ref 2 after 2"),
        ((run(LETTERS), run({FIRST: b"first"}, 3)), "was offered before"),
        ((run({TransferId("b", 1, n): b"12345" for n in range(MOST_OFFERS + 1)}),), "offers without an answer"),
    ],
)
def test_letters_that_break_a_rule_end_the_stream(frames: tuple[f.Frame, ...], why: str) -> None:
    with pytest.raises(TransfersDamaged, match=why):
        heard(receiving(), *frames)
