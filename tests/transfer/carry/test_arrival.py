"""What arrives becomes durable while more of it is written."""

from __future__ import annotations

from pathlib import Path

from rtmw.transfer.address import Address
from rtmw.transfer.carry.arrival import Arrival
from rtmw.transfer.files.staging import Folder
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.records import TransferId
from rtmw.transfer.wire.frames import Offer, Part
from tests.disks import Counting


def test_what_was_written_becomes_durable_though_its_files_are_closed_meanwhile(tmp_path: Path) -> None:
    disk, inbox, bodies = Counting(), tmp_path / "inbox", tmp_path / "bodies"
    inbox.mkdir()
    bodies.mkdir()
    header = Header(Kind.FILE, Address("service"), 1)
    offer = Offer(1, TransferId("there", 1, 1), 0, "sender", header, (Part(Kind.FILE, 8, "run"),))
    with Folder(str(inbox), disk) as folder:
        arrival = Arrival(offer, bodies, folder, disk)
        arrival.write(0, b"12345678")
        with arrival.written() as written:
            arrival.close()
            disk.calls.clear()
            written.sync()
    (part,) = (inbox / ".rtmw").iterdir()
    assert disk.calls == [("sync_data", str(part))]
