"""A bit that is turned in the log of a store: what is there is right, or the store says where it is not."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from rtmw.errors import LogError
from rtmw.transfer.records import TransferState
from tests.transfer.driven import Driven
from tests.transfer.letters import drain, me, send, take

RECORDS = 12288
"""Where they begin in a segment (docs/formats/log-format.md)."""


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damage") / "transfers"
    with Driven(path, node="plant", segment="64K") as store:
        store.join("ingest", me())
        for body in (b"a", b"b"):
            send(store, body)
        txn = store.begin()
        send(store, b"c", txn)
        store.savepoint(txn, "s")
        take(store, txn)
        store.rollback(txn, "s")
        store.commit(txn)
        store.settle(take(store), TransferState.CONSUMED)
    return path


def test_whichever_byte_of_the_records_is_changed_the_store_is_refused_with_a_position(
    closed: Path, tmp_path: Path
) -> None:
    (segment,) = (closed / "log").glob("*.seg")
    used = len(segment.read_bytes().rstrip(b"\0")) - RECORDS
    assert used > 1000
    for at in range(0, used, 7):
        copy = tmp_path / f"{at}"
        shutil.copytree(closed, copy)
        with (copy / "log" / segment.name).open("r+b") as file:
            file.seek(RECORDS + at)
            (old,) = file.read(1)
            file.seek(RECORDS + at)
            file.write(bytes([old ^ 1 << at % 8]))
        refused = ""
        try:
            with Driven(copy, node="plant") as store:
                assert drain(store) == [b"b", b"c"], "bytes behind the last record, which nobody reads"
        except LogError as error:
            refused = str(error)
        assert re.search(r"\b\d+\b", refused) if refused else at > used - 8
        shutil.rmtree(copy)
