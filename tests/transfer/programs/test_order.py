"""T3, T4 on one host: letters and files of one sender, of one priority and class, come in the order of sending."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import rtmw
from rtmw import Delivery, Level
from tests.transfer.between.pair import cause, opened, shown, take, until, written
from tests.transfer.core_process import KILLED, PATIENCE, CoreProcess
from tests.whole import sample

KINDS = ("letter", "file", "large letter", "letter", "large file", "composite", "file", "letter")


def content(folder: Path, number: int) -> rtmw.Part | rtmw.File | bytes | list[rtmw.Part | rtmw.File]:
    """Number `number` of what a sender sends; `folder` is that of its files."""
    kind, name = KINDS[number % len(KINDS)], f"{number}"
    if kind in ("letter", "large letter"):
        return b"%06d" % number + bytes(70_000 if kind == "large letter" else 10)
    if kind != "composite":
        written(folder / name, 200_000 if kind == "large file" else 3_000)
        return rtmw.File(folder / name, name)
    written(folder / name, 1_000)
    return [rtmw.Part(b"%06d" % number), rtmw.File(folder / name, name)]


def number_of(letter: rtmw.Letter) -> int:
    return int(letter.files[0].name) if letter.files else int(bytes(letter.body[:6]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inbox").mkdir()
    return tmp_path / "inbox"


@pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])
def test_letters_and_files_of_a_sender_are_taken_in_the_order_of_sending(
    sender: rtmw.Sender, folder: Path, tmp_path: Path, delivery: Delivery
) -> None:
    count = 5 * len(KINDS)
    with rtmw.Inbox("ingest", folder=folder) as inbox:
        for number in range(count):
            sender.send("ingest", content(tmp_path, number), delivery=delivery)
        taken: list[int] = []
        for _ in range(count):
            with take(inbox) as letter:
                taken.append(number_of(letter))
    assert taken == list(range(count))


def test_what_was_sent_before_an_inbox_with_a_folder_was_opened_comes_in_order(
    sender: rtmw.Sender, folder: Path, tmp_path: Path
) -> None:
    for number in range(len(KINDS)):
        sender.send("ingest", content(tmp_path, number), delivery=Delivery.LOG)
    waits = "waits for an inbox of 'ingest' with a folder"
    until(lambda: any(waits in row["cause"] for row in shown(sender)), "the first file waits")
    with rtmw.Inbox("ingest", folder=folder) as inbox:
        taken: list[int] = []
        for _ in KINDS:
            with take(inbox) as letter:
                taken.append(number_of(letter))
    assert taken == list(range(len(KINDS)))


def test_a_file_that_no_inbox_can_take_is_passed_over_and_that_is_shown(
    sender: rtmw.Sender, folder: Path, tmp_path: Path
) -> None:
    sender.send("ingest", content(tmp_path, 1), delivery=Delivery.LOG)
    with rtmw.Inbox("ingest") as inbox:
        sender.send("ingest", b"behind it", delivery=Delivery.LOG)
        with take(inbox) as letter:
            assert letter.body == b"behind it"
        assert cause(sender) == (
            "waits for an inbox of 'ingest' with a folder; none is open there; what was sent after it does not wait "
            "for it"
        )
        assert shown(sender)[0]["sent"] is None
    with rtmw.Inbox("ingest", folder=folder) as inbox, take(inbox) as letter:
        assert number_of(letter) == 1


@pytest.mark.parametrize("batches", sample(range(4, 60, 2), 4))
# Proves G196.
def test_the_order_outlives_the_core(core: CoreProcess, folder: Path, tmp_path: Path, batches: int) -> None:
    """The core is killed behind any record while letters and files are on their way."""
    core.kill()
    core.start(KILLED, "--batches", str(batches))

    def follow() -> None:
        core.process.wait(PATIENCE)
        core.close_pipes()
        core.start()

    following = threading.Thread(target=follow)
    following.start()
    count, taken = 2 * len(KINDS), list[int]()
    with (
        opened(lambda: rtmw.Inbox("ingest", folder=folder)) as inbox,
        opened(lambda: rtmw.Sender("gauge")) as sender,
    ):
        sent = [sender.send("ingest", content(tmp_path, number), delivery=Delivery.LOG) for number in range(count)]
        while len(set(taken)) < count:
            with take(inbox) as letter:
                taken.append(number_of(letter))
        assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)
        if following.is_alive():  # so few records were logged in this life
            core.process.kill()
        following.join()
    assert list(dict.fromkeys(taken)) == list(range(count))
