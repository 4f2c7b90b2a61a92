"""T10: the transaction table, savepoints and partial rollback, as the paper's algorithm has them."""

from __future__ import annotations

from typing import Any

import pytest

from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.events import (
    AbortTransaction,
    BeginTransaction,
    CommitTransaction,
    DestroySavepoint,
    Free,
    ReceiverJoined,
    RollBack,
    SendTransfers,
    SetSavepoint,
)
from rtmw.transfer.records import Clr, Record, Savepoint, Spooled, Undone
from rtmw.transfer.state import SavepointEntry, State, Transaction
from tests.transfer.memory import ME, Core, header
from tests.transfer.steps import first_of


@pytest.fixture
def core() -> Core:
    core = Core()
    core.step(ReceiverJoined("ingest", ME))
    return core


def begin(core: Core) -> int:
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    return txn


def send(core: Core, body: bytes, txn: int = 0, priority: int = 0) -> None:
    core.step(SendTransfers(header(body, priority=priority), (body,), txn=txn))


def take(core: Core, txn: int = 0) -> bytes | None:
    item: Any = first_of(core, "ingest", ME, txn)
    return None if item is None else bytes(item.record.body)


def names(core: Core, txn: int) -> list[str]:
    return [entry.spname for entry in core.state.table[txn].savepoints()]


def compensated(core: Core) -> list[Undone]:
    return [record.what for _, record in core.log.shown() if isinstance(record, Clr)]


def test_a_row_of_the_table_has_the_fields_of_the_paper(core: Core) -> None:
    txn = begin(core)
    send(core, b"a", txn)
    lsn = core.step(SetSavepoint(txn, "half"))
    row = core.state.table[txn]
    assert (row.txn, row.phase.name, row.last_lsn, row.undo_next) == (txn, "RUNNING", lsn, lsn)
    assert row.save_list == SavepointEntry(spname="half", log_lsn=core.log.records()[-1][0], prev=None)


def test_a_rollback_keeps_its_savepoint_and_destroys_those_after_it(core: Core) -> None:
    txn = begin(core)
    for name in "abc":
        core.step(SetSavepoint(txn, name))
        send(core, name.encode(), txn)
    core.step(RollBack(txn, "b"))
    assert names(core, txn) == ["b", "a"]
    core.step(RollBack(txn, "b"))  # again: it is still there
    with pytest.raises(ValueError, match=r"no savepoint 'c'; it has 'b', 'a'"):
        core.step(RollBack(txn, "c"))
    core.step(CommitTransaction(txn))
    assert [take(core), take(core)] == [b"a", None]


def test_duplicate_names_mean_the_newest_and_a_number_means_the_very_one(core: Core) -> None:
    txn = begin(core)
    first = core.step(SetSavepoint(txn, "same"))
    send(core, b"a", txn)
    core.step(SetSavepoint(txn, "same"))
    send(core, b"b", txn)
    core.step(RollBack(txn, "same"))
    assert compensated(core) == [Undone.ENQUEUE]
    assert isinstance(first, int)
    core.step(RollBack(txn, first))
    assert compensated(core) == [Undone.ENQUEUE, Undone.SAVEPOINT, Undone.ENQUEUE]
    assert names(core, txn) == ["same"]


def test_a_savepoint_without_a_name_gets_one(core: Core) -> None:
    txn = begin(core)
    core.step(SetSavepoint(txn))
    core.step(SetSavepoint(txn))
    assert names(core, txn) == ["savepoint 2", "savepoint 1"]


def test_a_release_destroys_the_savepoint_and_those_after_it_and_undoes_nothing(core: Core) -> None:
    txn = begin(core)
    for name in "abc":
        core.step(SetSavepoint(txn, name))
        send(core, name.encode(), txn)
    core.step(DestroySavepoint(txn, "b"))
    assert names(core, txn) == ["a"]
    assert compensated(core) == []
    core.step(RollBack(txn, "a"))  # also over the record of the release
    core.step(CommitTransaction(txn))
    assert take(core) is None


def test_an_undone_send_frees_its_body_and_an_undone_take_is_back_in_its_place(core: Core) -> None:
    for body in (b"1", b"2", b"3"):
        send(core, body)
    txn = begin(core)
    core.step(SetSavepoint(txn, "s"))
    assert take(core, txn) == b"1"
    new = Spooled("1s1", 5000)
    core.step(SendTransfers(header(bytes(5000)), (new,), txn=txn))
    core.effects.clear()
    core.step(RollBack(txn, "s"))
    assert [effect.body for effect in core.effects if isinstance(effect, Free)] == [new]
    assert [take(core), take(core), take(core), take(core)] == [b"1", b"2", b"3", None]


def test_a_clr_names_as_next_what_was_before_what_it_has_undone(core: Core) -> None:
    txn = begin(core)
    for body in (b"a", b"b"):
        send(core, body, txn)
    core.step(SetSavepoint(txn, "s"))
    send(core, b"c", txn)
    core.step(RollBack(txn, "s"))
    send(core, b"d", txn)
    core.step(AbortTransaction(txn))
    undone = [record for _, record in core.log.shown() if isinstance(record, Clr)]
    chain = [(record.undone, record.undo_next) for record in undone]
    assert len({at for at, _ in chain}) == len(chain) == 5, "each record is undone once"
    assert [after for _, after in chain[1:-1]] == [at for at, _ in chain[2:]], "the abort goes over what has a CLR"
    assert chain[-1][1] == 0


def test_nothing_of_a_transaction_is_seen_before_its_commit_and_all_of_it_then(core: Core) -> None:
    txn = begin(core)
    send(core, b"a", txn)
    send(core, b"b", txn, priority=7)
    assert take(core) is None
    assert take(core, txn) is None, "also its own sends"
    core.step(CommitTransaction(txn))
    assert [take(core), take(core)] == [b"b", b"a"]


def test_a_transaction_that_did_nothing_leaves_no_record(core: Core) -> None:
    before = len(core.log.batches)
    core.step(CommitTransaction(begin(core)))
    core.step(AbortTransaction(begin(core)))
    assert len(core.log.batches) == before
    with pytest.raises(ValueError, match="no open transaction"):
        core.step(CommitTransaction(2))


def the_papers_search(row: Transaction, name: str) -> SavepointEntry | None:
    """The loop of the paper's RollBack(name, TxnID, type), line by line."""
    position = row.save_list
    while position is not None:
        if position is None:
            return None
        position = position.prev
    return position


def test_the_papers_search_loop_never_compares_a_name_and_so_finds_no_savepoint_at_all(core: Core) -> None:
    """As printed, each partial rollback would return without having done anything."""
    txn = begin(core)
    core.step(SetSavepoint(txn, "half"))
    send(core, b"a", txn)
    row = core.state.table[txn]
    assert the_papers_search(row, "half") is None
    assert row.find("half").spname == "half"


def test_the_papers_second_loop_compares_with_the_name_found_and_destroys_what_is_newer(core: Core) -> None:
    """`while (temp->name != position->name)`: with a name that is there twice, it stops at the newer one."""
    txn = begin(core)
    for name in ("same", "between", "same"):
        core.step(SetSavepoint(txn, name))
    row = core.state.table[txn]
    oldest = list(row.savepoints())[-1]
    temp, destroyed = row.save_list, list[str]()
    while temp is not None and temp.spname != oldest.spname:
        destroyed.append(temp.spname)
        temp = temp.prev
    assert destroyed == [], "the paper would keep 'between' and the newer 'same' behind the savepoint rolled back to"
    core.step(RollBack(txn, oldest.log_lsn))
    assert names(core, txn) == ["same"]


@pytest.mark.parametrize(
    "record",
    [
        Clr(1, 0, 8, 0, Undone.ENQUEUE),
        Savepoint(1, 8, "prevLSN of nobody"),
    ],
)
def test_a_record_that_contradicts_those_before_it_is_refused_with_its_position(record: Record) -> None:
    with pytest.raises(TransfersDamaged, match="the record at 4096 contradicts") as caught:
        State().apply(4096, record)
    assert caught.value.position == 4096
