"""A store that is a copy gives no id that the other one has given."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rtmw.transfer.events import SendTransfers
from rtmw.transfer.place import Lies, Place
from rtmw.transfer.records import TransferId, TransferState
from tests.transfer.driven import Driven
from tests.transfer.memory import header


def sent(path: Path, to: str = "ingest") -> tuple[Lies, TransferId]:
    """How a store is found when it is opened, and the id of what is sent in it then."""
    with Driven(path, node="plant") as store:
        (id,) = store.step(SendTransfers(header(b"x", to=to), (b"x",))).ids
        return store.lies, id


def copied(folder: Path) -> Path:
    return Path(shutil.copytree(folder, folder.parent / "copy"))


def restored(folder: Path) -> Path:
    copy = copied(folder)
    sent(folder)
    shutil.rmtree(folder)
    return copy.rename(folder)


def restored_in_place(folder: Path) -> Path:
    copy = copied(folder)
    sent(folder)
    return Path(shutil.copytree(copy, folder, dirs_exist_ok=True))


def of_an_older_rtmw(folder: Path) -> Path:
    (folder / "place").unlink()
    return folder


@pytest.mark.parametrize("change", [copied, restored, restored_in_place, of_an_older_rtmw])
# Proves G204.
def test_a_copy_of_a_store_begins_a_new_incarnation_once(tmp_path: Path, change: Callable[[Path], Path]) -> None:
    _, before = sent(tmp_path / "data")
    path = change(tmp_path / "data")
    lies, first = sent(path)
    again, second = sent(path)
    assert (lies, again) == (Lies.ELSEWHERE, Lies.HERE)
    assert before.incarnation < first.incarnation == second.incarnation
    with Driven(path, node="plant") as store:
        assert {first, second} <= {item.record.id for item in store.machine.state.items.values()}


def test_a_store_that_is_opened_again_or_renamed_goes_on_with_its_incarnation(tmp_path: Path) -> None:
    _, before = sent(tmp_path / "data")
    assert sent(tmp_path / "data") == (Lies.HERE, before._replace(sequence=before.sequence + (1 << 32)))
    lies, id = sent((tmp_path / "data").rename(tmp_path / "moved"))
    assert (lies, id.incarnation) == (Lies.HERE, before.incarnation)


def test_transfers_of_all_incarnations_are_found_and_end_and_a_checkpoint_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "data"
    _, old = sent(path, "ingest@hub")
    Place(path).forget()
    _, new = sent(path, "ingest@hub")
    for _ in range(2):
        with Driven(path, node="plant") as store:
            state = store.machine.state
            items = [state.find(id) for id in (old, new)]
            assert [item.record.id for item in items if item is not None] == [old, new]
            store.checkpoint()
    with Driven(path, node="plant") as store:
        for id in (old, new):
            item = store.machine.state.find(id)
            assert item is not None
            store.settle(item.lsn, TransferState.CONSUMED)
        assert not store.machine.state.owed
        store.checkpoint()


def test_of_a_store_that_was_set_back_what_waits_since_its_last_start_goes_on_under_a_new_id(tmp_path: Path) -> None:
    path = tmp_path / "data"
    _, earlier = sent(path, "ingest@hub")
    _, second = sent(path, "ingest@hub")
    with Driven(path, node="plant") as store:
        (last,) = store.step(SendTransfers(header(b"y", to="ingest@hub"), (b"y",))).ids
    Place(path).say_behind()
    with Driven(path, node="plant") as store:
        assert store.lies is Lies.BEHIND
        items = [item for item in store.machine.state.items.values() if item.record.header.to.node]
        bodies = {item.record.body: item.record.id for item in items}
        assert {earlier, second} | {bodies[b"y"]} == {item.record.id for item in items}
        assert bodies[b"y"].incarnation == store.machine.state.incarnation > last.incarnation
    assert sent(path)[0] is Lies.HERE
