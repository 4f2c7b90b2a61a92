"""T2, T3, T4, T8 between two nodes: real cores over TLS."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw import Delivery, Level, TransferState
from tests.transfer.between.pair import MIB, Pair, cause, shown, take, until, written
from tests.transfer.core_process import PATIENCE

BOTH = pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])


@BOTH
# Proves T3.
def test_t3_each_level_is_reached_at_its_moment_at_the_other_node(
    sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery
) -> None:
    sent = sender.send("ingest@centre", b"level 4.2", delivery=delivery, wait=Level.SENT, timeout=PATIENCE)
    assert not sent.wait(Level.DELIVERED, 0)
    letter = take(inbox)
    assert (letter.body, letter.sender, letter.redelivered, letter.id) == (b"level 4.2", "gauge", 0, sent.id)
    assert sent.wait(Level.DELIVERED, PATIENCE)
    assert not sent.wait(Level.CONSUMED, 0)
    letter.consume()
    assert sent.wait(Level.CONSUMED, PATIENCE)
    until(lambda: not shown(sender), "nothing is left of it")


def test_t3_a_letter_that_goes_out_with_others_is_sent_when_the_other_node_has_it(
    sender: rtmw.Sender, pair: Pair
) -> None:
    pair.cable.take_down()
    sent = asyncio.run(sender.send_async("later@centre", b"x"))
    assert not sent.wait(Level.SENT, 0)
    pair.cable.put_up()
    assert sent.wait(Level.SENT, PATIENCE)


def test_t3_a_letter_that_is_refused_or_given_back_says_so_to_its_sender(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    sent = sender.send("ingest@centre", b"x", delivery=Delivery.LOG)
    take(inbox).give_back("busy")
    letter = take(inbox)
    assert letter.redelivered == 1
    letter.refuse("no such order")
    with pytest.raises(rtmw.TransferRefused, match="no such order"):
        sent.wait(Level.CONSUMED, PATIENCE)


def test_t2_of_small_ones_the_order_is_that_of_sending(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    for number in range(200):
        sender.send("ingest@centre", b"%d" % number, delivery=Delivery.LOG, wait=Level.NONE)
    for number in range(200):
        with take(inbox) as letter:
            assert letter.body == b"%d" % number


# Proves T2.
def test_t2_a_pid_and_each_at_the_other_node(sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair) -> None:
    sender.send(f"ingest/{os.getpid()}@centre", b"for it", wait=Level.SENT, timeout=PATIENCE)
    take(inbox).consume()
    with rtmw.Inbox("ingest", domain=pair.centre.domain) as other:
        sent = sender.send("ingest/*@centre", b"all", delivery=Delivery.LOG)
        take(inbox).consume()
        assert not sent.wait(Level.CONSUMED, 0.2)
        take(other).consume()
        assert sent.wait(Level.CONSUMED, PATIENCE)
    with pytest.raises(rtmw.TransferRefused, match="means nobody"):
        sender.send("nobody/*@centre", b"x", wait=Level.SENT, timeout=PATIENCE)


@BOTH
def test_t4_a_body_that_is_larger_than_a_window_comes_whole(
    sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery
) -> None:
    body = os.urandom(18 * MIB)
    sent = sender.send("ingest@centre", body, delivery=delivery, wait=Level.SENT, timeout=PATIENCE)
    with take(inbox) as letter:
        assert letter.body == body
    assert sent.wait(Level.CONSUMED, PATIENCE)


@BOTH
def test_t4_a_file_comes_whole_below_the_folder_of_the_inbox(
    sender: rtmw.Sender, inbox: rtmw.Inbox, tmp_path: Path, delivery: Delivery
) -> None:
    data = written(tmp_path / "run.mcap", 20 * MIB)
    sent = sender.send("ingest@centre", rtmw.File(tmp_path / "run.mcap", "in/run.mcap"), delivery=delivery)
    with take(inbox) as letter:
        assert letter.files == (tmp_path / "inbox" / "in" / "run.mcap",)
        assert letter.body.read_bytes() == data
    assert sent.wait(Level.CONSUMED, PATIENCE)
    assert letter.files[0].exists()
    assert (tmp_path / "run.mcap").exists()


# Proves G206.
def test_t4_the_second_of_two_senders_to_one_destination_is_told_that_it_is_taken(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair, tmp_path: Path
) -> None:
    for number, name in enumerate("abc"):
        (tmp_path / name).write_bytes(b"c" * 5 if name == "c" else name.encode() * (5 + number))
    first = sender.send("ingest@centre", rtmw.File(tmp_path / "a", "in/x"), delivery=Delivery.LOG)
    with take(inbox) as letter:
        with rtmw.Sender("other", domain=pair.station.domain) as other:
            for name in "bc":  # of another size, and of other bytes
                with pytest.raises(rtmw.TransferRefused, match=r"'in/x' is in .* already"):
                    other.send("ingest@centre", rtmw.File(tmp_path / name, "in/x"), wait=Level.SENT, timeout=PATIENCE)
        assert letter.files[0].read_bytes() == b"aaaaa"
    assert first.wait(Level.CONSUMED, PATIENCE)
    assert inbox.take(0) is None


# Proves T4.
def test_t4_a_composite_of_messages_and_files_is_one_letter(
    sender: rtmw.Sender, inbox: rtmw.Inbox, tmp_path: Path
) -> None:
    table = written(tmp_path / "table.csv", 300_000)
    written(tmp_path / "empty", 0)
    parts = [rtmw.Part(b"head"), rtmw.File(tmp_path / "table.csv"), rtmw.File(tmp_path / "empty", "in/empty")]
    sent = sender.send("ingest@centre", parts, delivery=Delivery.LOG)
    with take(inbox) as letter:
        head, first, second = letter.parts
        assert (head, first.read_bytes(), second.read_bytes()) == (b"head", table, b"")
        assert letter.files == (first, second)
        assert len({file.relative_to(tmp_path / "inbox").parts[0] for file in letter.files}) == 1
    assert sent.wait(Level.CONSUMED, PATIENCE)


# Proves T10.
def test_t10_files_of_a_transaction_come_when_it_is_committed_and_those_undone_never(
    sender: rtmw.Sender, inbox: rtmw.Inbox, tmp_path: Path
) -> None:
    for name in "abc":
        written(tmp_path / name, 100_000)
    with sender.transaction() as txn:
        txn.send("ingest@centre", rtmw.File(tmp_path / "a"))
        half = txn.savepoint("half")
        txn.send("ingest@centre", rtmw.File(tmp_path / "b"))
        txn.rollback(half)
        txn.send("ingest@centre", rtmw.File(tmp_path / "c"))
        assert inbox.take(0.2) is None
    assert sorted(take(inbox).files[0].name for _ in "ac") == ["a", "c"]
    assert sorted(path.name for path in (tmp_path / "inbox").iterdir()) == [".rtmw", "a", "c"]


def test_t8_a_small_raw_goes_at_once_or_is_lost_with_an_event(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair
) -> None:
    until(lambda: "node centre is connected" in pair.station.log(), "the session begins")
    sender.send("ingest@centre", b"raw", delivery=Delivery.SMALL_RAW)
    assert take(inbox).body == b"raw"
    sender.send("ingest@nowhere", b"raw", delivery=Delivery.SMALL_RAW)
    event = next(iter(sender.events()))
    assert (event.state, event.cause) == (TransferState.REFUSED, "lost: node 'nowhere' is not connected")


def test_t2_what_is_for_a_node_that_never_came_is_parked_and_says_why(sender: rtmw.Sender) -> None:
    sent = sender.send("ingest@nowhere", b"x", delivery=Delivery.LOG)
    assert cause(sender).startswith("node 'nowhere' is not connected")
    assert sent.cancel()
    until(lambda: sent.state is TransferState.CANCELLED, "its sender is told")


def test_what_nobody_takes_there_is_cancelled_there(sender: rtmw.Sender, pair: Pair) -> None:
    sent = sender.send("later@centre", b"x", delivery=Delivery.LOG, wait=Level.SENT, timeout=PATIENCE)
    assert sent.cancel()
    with rtmw.Inbox("later", domain=pair.centre.domain) as inbox:
        assert inbox.take(0.1) is None
        sent = sender.send("later@centre", b"y", delivery=Delivery.LOG)
        letter = take(inbox)
        assert not sent.cancel()
        letter.consume()
    assert sent.wait(Level.CONSUMED, PATIENCE)


def test_what_is_known_to_be_delivered_there_is_not_cancelled(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair
) -> None:
    sent = sender.send("ingest@centre", b"x", delivery=Delivery.LOG)
    with take(inbox):
        assert sent.wait(Level.DELIVERED, PATIENCE)
        assert not sent.cancel()
    assert sent.wait(Level.CONSUMED, PATIENCE)


def test_a_lifetime_that_ends_there_ends_it_here(sender: rtmw.Sender, pair: Pair) -> None:
    sent = sender.send("later@centre", b"x", delivery=Delivery.LOG, lifetime=1, wait=Level.SENT, timeout=PATIENCE)
    until(lambda: sent.state is TransferState.EXPIRED, "it expires")
    assert not shown(sender)
    with rtmw.Inbox("later", domain=pair.centre.domain) as inbox:
        assert inbox.take(0) is None


def test_a_file_waits_for_an_inbox_with_a_folder_and_says_so(sender: rtmw.Sender, pair: Pair, tmp_path: Path) -> None:
    written(tmp_path / "x", 100_000)
    sender.send("ingest@centre", rtmw.File(tmp_path / "x"), delivery=Delivery.LOG)
    with rtmw.Inbox("ingest", domain=pair.centre.domain) as without:
        until(lambda: "waits for an inbox of 'ingest' with a folder" in cause(sender), "it waits")
        assert without.take(0) is None
    with rtmw.Inbox("ingest", folder=pair.inbox, domain=pair.centre.domain) as inbox:
        assert take(inbox).files[0].name == "x"


def test_the_bytes_of_a_small_file_do_not_come_again_and_again_while_no_inbox_is_open(
    sender: rtmw.Sender, pair: Pair, tmp_path: Path
) -> None:
    data = written(tmp_path / "x", 60_000)
    sent = sender.send("ingest@centre", rtmw.File(tmp_path / "x"), delivery=Delivery.LOG)
    until(lambda: "waits for an inbox of 'ingest' with a folder" in cause(sender), "it waits")
    passed = pair.cable.relay.passed
    assert not sent.wait(Level.SENT, 3.5)
    assert pair.cable.relay.passed - passed < len(data)
    with rtmw.Inbox("ingest", folder=pair.inbox, domain=pair.centre.domain) as inbox:
        assert sent.wait(Level.SENT, 20)
        assert take(inbox).files[0].read_bytes() == data


def test_a_destination_outside_of_the_folder_is_refused(sender: rtmw.Sender, inbox: rtmw.Inbox, tmp_path: Path) -> None:
    written(tmp_path / "x", 100_000)
    with pytest.raises(rtmw.TransferRefused, match=r"the destination '\.\./y' is refused"):
        sender.send("ingest@centre", rtmw.File(tmp_path / "x", "../y"), wait=Level.SENT, timeout=PATIENCE)
    with pytest.raises(rtmw.TransferRefused, match="there is no such file"):
        sender.send("ingest@centre", rtmw.File(tmp_path / "missing"))
    with pytest.raises(ValueError, match="not sent as SMALL_RAW"):
        sender.send("ingest@centre", rtmw.File(tmp_path / "x"), delivery=Delivery.SMALL_RAW)


# Proves T11.
def test_t11_a_file_has_its_size_while_it_waits_and_its_progress_and_rate_while_it_is_sent(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair, tmp_path: Path
) -> None:
    until(lambda: "node centre is connected" in pair.station.log(), "the session begins")
    (tmp_path / "run.mcap").write_bytes(b"")
    os.truncate(tmp_path / "run.mcap", size := 256 * MIB)
    parts = [rtmw.Part(b"12345"), rtmw.File(tmp_path / "run.mcap", "a"), rtmw.File(tmp_path / "run.mcap", "b")]
    sender.send("ingest@nowhere", parts, delivery=Delivery.LOG)
    (row,) = shown(sender)
    assert (row["bytes"], row["sent"], row["rate"]) == (2 * size + 5, None, None)
    sender.send("ingest@centre", rtmw.File(tmp_path / "run.mcap"), delivery=Delivery.LOG)
    until(lambda: (_row(sender)["sent"] or 0) > 17 * MIB, "a block of it is durable there")
    assert _row(sender)["rate"] > 0
    pair.cable.take_down()
    row = _row(sender)
    assert (row["bytes"], row["sent"] < size) == (size, True)
    with rtmw.Sender("there", domain=pair.centre.domain) as there:
        (coming,) = shown(there, "arriving")
    assert (coming["from"], coming["to"], coming["bytes"]) == ("gauge@station", "ingest@centre", size)
    assert 0 < coming["got"] < size
    pair.station.kill()
    pair.station.start()
    until(lambda: 0 < (_row(sender)["sent"] or 0) <= row["sent"], "what was durable there is known")
    pair.cable.put_up()
    take(inbox).consume()


def _row(sender: rtmw.Sender) -> dict[str, Any]:
    """Of what is for the centre."""
    return next(row for row in shown(sender) if row["to"] == "ingest@centre")
