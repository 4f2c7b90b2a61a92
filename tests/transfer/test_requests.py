"""What programs ask for is done once, also if a crash has kept the answer from them."""

from __future__ import annotations

from typing import cast

import pytest

from rtmw.transfer.address import Life
from rtmw.transfer.duplicates import MOST_GAPS, Requests
from rtmw.transfer.errors import TransferError
from rtmw.transfer.events import (
    BeginTransaction,
    CommitTransaction,
    ReceiverJoined,
    ReceiverLeft,
    SendTransfers,
)
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Forget, Request, TransferId, TransferState
from rtmw.transfer.state import MOST_ANSWERS, MOST_ENDS, Answers, Ending
from tests.transfer.memory import ME, NODE, Core, header, recovered
from tests.transfer.steps import first_of, ids_of, settle

YOU = Life(4712, 1000, 3)


def sent(core: Core, number: int, body: bytes = b"x") -> list[TransferId]:
    return ids_of(core, SendTransfers(header(body), (body,), request=Request(YOU, number)))


def test_a_send_that_is_asked_for_again_is_done_once_and_answered_the_same(core: Core) -> None:
    first = sent(core, 1)
    assert sent(core, 1) == first
    assert len(core.machine.state.items) == 1
    assert sent(core, 2) != first


def test_it_is_known_after_a_crash_and_from_a_checkpoint(core: Core) -> None:
    sent(core, 1)
    sent(core, 3)
    state = recovered(core.log, 16)
    assert Request(YOU, 1) in state.requests
    assert Request(YOU, 2) not in state.requests
    core.log.checkpoint(core.machine.state)
    state = recovered(core.log.trimmed(), 16)
    assert Request(YOU, 3) in state.requests
    assert Request(YOU, 2) not in state.requests


def test_a_send_that_was_taken_and_has_ended_meanwhile_is_not_done_again(core: Core) -> None:
    first = sent(core, 1)
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    first_of(core, "ingest", ME, txn)
    core.step(CommitTransaction(txn, Request(ME, 7)))
    assert sent(core, 1) == first
    assert not core.machine.state.items
    core.step(CommitTransaction(txn, Request(ME, 7)))  # it was committed, and says so again
    with pytest.raises((TransferError, ValueError)):
        core.step(CommitTransaction(txn, Request(ME, 8)))


def test_how_a_transfer_has_ended_is_known_after_a_crash_and_from_a_checkpoint(core: Core) -> None:
    (id,) = sent(core, 1)
    item = first_of(core, "ingest", ME)
    assert isinstance(item, Item)
    settle(core, item.lsn, TransferState.REFUSED, "not for us")
    ending = {id: Ending(TransferState.REFUSED, "not for us", Request(YOU, 1))}
    assert recovered(core.log, 16).ends == ending
    core.log.checkpoint(core.machine.state)
    assert recovered(core.log.trimmed(), 16).ends == ending


def test_of_too_many_ends_the_oldest_is_forgotten(core: Core) -> None:
    for number in range(1, MOST_ENDS + 3):
        sent(core, number)
        item = first_of(core, "ingest", ME)
        assert isinstance(item, Item)
        settle(core, item.lsn, TransferState.CONSUMED)
    assert len(core.machine.state.ends) == MOST_ENDS
    assert sent(core, 2) == []
    assert len(sent(core, 3)) == 1


def test_a_producer_that_has_ended_is_forgotten_once(core: Core) -> None:
    sent(core, 1)
    core.step(ReceiverLeft(YOU))
    core.step(ReceiverLeft(YOU))
    assert not core.machine.state.requests.marks
    assert [record for _, record in core.log.shown() if isinstance(record, Forget)] == [Forget(YOU)]
    assert not recovered(core.log, 16).requests.marks


def test_of_too_many_gaps_the_oldest_is_closed() -> None:
    requests = Requests()
    for number in range(2, 2 * MOST_GAPS + 6, 2):
        requests.add(Request(YOU, number))
    assert len(requests.marks[YOU].gaps) == MOST_GAPS
    assert Request(YOU, 1) in requests
    assert Request(YOU, 2 * MOST_GAPS + 1) not in requests


def test_a_letter_of_a_run_is_answered_by_its_number_without_a_look_at_the_other_letters(core: Core) -> None:
    (first,) = ids_of(core, SendTransfers(header(b"x"), [b"x"] * 9, "gauge", request=Request(YOU, 1)))
    ids = [TransferId(first.node, first.incarnation, first.sequence + n) for n in range(9)]
    assert [sent(core, number) for number in (1, 5, 9)] == [[ids[0]], [ids[4]], [ids[8]]]
    state = core.machine.state
    assert state.items.runs.letters == 9
    assert not state.items.made
    core.log.checkpoint(state)
    for log in (core.log, core.log.trimmed()):
        assert recovered(log, 16).asked_before(Request(YOU, 5)) == [ids[4]]


def test_all_copies_of_a_send_are_its_answer_in_the_order_of_their_receivers(core: Core) -> None:
    core.step(ReceiverJoined("ingest", YOU))
    event = SendTransfers(header(b"x", "ingest/*"), (b"x",), request=Request(YOU, 1))
    ids = ids_of(core, event)
    assert len(ids) == 2
    settle(core, cast("Item", first_of(core, "ingest", ME)).lsn, TransferState.CONSUMED)
    assert ids_of(core, event) == ids


def test_answers_of_a_producer_are_bounded_and_go_with_it(core: Core) -> None:
    answers, ids = Answers(), [TransferId(NODE, 5, number) for number in range(3 * MOST_ANSWERS)]
    for number, id in enumerate(ids, 1):
        answers.add(Request(YOU, number), id)
    kept = [number for number in range(1, len(ids) + 1) if answers.find(Request(YOU, number))]
    assert MOST_ANSWERS <= len(kept) <= 2 * MOST_ANSWERS
    assert kept[-1] == len(ids)
    assert answers.find(Request(YOU, len(ids))) == [ids[-1]]
    answers.forget(YOU)
    assert answers.find(Request(YOU, len(ids))) == []
    sent(core, 1)
    core.step(ReceiverLeft(YOU))
    assert core.machine.state.asked_before(Request(YOU, 1)) == []


def test_copies_for_many_receivers_leave_as_many_requests_to_be_answered() -> None:
    answers, copies = Answers(), 9
    for number in range(1, 2 * MOST_ANSWERS):
        for sequence in range(number * copies, (number + 1) * copies):
            answers.add(Request(YOU, number), TransferId(NODE, 5, sequence))
    found = answers.find(Request(YOU, MOST_ANSWERS))
    assert [id.sequence for id in found] == [*range(MOST_ANSWERS * copies, (MOST_ANSWERS + 1) * copies)]


def test_answers_that_come_late_have_their_place_by_number() -> None:
    answers = Answers()
    for number, count in ((1, 3), (7, 2), (4, 1), (6, 1)):
        answers.add(Request(YOU, number), TransferId(NODE, 5, 10 * number), count)
    found = {number: [id.sequence for id in answers.find(Request(YOU, number))] for number in range(10)}
    assert found == {0: [], 1: [10], 2: [11], 3: [12], 4: [40], 5: [], 6: [60], 7: [70], 8: [71], 9: []}
