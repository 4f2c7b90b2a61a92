"""`send(id=)`: with one id a sender sends once, over crashes, checkpoints and rollbacks."""

from __future__ import annotations

import pytest

from rtmw.transfer.address import Life
from rtmw.transfer.duplicates import MOST_ONCE, Ending, Once, pack_once
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.events import (
    AbortTransaction,
    BeginTransaction,
    CommitTransaction,
    ReceiverJoined,
    SendTransfers,
)
from rtmw.transfer.header import Kind
from rtmw.transfer.queues import Item
from rtmw.transfer.records import Request, TransferId, TransferState
from tests.transfer.memory import ME, Core, header, recovered
from tests.transfer.steps import OTHER, first_of, ids_of, settle

YOU = Life(4712, 1000, 3)
Ids = list[TransferId]


def once(id: str | int = "a", body: bytes = b"x", to: str = "ingest") -> bytes:
    return pack_once(id, to, Kind.BUF, body)


def send(core: Core, number: int, body: bytes = b"x", txn: int = 0, to: str = "ingest") -> Ids:
    request = Request(YOU, 0 if txn else number)
    event = SendTransfers(header(body, to), (body,), "gauge", txn, (), request, once(body=body, to=to))
    return ids_of(core, event)


def test_the_same_id_is_sent_once_and_answered_the_same(core: Core) -> None:
    first = send(core, 1)
    assert send(core, 2) == first
    assert len(core.state.items) == 1


def test_another_body_or_address_under_an_id_is_refused(core: Core) -> None:
    send(core, 1)
    with pytest.raises(TransferRefused, match=r"'gauge' has sent something else with id='a'"):
        send(core, 2, b"y")
    with pytest.raises(TransferRefused, match="something else"):
        send(core, 3, to="other")
    other = SendTransfers(header(b"y"), (b"y",), "another sender", 0, (), Request(YOU, 4), once(body=b"y"))
    assert ids_of(core, other) != []


# Proves G178.
def test_an_id_is_known_after_a_crash_and_from_a_checkpoint_with_its_end(core: Core) -> None:
    (id,) = send(core, 1)
    assert recovered(core.log, 16).once.entries[("gauge", once()[16:])].ids == {id: None}
    item = first_of(core, "ingest", ME)
    assert isinstance(item, Item)
    settle(core, item.lsn, TransferState.CONSUMED)
    core.log.checkpoint(core.machine.state)
    for log in (core.log, core.log.trimmed()):
        known = recovered(log, 16).once.entries[("gauge", once()[16:])]
        assert known.ids == {id: Ending(TransferState.CONSUMED, "", Request(YOU, 1))}
    assert send(core, 2) == [id]
    assert not core.state.items


# Proves G178.
def test_an_id_that_was_undone_never_was(core: Core) -> None:
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    first = send(core, 0, txn=txn)
    assert send(core, 0, txn=txn) == first
    with pytest.raises(TransferRefused, match="transaction 1, which is open"):
        send(core, 1)
    core.step(AbortTransaction(txn))
    assert not core.state.once.entries
    assert send(core, 2) != []
    assert len(core.state.items) == 1


def test_an_id_of_a_transaction_counts_when_that_was_committed(core: Core) -> None:
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    first = send(core, 0, txn=txn)
    core.step(CommitTransaction(txn))
    assert send(core, 1) == first


def test_an_id_for_each_receiver_is_answered_with_all_copies(core: Core) -> None:
    core.step(ReceiverJoined("ingest", OTHER))
    first = send(core, 1, to="ingest/*")
    assert len(first) == 2
    core.step(ReceiverJoined("ingest", YOU))
    assert send(core, 2, to="ingest/*") == first


def test_of_too_many_ids_the_oldest_is_forgotten() -> None:
    known = Once()
    for number in range(MOST_ONCE + 1):
        known.add("gauge", once(number), TransferId("plant", 1, number))
    assert len(known.entries) == MOST_ONCE
    assert known.find("gauge", once(0)) is None
    assert known.find("gauge", once(1)) is not None
