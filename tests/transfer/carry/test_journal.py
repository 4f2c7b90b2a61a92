"""The journal of transfers between nodes: its golden bytes, and what it knows after a restart and after rewriting."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

import rtmw
from rtmw.errors import LogFull
from rtmw.transfer.carry import journal as j
from rtmw.transfer.carry.half import Desk
from rtmw.transfer.carry.journal import Coming, Journal
from rtmw.transfer.carry.outbound import Outbound
from rtmw.transfer.core.peers import loop_ends
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.files import Fingerprint
from rtmw.transfer.records import TransferId, TransferState
from rtmw.transfer.wire.frames import Frames, Mark, Offer, Report, Settled, pack
from tests.transfer.full import full_after
from tests.transfer.wire.written import HASH, ID, WRITTEN

GOLDEN = Path(__file__).parents[1] / "golden" / "journal.txt"
MARK = Mark(8_388_608, HASH, HASH[::-1])
OTHER = TransferId("plant", 5, 6)
FINGERPRINT = Fingerprint(2049, 77, 20_000_000, 1_790_000_000_000_000_000, 1_790_000_000_000_000_001)
OFFER = next(frame for frame in WRITTEN if isinstance(frame, Offer) and len(frame.parts) > 1)._replace(id=ID)


def write(journal: Journal) -> None:
    """Each kind of record but that of a rewriting, which is there from the begin."""
    journal.begin(OFFER, "/srv/inbox")
    journal.mark(ID, MARK)
    journal.place(ID)
    journal.source(OTHER, (FINGERPRINT,))
    journal.sent(OTHER, MARK)
    journal.source(ID, ())
    journal.done(ID)
    journal.left(ID, 1_790_000_000_000_000_000)


def records(path: Path) -> str:
    with rtmw.Log(path) as log:
        return "".join(f"{record.data.hex()}\n" for record in log.read())


def test_the_journal_has_the_bytes_of_the_golden_file(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        write(journal)
    assert records(tmp_path / "journal") == GOLDEN.read_text()


def test_a_restart_knows_what_has_not_ended(tmp_path: Path) -> None:
    for life in range(3):
        with Journal(tmp_path / "journal") as journal:
            if life == 0:
                write(journal)
            assert journal.coming == {ID: Coming(OFFER, "/srv/inbox", MARK, True, 1_790_000_000_000_000_000)}
            assert list(journal.going) == [OTHER]
            assert journal.going[OTHER].accepted == (FINGERPRINT,)
            assert journal.going[OTHER].mark == MARK
    with Journal(tmp_path / "journal") as journal:
        journal.end(ID)
        journal.done(OTHER)
    with Journal(tmp_path / "journal") as journal:
        assert not journal.coming
        assert not journal.going


def test_a_journal_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(j, "REWRITE_BYTES", 10_000)
    monkeypatch.setattr(j, "SEGMENT", "64K")
    with Journal(tmp_path / "journal") as journal:
        write(journal)
        for _ in range(4000):
            journal.mark(ID, MARK)
        assert journal.coming[ID].mark == MARK
    assert 0 < len(records(tmp_path / "journal").splitlines()) < 2000


def test_a_record_that_is_none_is_refused_with_its_position(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal"):
        pass
    with rtmw.Log(tmp_path / "journal") as log:
        log.append(b"\x01\x09\x00\x00")
    with pytest.raises(TransfersDamaged, match="kind 9"):
        Journal(tmp_path / "journal")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        with Journal(Path(folder) / "journal") as written:
            write(written)
        GOLDEN.write_text(records(Path(folder) / "journal"))


def test_of_what_is_sent_only_what_is_wanted_stays(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.source(OTHER, (FINGERPRINT,))
        journal.source(ID, ())
        journal.keep_going(lambda id: id == ID)
        assert set(journal.going) == {ID}
    with Journal(tmp_path / "journal") as journal:
        assert set(journal.going) == {ID}


def test_what_does_not_end_is_not_written_anew_with_each_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(j, "REWRITE_BYTES", 4096)
    with Journal(tmp_path / "journal") as journal:
        for number in range(200):
            journal.source(TransferId("plant", 5, number), (FINGERPRINT,))
        begun = journal._log.end
        for _ in range(10):
            journal.source(ID, ())
        assert journal._log.end - begun < 4096


# Proves G201.
def test_a_node_says_nothing_of_what_is_sent_to_another_one(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.source(ID, (FINGERPRINT,))
        asyncio.run(_reports(journal, Report((ID,), TransferState.CONSUMED, "")))
        assert ID in journal.going


class Nothing:
    """A desk that has nothing for anybody."""

    def waiting(self, node: str) -> tuple[()]:
        return ()

    async def durable(self) -> None:
        """Nothing was reported to it."""


async def _reports(journal: Journal, report: Report) -> None:
    """The node "b" says so, of what it was never offered; it is answered."""
    here, there = loop_ends()
    outbound = Outbound("b", cast(Desk, Nothing()), journal)
    running = asyncio.ensure_future(outbound.run(here))
    await there.write(pack(report))
    frames = Frames(of_sender=True)
    assert list(frames.feed(*await there.read_parts())) == [Settled(report.ids, report.state)]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await outbound.close()


def test_on_a_full_disk_nothing_begins_and_what_ends_is_written_when_there_is_room(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.begin(OFFER, "/srv/inbox")
        journal.source(OTHER, (FINGERPRINT,))
        with full_after(journal._log, 0):
            for refused in (lambda: journal.mark(ID, MARK), lambda: journal.place(ID)):
                with pytest.raises(LogFull):
                    refused()
            with pytest.raises(LogFull):
                journal.begin(OFFER._replace(id=OTHER), "")
            journal.sent(OTHER, MARK)
            journal.end(ID)
            journal.source(ID, ())
            assert (set(journal.coming), set(journal.going)) == (set(), {OTHER, ID})
        journal.done(ID)
    with Journal(tmp_path / "journal") as journal:
        assert not journal.coming
        assert {id: going.mark for id, going in journal.going.items()} == {OTHER: MARK}


def test_what_was_not_written_when_the_core_died_holds_as_it_was_before(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.begin(OFFER, "/srv/inbox")
        with full_after(journal._log, 0):
            journal.end(ID)
            journal._log.close()  # as if it were killed
        journal._is_behind = False
    with Journal(tmp_path / "journal") as journal:
        assert set(journal.coming) == {ID}


def test_a_journal_is_opened_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.begin(OFFER, "/srv/inbox")

    def refused(*_: object, **__: object) -> None:
        raise LogFull("the disk is full")

    monkeypatch.setattr(rtmw.Log, "_places", refused)
    with Journal(tmp_path / "journal") as journal:
        assert set(journal.coming) == {ID}
        monkeypatch.undo()
        journal.end(ID)
    with Journal(tmp_path / "journal") as journal:
        assert not journal.coming
