"""Queues, receivers and exactly-once, step by step and without I/O."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from rtmw.transfer.address import Life
from rtmw.transfer.errors import TransactionAborted, TransferRefused
from rtmw.transfer.events import (
    Aborted,
    Append,
    BeginTransaction,
    CommitTransaction,
    Moved,
    ReceiverJoined,
    ReceiverLeft,
    RollBack,
    SendTransfers,
    SetSavepoint,
    Tick,
)
from rtmw.transfer.queues import NEXT
from rtmw.transfer.records import AbortCause, TransferId, TransferState
from rtmw.transfer.store import queue_rows, transaction_rows
from tests.transfer.memory import ME, Core, header
from tests.transfer.steps import OTHER, SECOND, ids_of, later, moved, nothing, send, settle, take

# ---- states ----


def test_priority_goes_first_and_within_it_the_order_of_sending(core: Core) -> None:
    for body, priority in ((b"a", 0), (b"b", 3), (b"c", 0), (b"d", 3)):
        send(core, body, priority=priority)
    assert [take(core).record.body for _ in range(4)] == [b"b", b"d", b"a", b"c"]


def test_what_a_receiver_gives_back_comes_again_in_its_place_and_is_a_dead_letter_after_n(core: Core) -> None:
    send(core, b"poison")
    send(core, b"good")
    for state in (TransferState.ACCEPTED, TransferState.DEAD):
        item = take(core)
        assert item.record.body == b"poison"
        settle(core, item.lsn, TransferState.ACCEPTED, "it raised", by=ME)
        assert item.state is state
    assert take(core).record.body == b"good"
    assert "delivered 2 times" in item.cause
    settle(core, item.lsn, TransferState.ACCEPTED)
    assert item.state is TransferState.ACCEPTED, "tried again"
    assert take(core).deliveries == 1


@pytest.mark.parametrize("state", [TransferState.CONSUMED, TransferState.REFUSED])
def test_what_a_receiver_is_done_with_is_gone(core: Core, state: TransferState) -> None:
    send(core, b"a")
    settle(core, take(core).lsn, state, by=ME)
    assert not core.state.items
    assert core.state.counts == {state: 1}


def test_a_state_that_cannot_follow_is_refused_and_says_what_it_is(core: Core) -> None:
    send(core, b"a")
    item = take(core)
    with pytest.raises(TransferRefused, match="is DELIVERED, and cannot become CANCELLED"):
        settle(core, item.lsn, TransferState.CANCELLED)
    with pytest.raises(TransferRefused, match=f"{ME} has taken it"):
        settle(core, item.lsn, TransferState.CONSUMED, by=OTHER)
    with pytest.raises(TransferRefused, match="there is no transfer 5"):
        settle(core, 5, TransferState.CONSUMED)


def test_each_state_is_reached_and_only_ends_have_nothing_after_them() -> None:
    after = {state for states in NEXT.values() for state in states}
    assert after == set(TransferState) - {TransferState.HELD, TransferState.UNKNOWN}
    ends = {TransferState.CONSUMED, TransferState.EXPIRED, TransferState.REFUSED, TransferState.CANCELLED}
    assert set(NEXT) == set(TransferState) - ends - {TransferState.HELD, TransferState.UNKNOWN}


def test_the_diagram_of_transfers_has_the_moves_on_one_node() -> None:
    """All that may follow DELIVERED and DEAD. ACCEPTED has more in the table, which other nodes report."""
    page = (Path(__file__).parents[2] / "docs" / "transfer.md").read_text()
    found = defaultdict[TransferState, set[TransferState]](set)
    for state, after in re.findall(r"^    ([A-Z]+) --> ([A-Z]+): ", page, re.MULTILINE):
        found[TransferState[state]].add(TransferState[after])
    assert found.pop(TransferState.HELD) == {TransferState.ACCEPTED}
    assert found[TransferState.ACCEPTED] < NEXT[TransferState.ACCEPTED]
    assert found.keys() | {one for after in found.values() for one in after} == set(TransferState) - {
        TransferState.HELD, TransferState.SENT, TransferState.UNKNOWN,
    }  # fmt: skip
    for state in (TransferState.DELIVERED, TransferState.DEAD):
        assert found[state] == NEXT[state]


def test_the_diagram_and_the_table_of_what_other_nodes_report_have_all_moves() -> None:
    docs = Path(__file__).parents[2] / "docs"
    found = defaultdict[TransferState, set[TransferState]](set)
    for state, after in [
        *re.findall(r"^    ([A-Z]+) --> ([A-Z]+): ", (docs / "transfer.md").read_text(), re.MULTILINE),
        *re.findall(r"^\| ([A-Z]+) \| ([A-Z, ]+) \|", (docs / "design" / "transfer.md").read_text(), re.MULTILINE),
    ]:
        found[TransferState[state]].update(TransferState[one] for one in after.split(", "))
    assert found.pop(TransferState.HELD) == {TransferState.ACCEPTED}
    assert found == NEXT


def test_a_transfer_in_an_open_transaction_is_settled_by_nobody(core: Core) -> None:
    send(core, b"a")
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    item = take(core, txn=txn)
    with pytest.raises(TransferRefused, match=f"open transaction {txn}"):
        settle(core, item.lsn, TransferState.CONSUMED)


def test_a_remote_transfer_waits_in_a_queue_of_its_own_and_becomes_what_the_peer_reports(core: Core) -> None:
    send(core, b"a", "ingest@hostB")
    assert nothing(core)
    (item,) = core.state.items.values()
    for state in (TransferState.SENT, TransferState.DELIVERED, TransferState.CONSUMED):
        settle(core, item.lsn, state)
        assert core.effects[0] == Moved([item], state)


# ---- lifetime ----


def test_what_nobody_takes_in_its_lifetime_expires(core: Core) -> None:
    send(core, b"a", lifetime_ns=5 * SECOND)
    send(core, b"b")
    later(core, 4)
    core.step(Tick())
    assert moved(core) == []
    later(core, 1)
    core.step(Tick())
    assert moved(core) == [TransferState.EXPIRED]
    assert take(core).record.body == b"b"


def test_nobody_is_given_what_has_expired_though_no_tick_came(core: Core) -> None:
    send(core, b"a", lifetime_ns=5 * SECOND)
    later(core, 6)
    assert nothing(core)
    assert core.state.counts == {TransferState.EXPIRED: 1}


def test_what_was_taken_in_time_expires_only_when_it_comes_back(core: Core) -> None:
    send(core, b"a", lifetime_ns=5 * SECOND)
    item = take(core)
    later(core, 6)
    core.step(Tick())
    assert item.state is TransferState.DELIVERED
    settle(core, item.lsn, TransferState.ACCEPTED)
    core.step(Tick())
    assert core.state.counts == {TransferState.EXPIRED: 1}


def test_a_lifetime_goes_on_after_a_restart(core: Core) -> None:
    send(core, b"a", lifetime_ns=5 * SECOND)
    again = Core(core.log)
    later(again, 6)
    again.step(Tick())
    assert not again.state.items


# ---- receivers ----


def test_t2_a_pid_means_one_life(core: Core) -> None:
    core.step(ReceiverJoined("ingest", OTHER))
    send(core, b"mine", f"ingest/{ME.pid}")
    assert nothing(core, OTHER)
    assert take(core).record.body == b"mine"


def test_t2_what_was_for_a_dead_life_reaches_no_process_with_its_pid(core: Core) -> None:
    send(core, b"mine", f"ingest/{ME.pid}")
    core.step(ReceiverLeft(ME))
    assert moved(core) == [TransferState.DEAD]
    again = Life(ME.pid, ME.start + 5)
    core.step(ReceiverJoined("ingest", again))
    assert nothing(core, again)


def test_t2_what_a_transaction_sent_to_a_life_that_ended_meanwhile_is_a_dead_letter(core: Core) -> None:
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    send(core, b"mine", f"ingest/{ME.pid}", txn=txn)
    core.step(ReceiverLeft(ME))
    core.step(CommitTransaction(txn))
    assert [item.state for item in core.state.items.values()] == [TransferState.DEAD]


def test_t2_each_means_those_of_this_moment_and_nobody_is_refused(core: Core) -> None:
    core.step(ReceiverJoined("ingest", OTHER))
    batches = len(core.log.batches)
    assert len(send(core, b"all", "ingest/*")) == 2
    assert len(core.log.batches) == batches + 1, "all of them, or none"
    late = Life(9, 9)
    core.step(ReceiverJoined("ingest", late))
    assert nothing(core, late)
    assert take(core).record.body == take(core, OTHER).record.body == b"all"
    with pytest.raises(TransferRefused, match="means nobody: the receivers of 'archive' are none"):
        send(core, b"a", "archive/*")
    with pytest.raises(TransferRefused, match=r"'ingest' are 9, 4711, 4712"):
        send(core, b"a", "ingest/5")


def test_what_a_receiver_has_not_consumed_goes_back_when_it_ends(core: Core) -> None:
    send(core, b"a")
    send(core, b"b")
    take(core)
    core.step(ReceiverLeft(ME))
    core.step(ReceiverJoined("ingest", OTHER))
    item = take(core, OTHER)
    assert (item.record.body, item.deliveries) == (b"a", 2)
    with pytest.raises(TransferRefused, match="is no receiver"):
        take(core, ME)


def test_the_transactions_of_a_program_that_ends_are_undone(core: Core) -> None:
    txn = core.step(BeginTransaction(ME))
    assert isinstance(txn, int)
    send(core, b"a", txn=txn)
    core.step(ReceiverLeft(ME))
    assert Aborted(txn, AbortCause.ENDED) in core.effects
    with pytest.raises(TransactionAborted, match="its program has ended"):
        send(core, b"b", txn=txn)


# ---- exactly once ----


def test_a_transfer_that_comes_twice_is_there_once_also_after_a_crash(core: Core) -> None:
    id = TransferId("hostB", 7, 1)
    event = SendTransfers(header(b"a"), (b"a",), ids=(id,))
    assert ids_of(core, event) == [id]
    assert ids_of(core, event) == []
    again = Core(core.log)
    again.step(ReceiverJoined("ingest", ME))
    assert ids_of(again, event) == []
    settle(again, take(again).lsn, TransferState.CONSUMED)
    assert ids_of(again, event) == [], "also when it was consumed"


def test_a_transfer_whose_transaction_is_undone_has_not_come(core: Core) -> None:
    id, txn = TransferId("hostB", 7, 1), core.step(BeginTransaction())
    assert isinstance(txn, int)
    core.step(SetSavepoint(txn, "s"))
    core.step(SendTransfers(header(b"a"), (b"a",), txn=txn, ids=(id,)))
    core.step(RollBack(txn, "s"))
    assert ids_of(core, SendTransfers(header(b"a"), (b"a",), ids=(id,))) == [id]


def test_ids_are_used_once_also_those_that_a_crash_took(core: Core) -> None:
    ids = send(core, b"a") + send(core, b"b")
    again = Core(core.log.cut(len(core.log.batches) - 1))
    ids += send(again, b"c")
    assert len(set(ids)) == 3


# ---- rows ----


def test_rows_show_queues_and_transactions(core: Core) -> None:
    send(core, b"abc")
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    send(core, b"de", txn=txn)
    lsn = core.step(SetSavepoint(txn, "half"))
    (row,) = queue_rows(core.machine)
    assert (row.queue, row.bytes, row.receivers) == ("ingest", 5, 1)
    assert row.states == {TransferState.ACCEPTED: 1, TransferState.HELD: 1}
    (shown,) = transaction_rows(core.machine, SECOND)
    assert (shown.txn_id, shown.state, shown.last_lsn, shown.undo_nxt_lsn) == (txn, "RUNNING", lsn, lsn)
    assert (shown.save_list, shown.records, shown.bytes) == (("half",), 2, 2)


def test_a_step_logs_before_it_says_anything(core: Core) -> None:
    steps = core.machine.step(SendTransfers(header(b"a"), (b"a",)), core.now)
    assert isinstance(next(steps), Append)
    assert not core.state.items
    steps.close()
