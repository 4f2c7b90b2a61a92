"""A node whose data was set back to an older state, and the nodes that have seen what came after that."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import rtmw
from rtmw import Delivery, Level
from rtmw.cli import main
from rtmw.transfer.place import Place
from tests.transfer.between.pair import Pair, opened, shown, take, until
from tests.transfer.core_process import PATIENCE


def sent(pair: Pair, tag: bytes, inbox: rtmw.Inbox) -> None:
    """Three letters of a start of the station, which the centre consumes."""
    with opened(lambda: rtmw.Sender("gauge", domain=pair.station.domain)) as sender:
        bodies = [b"%s %d" % (tag, number) for number in range(3)]
        sent = sender.send_many("ingest@centre", bodies, delivery=Delivery.LOG)
        for body in bodies:
            with take(inbox) as letter:
                assert letter.body == body
        assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)


def set_back(data: Path, backup: Path) -> None:
    """As a copy of the folder that is put back."""
    shutil.rmtree(data)
    shutil.copytree(backup, data)


def snapshot(data: Path, backup: Path) -> None:
    """As a snapshot of the whole disk does it: no number of any file says so."""
    set_back(data, backup)
    Place(data).keep()


def by_hand(data: Path, backup: Path) -> None:
    """The same, and somebody says so."""
    snapshot(data, backup)
    assert main(["transfers", "restored", str(data)]) == 0


def go_back(pair: Pair, inbox: rtmw.Inbox, way: Callable[[Path, Path], None]) -> None:
    """The station, which has ended, has its data of before its last letters."""
    data, backup = pair.folder / "station", pair.folder / "backup"
    sent(pair, b"before the backup", inbox)
    pair.station.terminate()
    shutil.copytree(data, backup)
    pair.station.start()
    sent(pair, b"after the backup", inbox)
    pair.station.terminate()
    way(data, backup)


@pytest.mark.parametrize("way", [set_back, by_hand])
# Proves G204.
def test_t8_letters_that_are_sent_after_a_backup_was_restored_are_no_duplicates(
    pair: Pair, inbox: rtmw.Inbox, way: Callable[[Path, Path], None]
) -> None:
    go_back(pair, inbox, way)
    pair.station.start()
    sent(pair, b"after it was restored", inbox)
    assert inbox.take(0) is None
    with rtmw.Sender("look", domain=pair.station.domain) as look:
        assert [event["what"] for event in shown(look, "events")] == ["RESTORED"]


@pytest.mark.parametrize("up_first", [True, False])
# Proves G204.
def test_t8_a_store_that_lies_behind_what_another_node_has_seen_begins_a_new_incarnation(
    pair: Pair, inbox: rtmw.Inbox, up_first: bool
) -> None:
    """The core ends when the other node says so; the next one sends what was accepted meanwhile under new ids."""
    go_back(pair, inbox, snapshot)
    if not up_first:
        pair.cable.take_down()
    pair.station.start()
    told = list[rtmw.Transfer]()
    with opened(lambda: rtmw.Sender("gauge", domain=pair.station.domain)) as sender:
        if not up_first:
            told = sender.send_many("ingest@centre", [b"new 0", b"new 1"], delivery=Delivery.LOG)
            pair.cable.put_up()
        until(lambda: not pair.station.alive, "the core ends")
        assert "was set back" in pair.station.log()
        pair.station.close_pipes()
        pair.station.start()
        if not up_first:
            for number in (0, 1):
                with take(inbox) as letter:
                    assert letter.body == b"new %d" % number
        for one in told:
            with pytest.raises(rtmw.TransferRefused, match="goes on as station:"):
                one.wait(Level.CONSUMED, PATIENCE)
    sent(pair, b"after it was set back", inbox)
    assert inbox.take(0) is None


def test_a_command_says_that_the_node_still_runs(pair: Pair, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["transfers", "restored", str(pair.folder / "station")]) == 1
    assert "writes to this log" in capfd.readouterr().err
