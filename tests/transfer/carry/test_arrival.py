"""What arrives becomes durable while more of it is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rtmw.transfer.address import Address
from rtmw.transfer.carry.content import Arrival
from rtmw.transfer.files import Folder
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.records import TransferId
from rtmw.transfer.wire.frames import Offer, Part
from tests.disks import Counting

HEADER = Header(Kind.FILE, Address("service"), 1)
OFFER = Offer(1, TransferId("there", 1, 1), 0, "sender", HEADER, (Part(Kind.FILE, 8, "run"),))


def test_what_was_written_becomes_durable_though_its_files_are_closed_meanwhile(tmp_path: Path) -> None:
    disk, inbox, bodies = Counting(), tmp_path / "inbox", tmp_path / "bodies"
    inbox.mkdir()
    bodies.mkdir()
    with Folder(str(inbox), disk) as folder:
        arrival = Arrival(OFFER, bodies, folder, disk)
        arrival.write(0, b"12345678")
        with arrival.written() as written:
            arrival.close()
            disk.calls.clear()
            written.sync()
    (part,) = (inbox / ".rtmw").iterdir()
    assert disk.calls == [("sync_data", str(part))]


def test_an_arrival_that_cannot_begin_leaves_no_descriptor(tmp_path: Path) -> None:
    inbox, bodies = tmp_path / "inbox", tmp_path / "bodies"
    inbox.mkdir()
    with Folder(str(inbox)) as folder, pytest.raises(FileNotFoundError):
        Arrival(OFFER, bodies, folder)
    opened = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    assert [path for path in opened if path.startswith(str(inbox))] == []
