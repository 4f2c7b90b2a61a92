"""Transactional queues on a real log, in one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw.errors import ClosedError, LogLocked
from rtmw.transfer.address import Life
from rtmw.transfer.errors import TransactionAborted, TransferRefused, TransfersDamaged
from rtmw.transfer.events import Aborted, BeginTransaction, CommitTransaction, Moved, Now, SendTransfers
from rtmw.transfer.limits import Limits
from rtmw.transfer.records import AbortCause, Request, Start, TransferState, pack
from rtmw.transfer.store import EVERY_NS, Store, Submitted
from tests.bus import eventually
from tests.child import Spawn
from tests.transfer.driven import Driven
from tests.transfer.letters import drain, me, send, take
from tests.transfer.memory import header


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "transfers"


@pytest.fixture
def store(path: Path) -> Iterator[Driven]:
    with Driven(path, node="plant") as store:
        store.join("ingest", me())
        yield store


def test_what_was_committed_is_there_when_the_store_is_opened_again_and_nothing_else(path: Path, store: Driven) -> None:
    txn = store.begin()
    send(store, b"a", txn)
    store.savepoint(txn, "half")
    send(store, b"b", txn)
    store.rollback(txn, "half")
    store.commit(txn)
    left_open = store.begin()
    send(store, b"c", left_open)
    assert take(store, left_open).body == b"a"
    store.close()
    with Driven(path, node="plant") as again:
        assert again.transactions() == []
        again.join("ingest", me())
        letter = take(again)
        assert (letter.body, letter.redelivered) == (b"a", 1)


def test_an_answer_means_that_it_is_on_the_disk(path: Path, store: Driven) -> None:
    """Read by another reader of the log, which sees what is durable and nothing else."""
    send(store, b"a sent body")
    txn = store.begin()
    send(store, b"in a transaction", txn)
    store.commit(txn)
    with rtmw.Log(path / "log", create=False) as log:
        data = b"".join(record.data for record in log.read())
    assert b"a sent body" in data
    assert b"in a transaction" in data


def test_letters_of_one_record_do_not_become_younger_while_nothing_is_logged_behind_them(path: Path) -> None:
    minutes = [100]
    with Store(path, node="plant", now=lambda: Now(0, minutes[0] * 60 * EVERY_NS)) as store:
        store.submit(SendTransfers(header(b"x"), [b"x"] * 3, "gauge", request=Request(me(), 1)))
        for _ in range(9):
            minutes[0] += 1
            store.note_time()
        store.submit(SendTransfers(header(b"x"), [b"x"] * 2, "gauge", request=Request(me(), 4)))
        since = [store.ages.since(number) // EVERY_NS // 60 for number in store.machine.state.items]
    assert since == [100] * 3 + [109] * 2


def test_many_transactions_share_a_sync(path: Path, store: Driven) -> None:
    before = store._log.stats().syncs
    for turn in range(20):
        done: list[Submitted] = []
        for number in range(8):
            txn, body = store.submit(BeginTransaction()).answer, f"{number}-{turn}".encode()
            store.submit(SendTransfers(header(body), (body,), txn=txn))
            done.append(store.submit(CommitTransaction(txn)))
        assert all(one.waits for one in done)
        for one in done:
            assert one.last is not None
            one.last.resolve()
    assert store._log.stats().syncs - before < 8 * 20
    found = drain(store)
    assert len(found) == len(set(found)) == 160
    for number in range(8):
        mine = [body for body in found if body.startswith(f"{number}-".encode())]
        assert mine == [f"{number}-{turn}".encode() for turn in range(20)]


@pytest.mark.parametrize("size", [4095, 4096, 4097, 300_000])
# Proves T9.
def test_t9_bodies_on_both_sides_of_4_kib_come_back_after_a_restart(path: Path, store: Driven, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    send(store, body)
    files = list((path / "spool").iterdir())
    assert len(files) == (0 if size < 4096 else 1)
    store.close()
    with Driven(path, node="plant") as again:
        assert drain(again) == [body]
        assert list((path / "spool").iterdir()) == []


def test_the_file_of_an_undone_send_goes_with_it(path: Path, store: Driven) -> None:
    txn = store.begin()
    store.savepoint(txn, "s")
    send(store, bytes(5000), txn)
    assert len(list((path / "spool").iterdir())) == 1
    store.rollback(txn, "s")
    assert list((path / "spool").iterdir()) == []


def test_a_send_that_is_refused_leaves_no_file(path: Path, store: Driven) -> None:
    with pytest.raises(TransferRefused):
        send(store, bytes(5000), to="ingest/1")
    assert list((path / "spool").iterdir()) == []


def test_files_that_nobody_names_are_removed_and_one_that_is_missing_is_said(path: Path, store: Driven) -> None:
    send(store, bytes(5000))
    store.close()
    (path / "spool" / "1sff").write_bytes(b"the rest of a crash")
    Store(path, node="plant").close()
    (file,) = (path / "spool").iterdir()
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    with pytest.raises(TransfersDamaged, match="is 4999 bytes long; it has a body of 5000"):
        Store(path, node="plant")
    file.unlink()
    with pytest.raises(TransfersDamaged, match="is missing"):
        Store(path, node="plant")


def test_a_log_without_its_checkpoint_is_refused_and_not_taken_for_an_empty_one(path: Path) -> None:
    with rtmw.Log(path / "log") as log:
        log.append(pack(Start(1, "plant", 5)))
    with pytest.raises(TransfersDamaged, match="no checkpoint in its log is whole"):
        Store(path, node="plant")


def test_a_checkpoint_keeps_all_that_is_parked_or_open_and_the_log_stays_short(path: Path) -> None:
    with Driven(path, node="plant", segment="64K", checkpoint=20_000) as store:
        send(store, b"parked from the beginning on")
        open = store.begin()
        store.savepoint(open, "early")
        send(store, b"undone", open)
        for _ in range(400):
            send(store, bytes(500), to="archive")
            (lsn,) = (lsn for lsn, item in store.machine.state.items.items() if item.record.header.length == 500)
            store.settle(lsn, TransferState.CANCELLED)
        assert store.checkpoints > 5
        assert store._log.stats().earliest > 0
        assert store._log.stats().disk < 400 * 1000
        store.rollback(open, "early")
        send(store, b"kept", open)
        store.commit(open)
    with Driven(path, node="plant") as again:
        assert again.ended == {TransferState.CANCELLED: 400}
        assert drain(again) == [b"parked from the beginning on", b"kept"]


def test_one_checkpoint_is_made_in_each_segment_since_another_one_there_would_free_nothing(path: Path) -> None:
    with Driven(path, node="plant", segment="64K", checkpoint=1000) as store:
        for _ in range(200):
            send(store, bytes(2000), to="archive")
            (lsn,) = store.machine.state.items
            store.settle(lsn, TransferState.CANCELLED)
        rolls = store._log._begin_to_write().counters()[5]
        assert rolls - 1 <= store.checkpoints - 1 <= rolls
        eventually(lambda: store._log.stats().segments <= 2)
    with Driven(path, node="plant") as again:
        assert again.ended == {TransferState.CANCELLED: 200}


def test_letters_that_only_wait_get_no_checkpoint_which_would_free_nothing(path: Path) -> None:
    with Driven(path, node="plant", segment="64K", checkpoint=20_000) as store:
        head = header(bytes(500))
        for number in range(1, 400, 8):
            store.step(SendTransfers(head, [bytes(500)] * 8, "gauge", request=Request(me(), number)))
        assert store.checkpoints == 1
    with Driven(path, node="plant", segment="64K", checkpoint=20_000) as store:
        store.tick()
        assert store.checkpoints == 0
        store.join("ingest", me())
        for _ in range(300):
            store.settle(take(store), TransferState.CONSUMED)
        assert store.checkpoints > 0
    with Driven(path, node="plant") as again:
        assert again.parked == 100


def test_what_a_process_had_taken_that_ended_goes_back_when_the_store_is_opened(path: Path, store: Driven) -> None:
    child = Life(me().pid, me().start + 1)  # its pid, in another life
    send(store, b"a")
    store.join("ingest", child)
    assert store.take("ingest", child) is not None
    store.close()
    with Driven(path, node="plant") as again:
        again.join("ingest", me())
        assert take(again).redelivered == 1


def test_events_are_told(path: Path) -> None:
    with Driven(path, node="plant", limits=Limits(transaction_records=1)) as store:
        txn = store.begin()
        send(store, b"a", txn)
        with pytest.raises(TransactionAborted):
            send(store, b"b", txn)
        assert Aborted(txn, AbortCause.SIZE) in store.told
        (id,) = store.send(header(b"c"), b"c")
        assert store.told[-1] == Moved((store.machine.state.find(id),), TransferState.ACCEPTED)


def test_a_store_is_of_one_node_and_one_process(path: Path, store: Driven, spawn: Spawn) -> None:
    with pytest.raises(LogLocked):
        Store(path, node="plant")
    store.close()
    with pytest.raises(ValueError, match="of node 'plant', and not of 'other'"):
        Store(path, node="other")
    with pytest.raises(ClosedError):
        send(store, b"late")
