"""T11 between two nodes: how far a transfer is, as its sender is told it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw import Delivery, Level, Progress, TransferState
from tests.transfer.between.pair import MIB, Pair, shown, take, until, written
from tests.transfer.core_process import PATIENCE

SIZE = 256 * MIB
WINDOW = 16 * MIB


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A file that goes for a while, with nothing in it."""
    path = tmp_path / "run.mcap"
    path.write_bytes(b"")
    os.truncate(path, SIZE)
    return path


def cut_on_the_way(pair: Pair, sent: rtmw.Transfer) -> list[Progress]:
    """What its sender is told, from now on; the cable is down, and a part is there."""
    told: list[Progress] = []
    sent.on_progress(told.append)
    until(lambda: told[-1].bytes, "its sender is told that a part is there")
    pair.cable.take_down()
    assert 0 < sent.progress.share < 1
    return told


@pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])
# Proves T11.
def test_t11_a_sender_is_told_again_and_again_how_much_of_a_file_the_core_of_its_receiver_has(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair, large: Path, delivery: Delivery
) -> None:
    sent = sender.send("ingest@centre", rtmw.File(large), delivery=delivery)
    told = cut_on_the_way(pair, sent)
    pair.cable.put_up()
    take(inbox).consume()
    assert sent.wait(Level.CONSUMED, PATIENCE)
    assert {one.total for one in told} == {SIZE}
    assert [one.bytes for one in told] == sorted(one.bytes for one in told)
    assert (told[0].state, told[-1]) == (TransferState.ACCEPTED, Progress(TransferState.CONSUMED, SIZE, SIZE))
    assert any(0 < one.share < 1 for one in told)


def test_t7_the_window_of_a_transfer_is_visible(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair, large: Path
) -> None:
    os.truncate(large, 4 * SIZE)
    sender.send("ingest@centre", rtmw.File(large))
    rows = list[dict[str, Any]]()

    def is_under_way() -> bool:
        (row,) = shown(sender)
        if row["limit"] is not None and row["state"] == "ACCEPTED":
            rows.append(row)
        return bool(rows) and rows[-1]["received"] > 2 * WINDOW

    until(is_under_way, "more than the window is there")
    assert all(row["received"] <= (row["sent"] or 0) <= row["limit"] <= row["received"] + WINDOW for row in rows)
    pair.cable.take_down()
    until(lambda: shown(sender)[0]["limit"] is None, "it is not on its way")
    assert shown(sender)[0]["received"] is None


def test_t11_after_a_restart_of_the_senders_core_its_program_is_told_where_the_file_stands(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair, large: Path
) -> None:
    sent = sender.send("ingest@centre", rtmw.File(large), delivery=Delivery.LOG)
    until(lambda: sent.progress.bytes > WINDOW, "so much is there that both journals know of it")
    pair.cable.take_down()
    pair.station.kill()
    sent._advanced = {}  # as of a program that was told nothing yet
    pair.station.start()
    until(lambda: sent.progress.total == SIZE, "the next core says how far it is")
    (row,) = shown(sender)
    assert 0 < sent.progress.bytes == row["sent"] < SIZE
    pair.cable.put_up()
    take(inbox).consume()
    assert sent.wait(Level.CONSUMED, PATIENCE)


def test_t11_so_it_is_of_a_large_body(sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair) -> None:
    pair.cable.take_down()
    sent = sender.send("ingest@centre", bytes(SIZE // 2))
    assert sent.progress == Progress(TransferState.ACCEPTED, 0, SIZE // 2)
    pair.cable.put_up()
    cut_on_the_way(pair, sent)
    pair.cable.put_up()
    assert sent.wait(Level.SENT, PATIENCE)
    assert sent.progress.share == 1


def test_t11_who_sends_a_file_again_with_its_id_is_told_where_it_stands(
    sender: rtmw.Sender, inbox: rtmw.Inbox, pair: Pair, large: Path
) -> None:
    sent = sender.send("ingest@centre", rtmw.File(large), delivery=Delivery.LOG, id="run 7")
    cut_on_the_way(pair, sent)
    with rtmw.Sender("gauge", domain=pair.station.domain) as other:
        again = other.send("ingest@centre", rtmw.File(large), delivery=Delivery.LOG, id="run 7")
        until(lambda: sent.progress == again.progress, "both know the same")
        assert 0 < again.progress.share < 1
        pair.cable.put_up()
        take(inbox).consume()
        assert again.wait(Level.CONSUMED, PATIENCE)
        late = other.send("ingest@centre", rtmw.File(large), delivery=Delivery.LOG, id="run 7")
        assert late.progress == Progress(TransferState.CONSUMED, SIZE, SIZE)


def test_t11_of_what_is_for_an_absent_node_nothing_is_there_and_its_size_is_that_of_its_content(
    sender: rtmw.Sender, tmp_path: Path
) -> None:
    size = len(written(tmp_path / "x", 300_000))
    file, parts = rtmw.File(tmp_path / "x"), [rtmw.Part(b"12345"), rtmw.File(tmp_path / "x", "y")]
    waiting = TransferState.ACCEPTED
    assert sender.send("ingest@nowhere", file).progress == Progress(waiting, 0, size)
    assert sender.send("ingest@nowhere", file, delivery=Delivery.LOG).progress == Progress(waiting, 0, size)
    assert sender.send("ingest@nowhere", parts).progress == Progress(waiting, 0, size + 5)
    assert sender.send("ingest@nowhere", b"letter").progress == Progress(waiting, 0, 6)
    letter = asyncio.run(sender.send_async("ingest@nowhere", b"letter"))
    assert letter.progress == Progress(waiting, 0, 6)
