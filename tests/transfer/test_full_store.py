"""A store whose disk becomes full in the middle of a step: what was logged is done, and is not said to have failed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from rtmw.errors import LogFull
from rtmw.transfer.events import Now
from rtmw.transfer.records import TransferState
from tests.transfer import full
from tests.transfer.driven import Driven
from tests.transfer.letters import drain, me, send, take
from tests.transfer.memory import header


def full_after(store: Driven, batches: int, reserve: int = 0) -> AbstractContextManager[None]:
    return full.full_after(store._log, batches, reserve)


def test_a_commit_whose_record_is_logged_has_not_failed(tmp_path: Path) -> None:
    with Driven(tmp_path / "transfers", node="plant") as store:
        txn = store.begin()
        send(store, b"once", txn)
        with full_after(store, 1):
            store.commit(txn)
        store.tick()
        assert drain(store) == [b"once"]


def test_a_commit_whose_record_is_not_logged_has_failed_and_may_be_tried_again(tmp_path: Path) -> None:
    with Driven(tmp_path / "transfers", node="plant") as store:
        txn = store.begin()
        send(store, b"once", txn)
        with full_after(store, 0), pytest.raises(LogFull):
            store.commit(txn)
        store.commit(txn)
        assert drain(store) == [b"once"]


def test_a_step_that_is_logged_has_not_failed_because_a_checkpoint_has_no_room(tmp_path: Path) -> None:
    with Driven(tmp_path / "transfers", node="plant", segment="64K", checkpoint=1) as store:
        made, large = store.checkpoints, bytes(4000)
        store.join("ingest", me())
        send(store, large)
        while not store._log._begin_to_write().last_base:
            replace(store, large)
        with full_after(store, 1):
            send(store, b"once", to="archive")
        assert store.checkpoints == made
        send(store, b"twice", to="archive")
        for _ in range(3):  # as much as twice what all letters take
            replace(store, large)
        send(store, b"thrice", to="archive")
        assert store.checkpoints > made
        assert [drain(store), drain(store, "archive")] == [[large], [b"once", b"twice", b"thrice"]]


def replace(store: Driven, body: bytes) -> None:
    """The letter that waits is consumed, and another one waits."""
    store.settle(take(store), TransferState.CONSUMED, by=me())
    send(store, body)


# Proves G183.
def test_what_ends_work_has_a_reserve_and_what_begins_is_refused(tmp_path: Path) -> None:
    with Driven(tmp_path / "transfers", node="plant") as store:
        store.join("ingest", me())
        send(store, b"consumed")
        send(store, b"given back")
        committed, undone = store.begin(), store.begin()
        send(store, b"committed", committed)
        send(store, b"undone", undone)
        with full_after(store, 0, reserve=20):
            with pytest.raises(LogFull):
                send(store, b"refused")
            with pytest.raises(LogFull):
                send(store, b"refused", committed)
            with pytest.raises(LogFull):
                store.savepoint(committed)
            store.settle(take(store), TransferState.CONSUMED, by=me())
            store.settle(take(store), TransferState.ACCEPTED, by=me())
            store.commit(committed)
            store.abort(undone)
        assert drain(store) == [b"given back", b"committed"]


def test_a_small_checkpoint_is_made_on_a_full_disk(tmp_path: Path) -> None:
    with Driven(tmp_path / "transfers", node="plant") as store:
        send(store, b"kept")
        made = store.checkpoints
        with full_after(store, 0, reserve=1):
            store.checkpoint()
        assert store.checkpoints == made + 1
        assert drain(store) == [b"kept"]


def test_a_lifetime_that_ends_while_the_disk_is_full_has_ended_when_there_is_room(tmp_path: Path) -> None:
    now = Now(0, 0)
    with Driven(tmp_path / "transfers", node="plant", now=lambda: now) as store:
        store.send(header(b"short", lifetime_ns=10), b"short")
        send(store, b"endless")
        now = Now(20, 20)
        with full_after(store, 0), pytest.raises(LogFull):
            store.tick()
        store.tick()
        assert store.ended == {TransferState.EXPIRED: 1}
        assert drain(store) == [b"endless"]


def test_a_receiver_that_leaves_while_the_disk_is_full_has_left_when_it_is_said_again(tmp_path: Path) -> None:
    with Driven(tmp_path / "transfers", node="plant") as store:
        store.join("ingest", me(1))
        for body in (b"one", b"two"):
            send(store, body)
            assert store.take("ingest", me(1)) is not None
        with full_after(store, 1), pytest.raises(LogFull):
            store.leave(me(1))
        store.leave(me(1))
        assert drain(store) == [b"one", b"two"]
