"""A store whose disk becomes full in the middle of a step: what was logged is done, and is not said to have failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rtmw.errors import LogFull
from rtmw.transfer.store import Store
from tests.transfer.letters import drain, send


@contextmanager
def full_after(store: Store, batches: int) -> Iterator[None]:
    """The log takes so many batches more: where exactly a disk becomes full cannot be chosen."""
    log, left = store._log, batches
    appends = {name: getattr(log, name) for name in ("append", "append_many")}

    def limited(name: str) -> Any:
        def append(*arguments: Any) -> Any:
            nonlocal left
            if left == 0:
                raise LogFull("the disk is full")
            left -= 1
            return appends[name](*arguments)

        return append

    for name in appends:
        setattr(log, name, limited(name))
    yield
    for name in appends:
        delattr(log, name)


def test_a_commit_whose_record_is_logged_has_not_failed(tmp_path: Path) -> None:
    with Store(tmp_path / "transfers", node="plant") as store:
        txn = store.begin()
        send(store, b"once", txn)
        with full_after(store, 1):
            store.commit(txn)
        store.tick()
        assert drain(store) == [b"once"]


def test_a_commit_whose_record_is_not_logged_has_failed_and_may_be_tried_again(tmp_path: Path) -> None:
    with Store(tmp_path / "transfers", node="plant") as store:
        txn = store.begin()
        send(store, b"once", txn)
        with full_after(store, 0), pytest.raises(LogFull):
            store.commit(txn)
        store.commit(txn)
        assert drain(store) == [b"once"]


def test_a_step_that_is_logged_has_not_failed_because_a_checkpoint_has_no_room(tmp_path: Path) -> None:
    with Store(tmp_path / "transfers", node="plant", checkpoint=1) as store:
        made = store.stats().checkpoints
        with full_after(store, 1):
            send(store, b"once")
        assert store.stats().checkpoints == made
        send(store, b"twice")
        send(store, b"thrice")
        assert store.stats().checkpoints > made
        assert drain(store) == [b"once", b"twice", b"thrice"]
