"""T8: NORMAL letters between two nodes when a core dies: no log has them, and their senders are told so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import rtmw
from rtmw import Delivery, Level, TransferState
from rtmw.transfer.carry.journal import Journal
from tests.transfer.between.pair import MIB, Pair, shown, take, until, written
from tests.transfer.core_process import PATIENCE


# Proves G198, T8.
def test_t8_normal_what_the_receiving_core_has_when_it_dies_is_sent_again_and_consumed_once(
    sender: rtmw.Sender, pair: Pair
) -> None:
    sent = [sender.send("ingest@centre", b"%d" % one, wait=Level.SENT, timeout=PATIENCE) for one in range(8)]
    pair.centre.kill()
    pair.centre.start()
    pair.centre.wait_until_ready()
    with rtmw.Inbox("ingest", domain=pair.centre.domain) as inbox:
        bodies = set[object]()
        for _ in sent:
            with take(inbox) as letter:
                bodies.add(letter.body)
        assert inbox.take(0.2) is None
    assert bodies == {b"%d" % one for one in range(8)}
    assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)


# Proves G198.
def test_t8_normal_a_letter_in_hand_when_the_receiving_core_dies_comes_again_under_its_id(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair
) -> None:
    sent = sender.send("ingest@centre", b"level 4.2")
    first = take(inbox)
    assert sent.wait(Level.DELIVERED, PATIENCE)
    pair.centre.kill()
    pair.centre.start()
    second = take(inbox)
    assert (second.id, second.body) == (first.id, b"level 4.2") == (sent.id, b"level 4.2")
    second.consume()
    assert sent.wait(Level.CONSUMED, PATIENCE)
    assert inbox.take(0.2) is None


def test_t8_normal_what_was_consumed_behind_a_cut_comes_again_if_the_receiving_core_dies_there(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair
) -> None:
    """Nobody who lives knows that it was consumed: at least once, and not at most once."""
    sent = sender.send("ingest@centre", b"level 4.2", wait=Level.SENT, timeout=PATIENCE)
    pair.cable.take_down()
    first = take(inbox)
    first.consume()
    pair.centre.kill()
    pair.centre.start()
    pair.cable.put_up()
    second = take(inbox)
    assert second.id == first.id
    second.consume()
    assert sent.wait(Level.CONSUMED, PATIENCE)


@pytest.mark.parametrize("kind", ["bytes", "file"])
# Proves G198.
def test_t8_normal_a_sender_whose_core_dies_is_told_unknown_and_what_was_sent_comes_once(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair, tmp_path: Path, kind: str
) -> None:
    written(tmp_path / "x", 100_000)
    body = b"level 4.2" if kind == "bytes" else rtmw.File(tmp_path / "x")
    sent = sender.send("ingest@centre", body, wait=Level.SENT, timeout=PATIENCE)
    waits = sender.send("ingest@nowhere", body)
    kept = sender.send("ingest@nowhere", body, delivery=Delivery.LOG)
    pair.station.kill()
    pair.station.start()
    until(lambda: sent.state is TransferState.UNKNOWN, "the next core does not know it")
    until(lambda: waits.state is TransferState.UNKNOWN, "nor what was not sent")
    assert kept.state is TransferState.ACCEPTED
    for one in (sent, waits):
        with pytest.raises(rtmw.TransferError, match="nobody knows whether it was CONSUMED"):
            one.wait(Level.CONSUMED, PATIENCE)
    with take(inbox) as letter:
        assert letter.id == sent.id
    assert inbox.take(0.2) is None
    assert [row["id"] for row in shown(sender)] == [str(kept.id)]
    pair.station.terminate()
    if kind == "file":
        with Journal(pair.station.data / "journal") as journal:
            assert set(journal.going) == {kept.id}, "of what is not sent any more, no source is remembered"


# Proves G201.
def test_t8_normal_nothing_is_kept_of_a_file_whose_core_has_died_while_it_was_sent(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"")
    os.truncate(tmp_path / "x", 512 * MIB)
    sender.send("ingest@centre", rtmw.File(tmp_path / "x"))
    staging = pair.inbox / ".rtmw"
    until(lambda: staging.exists() and list(staging.iterdir()), "a part of it has come")
    pair.station.kill()
    assert list(staging.iterdir())
    pair.station.start()
    until(lambda: not list(staging.iterdir()), "it is discarded, since nobody sends the rest")
    pair.station.wait_until_ready()
    assert shown(sender) == []
    descriptors = Path(f"/proc/{pair.centre.process.pid}/fd")
    until(lambda: all("/.rtmw" not in os.readlink(one) for one in descriptors.iterdir()), "nor is a file open")
