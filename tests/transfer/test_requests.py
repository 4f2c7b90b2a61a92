"""What programs ask for is done once, also if a crash has kept the answer from them."""

from __future__ import annotations

from typing import cast

import pytest

from rtmw.transfer.address import Life
from rtmw.transfer.errors import TransferError
from rtmw.transfer.events import (
    BeginTransaction,
    CommitTransaction,
    ReceiverLeft,
    SendTransfer,
    SettleTransfer,
    TakeTransfer,
)
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Forget, Request, TransferId, TransferState
from rtmw.transfer.seen import MOST_GAPS, Requests
from rtmw.transfer.state import MOST_ENDS, Ending
from tests.transfer.memory import ME, Core, header, recovered

YOU = Life(4712, 1000, 3)


def sent(core: Core, number: int, body: bytes = b"x") -> object:
    return core.step(SendTransfer(header(body), body, request=Request(YOU, number)))


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
    core.step(TakeTransfer("ingest", ME, txn))
    core.step(CommitTransaction(txn, Request(ME, 7)))
    assert sent(core, 1) == first
    assert not core.machine.state.items
    core.step(CommitTransaction(txn, Request(ME, 7)))  # it was committed, and says so again
    with pytest.raises((TransferError, ValueError)):
        core.step(CommitTransaction(txn, Request(ME, 8)))


def test_how_a_transfer_has_ended_is_known_after_a_crash_and_from_a_checkpoint(core: Core) -> None:
    (id,) = cast("list[TransferId]", sent(core, 1))
    item = core.step(TakeTransfer("ingest", ME))
    assert isinstance(item, Item)
    core.step(SettleTransfer(item.lsn, TransferState.REFUSED, "not for us"))
    ending = {id: Ending(TransferState.REFUSED, "not for us", Request(YOU, 1))}
    assert recovered(core.log, 16).ends == ending
    core.log.checkpoint(core.machine.state)
    assert recovered(core.log.trimmed(), 16).ends == ending


def test_of_too_many_ends_the_oldest_is_forgotten(core: Core) -> None:
    for number in range(1, MOST_ENDS + 3):
        sent(core, number)
        item = core.step(TakeTransfer("ingest", ME))
        assert isinstance(item, Item)
        core.step(SettleTransfer(item.lsn, TransferState.CONSUMED))
    assert len(core.machine.state.ends) == MOST_ENDS
    assert sent(core, 2) == []
    assert len(cast("list[TransferId]", sent(core, 3))) == 1


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
