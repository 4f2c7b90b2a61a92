"""T7, T8 between two nodes: cores that are killed, cables that are cut, rights, full disks, sources that change."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

import rtmw
from rtmw import Delivery, Level, TransferState
from tests import namespaces
from tests.transfer.between.pair import LEASE_S, MIB, Pair, arrived, cause, opened, shown, take, until, written
from tests.transfer.core_process import CHANGED, KILLED, PATIENCE


@pytest.mark.parametrize("letters", [1, 3])
def test_t3_what_is_sent_with_log_is_on_the_disk_of_the_receivers_node(stopped: Pair, letters: int) -> None:
    """Its core dies when records are about to go there: whatever the sender was told before is there."""
    pair, sent = stopped, list[rtmw.Transfer]()
    pair.station.start()
    pair.centre.start(KILLED, "--lost", "--batches", str(letters))
    with opened(lambda: rtmw.Sender("gauge", domain=pair.station.domain)) as sender:
        while pair.centre.alive:
            sent.append(sender.send("ingest@centre", b"%d" % len(sent), delivery=Delivery.LOG))
            until(lambda: sent[-1].state is not TransferState.ACCEPTED or not pair.centre.alive, "it is SENT")
        pair.cable.take_down()  # nothing is sent again
        told = [b"%d" % number for number, one in enumerate(sent) if one.state is TransferState.SENT]
        assert len(told) == letters - 1, "the last one was not told"
        pair.centre.close_pipes()
        pair.centre.start()
        pair.centre.wait_until_ready()
        with rtmw.Inbox("ingest", domain=pair.centre.domain) as inbox:
            assert [take(inbox).body for _ in told] == told


@pytest.mark.parametrize("count", [1, 2, 300])
# Proves G197.
def test_t8_letters_that_wait_for_a_node_when_their_core_dies_are_sent_by_the_next_one_in_their_order(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair, count: int
) -> None:
    pair.cable.take_down()
    sent = sender.send_many("ingest@centre", [b"%d" % number for number in range(count)], delivery=Delivery.LOG)
    pair.station.kill()
    pair.station.start()
    pair.cable.put_up()
    for number in range(count):
        with take(inbox) as letter:
            assert letter.body == b"%d" % number
    assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)
    assert inbox.take(0) is None


@pytest.mark.parametrize("ahead_s", [-240, 240])
def test_a_lifetime_is_what_is_left_of_it_where_the_clocks_of_two_nodes_differ(stopped: Pair, ahead_s: int) -> None:
    pair = stopped
    pair.centre.start()
    pair.station.start(CHANGED, "--wall", str(ahead_s))
    with opened(lambda: rtmw.Sender("gauge", domain=pair.station.domain)) as sender:
        short = sender.send("ingest@centre", b"short", lifetime=1.0, wait=Level.SENT, timeout=PATIENCE)
        long = sender.send("ingest@centre", b"long", lifetime=60.0, wait=Level.SENT, timeout=PATIENCE)
        until(lambda: short.state is TransferState.EXPIRED, "it expires at the centre")
        with rtmw.Inbox("ingest", domain=pair.centre.domain) as inbox, take(inbox) as letter:
            assert letter.body == b"long"
        assert long.wait(Level.CONSUMED, PATIENCE)


@pytest.mark.parametrize("seconds", [0, 1.5 * LEASE_S])
# Proves G197, T7.
def test_t7_a_file_goes_on_where_it_stood_after_a_cut(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair, tmp_path: Path, seconds: float
) -> None:
    """Shorter than the lease, and longer: then its stream is lost, too."""
    data = written(tmp_path / "run.mcap", 64 * MIB)
    sent = sender.send("ingest@centre", rtmw.File(tmp_path / "run.mcap"), delivery=Delivery.LOG)
    until(lambda: arrived(pair) > 40 * MIB, "most of it has come")
    pair.cable.take_down()
    time.sleep(seconds)  # the pause is what is tested
    assert not sent.wait(Level.SENT, 0)
    pair.cable.put_up()
    with take(inbox) as letter:
        assert letter.files[0].read_bytes() == data
    assert sent.wait(Level.CONSUMED, PATIENCE)
    assert len(pair.cable.relay.forth) < 42 * MIB


# Proves G197.
def test_a_sender_without_the_right_is_refused_with_the_rule_and_another_rule_lets_it_in(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair, tmp_path: Path
) -> None:
    written(tmp_path / "x", 100_000)
    rules = '[[allow]]\npeer = "rtmw://plant/station"\nsend = ["ingest@centre"]\nmax_size = "64K"\n'
    pair.rule(pair.centre, rules)
    until(lambda: not _passes(sender, "other@centre", b"x"), "the rules are others")
    for to, body, words in (
        ("other@centre", b"x", "no rule allows this peer to send it"),
        (
            "ingest@centre",
            rtmw.File(tmp_path / "x"),
            r"97.7 KiB are more than 64.0 KiB, which the rule allows \(.*line",
        ),
    ):
        with pytest.raises(rtmw.TransferRefused, match=f"station may not send to {to}: {words}"):
            sender.send(to, body, delivery=Delivery.LOG, wait=Level.SENT, timeout=PATIENCE)
    assert _passes(sender, "ingest@centre", b"small")
    assert take(inbox).body == b"small"
    assert [path.name for path in pair.inbox.iterdir() if path.name != ".rtmw"] == []


def _passes(sender: rtmw.Sender, to: str, body: object) -> bool:
    try:
        sender.send(to, body, wait=Level.SENT, timeout=PATIENCE)
    except rtmw.TransferRefused:
        return False
    return True


# Proves G197.
def test_a_source_that_is_written_to_before_it_was_sent_arrives_not_at_all(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair, tmp_path: Path
) -> None:
    until(lambda: "node station is connected" in pair.centre.log(), "the session begins")
    pair.cable.take_down()
    until(lambda: "node centre is gone" in pair.station.log(), "the session is over")
    written(tmp_path / "x", 100_000)
    sent = sender.send("ingest@centre", rtmw.File(tmp_path / "x"), delivery=Delivery.LOG)
    with (tmp_path / "x").open("r+b") as file:
        file.write(b"another head")
    pair.cable.put_up()
    with pytest.raises(rtmw.SourceChanged, match="was changed while it was being sent"):
        sent.wait(Level.SENT, PATIENCE)
    assert inbox.take(0) is None
    assert [path.name for path in pair.inbox.iterdir() if path.name != ".rtmw"] == []


def test_a_lifetime_that_ends_while_the_node_is_away_ends_it(sender: rtmw.Sender, pair: Pair) -> None:
    until(lambda: "node station is connected" in pair.centre.log(), "the session begins")
    pair.cable.take_down()
    sent = sender.send("ingest@centre", b"x", delivery=Delivery.LOG, lifetime=0.3)
    until(lambda: sent.state is not TransferState.ACCEPTED or cause(sender) != "", "it waits")
    pair.cable.put_up()
    until(lambda: sent.state is TransferState.EXPIRED, "it has expired, wherever it was")
    with rtmw.Inbox("ingest", domain=pair.centre.domain) as inbox:
        assert inbox.take(0.1) is None


# Proves G201.
def test_what_is_cancelled_after_its_folder_is_gone_ends_and_the_core_goes_on(
    sender: rtmw.Sender, pair: Pair, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"")
    os.truncate(tmp_path / "x", 512 * MIB)
    with rtmw.Inbox("ingest", folder=pair.inbox, domain=pair.centre.domain):
        sent = sender.send("ingest@centre", rtmw.File(tmp_path / "x"), delivery=Delivery.LOG)
        until(lambda: arrived(pair) > 0, "a part of it has come")
        pair.cable.take_down()
    pair.centre.kill()
    shutil.rmtree(pair.inbox)
    pair.centre.start()
    pair.centre.wait_until_ready()
    cancelling = threading.Thread(target=sent.cancel)
    cancelling.start()
    pair.cable.put_up()
    until(lambda: sent.state is TransferState.CANCELLED, "it is cancelled")
    cancelling.join()
    until(lambda: f"what has come of transfer {sent.id} is not removed" in pair.centre.log(), "the centre is told")
    sender.send("other@centre", b"x", delivery=Delivery.LOG, wait=Level.SENT, timeout=PATIENCE)


def test_a_cancel_ends_with_the_session_and_takes_effect_with_the_next_one(sender: rtmw.Sender, pair: Pair) -> None:
    sent = sender.send("later@centre", b"x", delivery=Delivery.LOG, wait=Level.SENT, timeout=PATIENCE)
    pair.cable.take_down()
    assert not sent.cancel()
    assert sent.state is TransferState.SENT
    pair.cable.put_up()
    until(lambda: sent.state is TransferState.CANCELLED, "it is cancelled")


# Proves G203.
def test_the_part_of_a_node_that_does_not_come_back_is_shown_and_freed_with_an_event(
    stopped: Pair, tmp_path: Path
) -> None:
    pair = stopped
    pair.centre.start(CHANGED, "--left", "1")
    pair.station.start()
    data = written(tmp_path / "x", 40 * MIB)
    with (
        opened(lambda: rtmw.Inbox("ingest", folder=pair.inbox, domain=pair.centre.domain)) as inbox,
        opened(lambda: rtmw.Sender("gauge", domain=pair.station.domain)) as sender,
        rtmw.Sender("there", domain=pair.centre.domain) as there,
        rtmw.Subscriber("rtmw/transfer/events", domain=pair.centre.domain) as events,
    ):
        sender.send("ingest@centre", rtmw.File(tmp_path / "x"), delivery=Delivery.LOG)
        until(lambda: arrived(pair) > 10 * MIB, "a part of it has come")
        pair.cable.take_down()
        until(lambda: [row["waits"] for row in shown(there, "arriving")] == [True], "it is shown")
        until(lambda: any(b"FREED" in sample.value for sample in events.take_many(64)), "it is freed")
        assert shown(there, "arriving") == []
        assert list((pair.inbox / ".rtmw").iterdir()) == []
        pair.cable.put_up()
        assert take(inbox).files[0].read_bytes() == data


@pytest.fixture
def small_disk(stopped: Pair) -> Pair:
    """The centre's core has a disk of 4 MiB below the inbox's folder."""
    mount = f"mount -t tmpfs -o size=4m tmpfs {stopped.inbox}"
    namespaces.require("unshare", "--mount", "sh", "-c", mount)
    stopped.centre.enter = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$0" "$@"']
    stopped.start()
    return stopped


# Proves G197.
def test_what_the_receivers_disk_has_no_room_for_waits_and_says_so(small_disk: Pair, tmp_path: Path) -> None:
    pair = small_disk
    written(tmp_path / "x", 6 * MIB)
    small = written(tmp_path / "y", MIB)
    with (
        rtmw.Sender("gauge", domain=pair.station.domain) as sender,
        rtmw.Inbox("ingest", folder=pair.inbox, domain=pair.centre.domain) as inbox,
    ):
        sender.send("ingest@centre", rtmw.File(tmp_path / "x"), delivery=Delivery.LOG)
        until(lambda: "6291456 bytes are to come" in cause(sender), "it says why it waits")
        sender.send("ingest@centre", rtmw.File(tmp_path / "y"), delivery=Delivery.LOG)
        letter = take(inbox)
        assert letter.files[0].name == "y"
        seen = Path(f"/proc/{pair.centre.process.pid}/root") / letter.files[0].relative_to("/")
        assert seen.read_bytes() == small
        inside = ["nsenter", "--target", str(pair.centre.process.pid), "--mount"]
        subprocess.run([*inside, "mount", "-o", "remount,size=16m", str(pair.inbox)], check=True)
        assert take(inbox).files[0].name == "x"


def test_sighup_connects_to_a_place_that_it_brings_and_ends_the_session_with_one_that_it_takes_away(
    stopped: Pair,
) -> None:
    pair, settings = stopped, stopped.folder / "station.toml"
    with_place = settings.read_text()
    settings.write_text("")
    pair.start()

    def said(what: str, times: int) -> None:
        until(lambda: pair.centre.log().count(f"node station is {what}") == times, f"it is {what}")

    for times in (1, 2):
        settings.write_text(with_place)
        pair.station.process.send_signal(signal.SIGHUP)
        said("connected", times)
        settings.write_text("\n".join(line for line in with_place.splitlines() if not line.startswith("connect")))
        pair.station.process.send_signal(signal.SIGHUP)
        said("gone", times)
        assert "was taken out of connect" in pair.centre.log()
