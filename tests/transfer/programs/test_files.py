"""T4, T9 on one host: files are read where they lie, and written in place below the folder of an inbox."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rtmw
from rtmw import Delivery, Level
from rtmw.transfer.client.viewer import Viewer
from tests.conftest import free_number
from tests.transfer.between.pair import MIB, cause, shown, take, until, written
from tests.transfer.core_process import KILLED, PATIENCE, CoreProcess

BOTH = pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])


@pytest.fixture
def domain_id(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    number = free_number(with_dds=False)
    monkeypatch.setenv("RTMW_DOMAIN", str(number))
    yield number
    rtmw.Domain.unlink(number)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inbox").mkdir()
    return tmp_path / "inbox"


@BOTH
# Proves T9.
def test_t4_a_file_is_written_in_place_below_the_folder_of_the_inbox(
    sender: rtmw.Sender, folder: Path, tmp_path: Path, delivery: Delivery
) -> None:
    data = written(tmp_path / "run.mcap", 20 * MIB)
    sent = sender.send("ingest", rtmw.File(tmp_path / "run.mcap", "in/run.mcap"), delivery=delivery)
    with rtmw.Inbox("ingest") as without:
        until(lambda: "waits for an inbox of 'ingest' with a folder" in cause(sender), "it waits")
        assert without.take(0) is None
    with rtmw.Inbox("ingest", folder=folder) as inbox:
        assert sent.wait(Level.SENT, PATIENCE)
        assert not sent.wait(Level.DELIVERED, 0)
        with take(inbox) as letter:
            assert (letter.id, letter.body) == (sent.id, folder / "in" / "run.mcap")
            assert letter.body.read_bytes() == data
        assert sent.wait(Level.CONSUMED, PATIENCE)
    until(lambda: not shown(sender), "nothing is left of it")


@BOTH
def test_a_file_for_an_inbox_of_the_same_host_is_counted_as_one_transfer(
    domain: rtmw.Domain, sender: rtmw.Sender, folder: Path, tmp_path: Path, delivery: Delivery
) -> None:
    written(tmp_path / "x", 100_000)
    with Viewer(domain) as viewer, rtmw.Inbox("ingest", folder=folder) as inbox:

        def counted(*names: str) -> list[int]:
            return [viewer.show("transfers")["counters"][name] for name in names]

        sent = sender.send("ingest", rtmw.File(tmp_path / "x", "x"), delivery=delivery)
        with take(inbox):
            assert counted("parked", "accepted", "consumed") == [1, 1, 0]
        assert sent.wait(Level.CONSUMED, PATIENCE)
        until(lambda: not shown(sender), "nothing is left of it")
        assert counted("parked", "accepted", "consumed") == [0, 1, 1]
        sender.send("ingest", rtmw.File(tmp_path / "x", "y"), delivery=delivery)
        while (letter := inbox.take(0.5)) is not None:
            letter.give_back()
        until(lambda: counted("parked", "accepted", "dead") == [1, 2, 1], "it is a dead letter, and one")


def test_t4_a_composite_of_messages_and_files_is_one_letter_also_in_a_transaction(
    sender: rtmw.Sender, folder: Path, tmp_path: Path
) -> None:
    table = written(tmp_path / "table.csv", 100_000)
    with rtmw.Inbox("ingest", folder=folder) as inbox:
        with sender.transaction() as txn:
            txn.send("ingest", [rtmw.Part(b"head"), rtmw.File(tmp_path / "table.csv", "t/table.csv")])
            assert inbox.take(0.1) is None
        with take(inbox) as letter:
            head, path = letter.parts
            assert (head, path.read_bytes(), letter.files) == (b"head", table, (path,))


def test_a_core_that_dies_meanwhile_goes_on_with_files_and_hands_each_over_once(
    core: CoreProcess, sender: rtmw.Sender, folder: Path, tmp_path: Path
) -> None:
    data = written(tmp_path / "x", 30 * MIB)
    with rtmw.Inbox("ingest", folder=folder) as inbox:
        sent = sender.send("ingest", rtmw.File(tmp_path / "x"), delivery=Delivery.LOG)
        until(lambda: (folder / ".rtmw").exists() and any((folder / ".rtmw").iterdir()), "it has begun")
        core.kill()
        core.start()
        with take(inbox) as letter:
            assert letter.files[0].read_bytes() == data
        assert inbox.take(0.2) is None
        assert sent.wait(Level.CONSUMED, PATIENCE)
    assert list((folder / ".rtmw").iterdir()) == []


def test_a_file_that_is_written_to_before_an_inbox_comes_arrives_not_at_all(
    sender: rtmw.Sender, folder: Path, tmp_path: Path
) -> None:
    written(tmp_path / "x", 100_000)
    sent = sender.send("ingest", rtmw.File(tmp_path / "x"), delivery=Delivery.LOG)
    (tmp_path / "x").write_bytes(b"another")
    with rtmw.Inbox("ingest", folder=folder) as inbox:
        with pytest.raises(rtmw.SourceChanged, match="was changed while it was being sent"):
            sent.wait(Level.SENT, PATIENCE)
        assert inbox.take(0) is None
    with pytest.raises(ValueError, match="there is no such folder"):
        rtmw.Inbox("ingest", folder=tmp_path / "missing")


def test_a_file_that_was_accepted_by_a_core_that_died_is_not_looked_at_by_the_next_one(
    core: CoreProcess, sender: rtmw.Sender, tmp_path: Path
) -> None:
    """The first core dies behind START and ENQUEUE, before it has told that the transfer is accepted."""
    source = tmp_path / "x"
    written(source, 100_000)
    core.kill()
    core.start(KILLED, "--batches", "2")
    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(sender.send, "ingest@elsewhere", rtmw.File(source), delivery=Delivery.LOG)
        core.process.wait(PATIENCE)
        core.close_pipes()
        source.unlink()
        core.start()
        sent = sending.result(PATIENCE)
    assert sent.state is rtmw.TransferState.ACCEPTED
    assert [row["id"] for row in shown(sender)] == [str(sent.id)]


@BOTH
def test_a_file_that_is_sent_again_under_its_id_needs_not_be_there_any_more(
    sender: rtmw.Sender, folder: Path, tmp_path: Path, delivery: Delivery
) -> None:
    source = tmp_path / "x"
    written(source, 100_000)
    with rtmw.Inbox("ingest", folder=folder) as inbox:
        sent = sender.send("ingest", rtmw.File(source), delivery=delivery, id=7)
        take(inbox).consume()
        assert sent.wait(Level.CONSUMED, PATIENCE)
        source.unlink()
        again = sender.send("ingest", rtmw.File(source), delivery=delivery, id=7, wait=Level.CONSUMED)
        assert again.id == sent.id
        with pytest.raises(rtmw.TransferRefused, match="there is no such file"):
            sender.send("ingest", rtmw.File(source), delivery=delivery, id=8)


def test_t11_the_progress_of_files_for_this_node_is_in_bytes_of_their_content(
    sender: rtmw.Sender, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(bytes(3 * MIB))
    (tmp_path / "empty").write_bytes(b"")
    sent = sender.send("ingest", [rtmw.Part(b"12345"), rtmw.File(tmp_path / "x")])
    empty = sender.send("ingest", rtmw.File(tmp_path / "empty"))
    assert sent.progress == rtmw.Progress(rtmw.TransferState.ACCEPTED, 0, 3 * MIB + 5)
    with rtmw.Inbox("ingest", folder=folder) as inbox:
        for _ in (sent, empty):
            take(inbox).consume()
        for one in (sent, empty):
            assert one.wait(Level.CONSUMED, PATIENCE)
    assert (sent.progress.bytes, sent.progress.share) == (3 * MIB + 5, 1)
    assert (empty.progress.bytes, empty.progress.total, empty.progress.share) == (0, 0, 1)
