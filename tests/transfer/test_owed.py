"""T8 between nodes: how transfers of other nodes have ended is kept until these know it, over any crash."""

from __future__ import annotations

import pytest

from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.events import (
    BeginTransaction,
    CommitTransaction,
    EndsConfirmed,
    Now,
    ReceiverJoined,
    SendTransfers,
    Tick,
)
from rtmw.transfer.records import Settled, TransferId, TransferState
from rtmw.transfer.recovery import pack_state, redo
from tests.transfer.memory import Core, header
from tests.transfer.steps import OTHER, SECOND, send, settle, take

ID = TransferId("station", 7, 1)
CONSUMED = (TransferState.CONSUMED, "")


def arrive(core: Core, id: TransferId = ID, to: str = "ingest") -> None:
    core.step(SendTransfers(header(b"x", to), (b"x",), "gauge", ids=(id,)))


def test_an_end_is_owed_from_its_own_record_on_until_its_node_knows_it(core: Core) -> None:
    arrive(core)
    assert core.state.owed == {}
    settle(core, take(core).lsn, TransferState.REFUSED, "no such order")
    assert core.state.owed == {ID: (TransferState.REFUSED, "no such order")}
    core.log.checkpoint(core.state)
    assert Core(core.log).state.owed == core.state.owed
    core = Core(core.log.trimmed())
    core.step(EndsConfirmed([ID]))
    core.step(EndsConfirmed([ID]))  # said again, since the first one may have been lost
    assert core.state.owed == {}
    assert Core(core.log).state.owed == {}
    assert [record for _, record in core.log.shown() if isinstance(record, Settled)] == [Settled(ID)]


def test_what_a_transaction_consumes_is_owed_by_its_commit(core: Core) -> None:
    arrive(core)
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    take(core, txn=txn)
    assert core.state.owed == {}
    core.step(CommitTransaction(txn))
    assert core.state.owed == {ID: CONSUMED}


def test_of_copies_the_end_is_consumed_only_if_all_were_and_is_known_when_none_is_left(core: Core) -> None:
    core.step(ReceiverJoined("ingest", OTHER))
    arrive(core, to="ingest/*")
    assert len(core.state.numbers(ID)) == 2
    settle(core, take(core, OTHER).lsn, TransferState.REFUSED, "not here")
    core.step(EndsConfirmed([ID]))
    assert ID in core.state.owed, "one copy is there still"
    settle(core, take(core).lsn, TransferState.CONSUMED)
    assert core.state.owed == {ID: (TransferState.REFUSED, "not here")}
    assert core.state.foreign == {}


def test_nothing_is_owed_for_what_began_here(core: Core) -> None:
    send(core, b"x")
    settle(core, take(core).lsn, TransferState.CONSUMED)
    assert core.state.owed == {}


def test_a_settled_of_an_end_that_nobody_waits_for_is_damage(core: Core) -> None:
    core.log.append((Settled(ID),))
    with pytest.raises(TransfersDamaged, match="SETTLED of station:7:1"):
        redo(core.log.records())


def test_a_checkpoint_with_what_is_owed_says_what_the_records_say(core: Core) -> None:
    for sequence in range(1, 4):
        arrive(core, TransferId("station", 7, sequence))
        settle(core, take(core).lsn, TransferState.CONSUMED)
    core.step(EndsConfirmed([TransferId("station", 7, 2)]))
    core.log.checkpoint(core.state)
    again = redo(core.log.records()).state
    assert again is not None
    assert pack_state(again) == pack_state(core.state)
    assert list(again.owed) == [TransferId("station", 7, 1), TransferId("station", 7, 3)]


def test_a_report_of_another_node_may_follow_any_state_that_is_no_end(core: Core) -> None:
    """Those between may have been lost."""
    send(core, b"x", "ingest@centre")
    (item,) = core.state.items.values()
    for state in (TransferState.DELIVERED, TransferState.SENT, TransferState.DEAD, TransferState.CANCELLED):
        settle(core, item.lsn, state, "says centre")
    assert core.state.items == {}


def test_what_another_node_may_have_does_not_expire_here(core: Core) -> None:
    send(core, b"x", "ingest@centre", lifetime_ns=SECOND)
    (item,) = core.state.items.values()
    core.machine.carried.add(item.lsn)
    core.now = Now(0, core.now.wall_ns + 2 * SECOND)
    assert core.step(Tick()) == [item.lsn]
    assert item.state is TransferState.ACCEPTED
    core.machine.carried.clear()
    core.step(Tick())
    assert core.state.items == {}
