"""Bodies in files of their own, on a disk that writes short or is full."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rtmw.transfer.records import Spooled
from rtmw.transfer.spool import SYNC_BYTES, Spool
from tests.disks import Counting, Short, full

BODY = bytes(range(256)) * 20


def in_one(spool: Spool) -> Spooled:
    return spool.write("body", BODY)


def in_pieces(spool: Spool) -> Spooled:
    file = spool.receive("body", durable=True)
    try:
        for at in range(0, len(BODY), 1000):
            file.write(memoryview(BODY)[at : at + 1000])
        return file.finish()
    except OSError:
        file.abandon()
        raise


WAYS = pytest.mark.parametrize("write", [in_one, in_pieces])


@WAYS
def test_a_disk_that_writes_short_gets_the_whole_body(write: Callable[[Spool], Spooled], tmp_path: Path) -> None:
    with Spool(tmp_path / "spool", Short(7)) as spool:
        body = write(spool)
        assert body == Spooled("body", len(BODY))
        assert spool.read(body) == BODY


@WAYS
# Proves G151.
def test_of_a_body_that_has_no_room_nothing_remains(write: Callable[[Spool], Spooled], tmp_path: Path) -> None:
    with Spool(tmp_path / "spool") as spool:
        spool.disk = notes = Counting()
        body = write(spool)
        calls = len(notes.calls)
        spool.remove(body.name)
        for call in range(calls):
            spool.disk = Counting(call, full())
            with pytest.raises(OSError, match="No space"):
                write(spool)
            assert not [*(tmp_path / "spool").iterdir()]


def test_a_large_body_that_comes_in_pieces_is_synced_on_its_way(tmp_path: Path) -> None:
    disk = Counting()
    with Spool(tmp_path / "spool", disk) as spool:
        file = spool.receive("body", durable=True)
        for _ in range(3):
            file.write(bytes(SYNC_BYTES))
        file.finish()
        assert [what for what, _ in disk.calls].count("sync_data") == 3
        file = spool.receive("other", durable=False)
        file.write(bytes(SYNC_BYTES))
        file.finish()
        assert [what for what, _ in disk.calls].count("sync_data") == 3
