"""T8: what is left when a core, a sender or a receiver dies, at any moment."""

from __future__ import annotations

import asyncio
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import rtmw
from rtmw import Delivery, Level, TransferState
from tests.child import Spawn
from tests.transfer.core_process import PATIENCE, CoreProcess
from tests.whole import sample

BATCHES = 33
"""Of records that the work below makes, about."""


def work(core: CoreProcess, count: int) -> tuple[list[str], Counter[str]]:
    """A sender and an inbox go on while the core dies and comes: what was sent, and what was consumed how often."""
    sent: list[str] = []
    consumed: Counter[str] = Counter()

    def send() -> None:
        with rtmw.Sender("gauge") as sender:
            for number in range(count):
                if number % 3:
                    sender.send("ingest", b"%d" % number, delivery=Delivery.LOG, timeout=PATIENCE)
                    sent.append(str(number))
                    continue
                try:
                    with sender.transaction() as txn:
                        for part in "ab":
                            txn.send("ingest", f"{number}{part}".encode())
                        half = txn.savepoint("half")
                        txn.send("ingest", b"never")
                        txn.rollback(half)
                    sent.extend((f"{number}a", f"{number}b"))
                except rtmw.TransferError as error:
                    if not re.search("undone|not open", str(error)):
                        raise

    with ThreadPoolExecutor(1) as threads, rtmw.Inbox("ingest") as inbox:
        sending, end = threads.submit(send), time.monotonic() + PATIENCE
        while (not sending.done() or len(consumed) < len(sent)) and time.monotonic() < end:
            letter = inbox.take(0.2)
            if letter is not None:
                with letter:
                    consumed[letter.body.decode()] += 1
        sending.result()
    return sent, consumed


@contextmanager
def killed_behind(core: CoreProcess, batches: int) -> Generator[None]:
    """Another core, which dies as soon as so many batches of its records are durable; and the one that follows it."""
    core.kill()
    core.start("tests.transfer.mortal_core", "--batches", str(batches))

    def follow() -> None:
        core.process.wait(PATIENCE)
        core.close_pipes()
        core.start()

    following = threading.Thread(target=follow)
    following.start()
    yield
    following.join()


@pytest.mark.parametrize("batches", sample(range(2, BATCHES), 4))
# Proves G176, T8.
def test_t8_log_the_core_is_killed_behind_a_record_and_each_letter_is_consumed_once(
    core: CoreProcess, batches: int
) -> None:
    with killed_behind(core, batches):
        sent, consumed = work(core, 8)
    assert set(consumed) == set(sent)
    assert set(consumed.values()) == {1}


SENDER = """
    import rtmw
    with rtmw.Sender("child") as sender:
        txn = sender.transaction()
        txn.send("ingest", b"never")
        txn.savepoint("half")
        for number in range(10_000):
            sender.send("ingest", b"%d" % number, delivery=rtmw.Delivery.LOG)
            print(number, flush=True)
"""


# Proves G176.
def test_t8_what_a_killed_sender_was_told_is_accepted_is_there_and_its_transaction_is_undone(
    core: CoreProcess, spawn: Spawn
) -> None:
    child = spawn(SENDER)
    last = 0
    while last < 25:
        last = int(child.line())
    child.kill()
    with rtmw.Inbox("ingest") as inbox:
        found: list[int] = []
        while (letter := inbox.take(0.5)) is not None:
            with letter:
                found.append(int(letter.body))
    assert found == list(range(len(found)))
    assert len(found) > last


RECEIVER = """
    import rtmw
    with rtmw.Inbox("ingest") as inbox:
        letter = inbox.take(20)
        print(letter.body.decode(), letter.redelivered, flush=True)
        input()
"""


@pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])
# Proves G176.
def test_t8_a_receiver_that_dies_before_it_has_consumed_is_followed_by_another(
    core: CoreProcess, sender: rtmw.Sender, spawn: Spawn, delivery: Delivery
) -> None:
    sent = sender.send("ingest", b"x", delivery=delivery)
    for turn in range(3):
        child = spawn(RECEIVER)
        assert child.line() == f"x {turn}"
        assert sent.wait(Level.DELIVERED, PATIENCE)
        child.kill()
    with rtmw.Inbox("ingest") as inbox:
        letter = inbox.take(PATIENCE)
        assert letter is not None
        assert letter.redelivered == 3


def test_t8_a_small_raw_is_lost_with_its_receiver(core: CoreProcess, sender: rtmw.Sender, spawn: Spawn) -> None:
    sender.send("ingest", b"x", delivery=Delivery.SMALL_RAW)
    child = spawn(RECEIVER)
    assert child.line() == "x 0"
    child.kill()
    with rtmw.Inbox("ingest") as inbox:
        assert inbox.take(0.2) is None


def test_t2_what_is_for_one_process_is_a_dead_letter_when_that_dies(
    core: CoreProcess, sender: rtmw.Sender, spawn: Spawn
) -> None:
    sender.send("ingest", b"first")
    child = spawn(RECEIVER)
    assert child.line() == "first 0"
    sent = sender.send(f"ingest/{child.pid}", b"for it alone", delivery=Delivery.LOG)
    child.kill()
    with rtmw.Inbox("ingest") as inbox:
        with pytest.raises(rtmw.TransferRefused, match=r"is DEAD.*has ended"):
            sent.wait(Level.DELIVERED, PATIENCE)
        letter = inbox.take(PATIENCE)
        assert letter is not None
        assert letter.body == b"first"
        assert inbox.take(0) is None


def test_t8_after_a_restart_of_the_core_normal_is_unknown_and_log_goes_on(
    core: CoreProcess, sender: rtmw.Sender
) -> None:
    normal = sender.send("ingest", b"normal")
    logged = sender.send("ingest", b"logged", delivery=Delivery.LOG)
    core.kill()
    core.start()
    with pytest.raises(rtmw.TransferError, match=r"nobody knows whether it was CONSUMED.*Delivery\.LOG"):
        normal.wait(Level.CONSUMED, PATIENCE)
    assert normal.state is TransferState.UNKNOWN
    with rtmw.Inbox("ingest") as inbox:
        letter = inbox.take(PATIENCE)
        assert letter is not None
        assert letter.body == b"logged"
        letter.consume()
    assert logged.wait(Level.CONSUMED, PATIENCE)


def test_a_letter_that_was_handed_over_before_the_core_died_is_consumed_with_the_next_core(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    sent = sender.send("ingest", b"x", delivery=Delivery.LOG)
    letter = inbox.take(PATIENCE)
    assert letter is not None
    core.kill()
    core.start()
    letter.consume()
    assert sent.wait(Level.CONSUMED, PATIENCE)
    assert inbox.take(0) is None


@pytest.mark.parametrize("batches", [2, 3, 4])
# Proves G180.
def test_t3_a_core_that_dies_behind_a_record_has_told_nobody_and_the_next_one_tells(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox, batches: int
) -> None:
    """The records are START, ENQUEUE, TAKE and CONSUMED: what it says of each of them goes out later."""
    with killed_behind(core, batches):
        sent = sender.send("ingest", b"x", delivery=Delivery.LOG)
        letter = inbox.take(PATIENCE)
        assert letter is not None
        letter.consume()
        assert sent.wait(Level.CONSUMED, PATIENCE)
    assert sent.state is TransferState.CONSUMED
    assert inbox.take(0) is None


def test_an_open_transaction_ends_with_its_core_and_says_so(core: CoreProcess, sender: rtmw.Sender) -> None:
    txn = sender.transaction()
    txn.send("ingest", b"never")
    txn.savepoint()
    core.kill()
    core.start()
    core.wait_until_ready()
    with pytest.raises(rtmw.TransferError, match="core was started anew; begin a new one"):
        txn.commit()
    with rtmw.Inbox("ingest") as inbox:
        assert inbox.take(0) is None


def test_a_stopped_core_holds_a_call_up_to_its_timeout_and_then_goes_on(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    core.stop()
    with pytest.raises(TimeoutError, match="it goes on"):
        sender.send("ingest", b"x", timeout=0.2)
    core.go_on()
    letter = inbox.take(PATIENCE)
    assert letter is not None
    assert letter.body == b"x"


@pytest.mark.parametrize("timeout", [0, 0.2])
@pytest.mark.parametrize("in_task", [False, True], ids=["thread", "task"])
def test_a_take_ends_although_the_core_is_stopped_and_the_letter_is_that_of_the_next_call(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox, timeout: float, in_task: bool
) -> None:
    core.stop()
    sender.send("ingest", b"x", wait=Level.NONE)
    taken = asyncio.run(inbox.take_async(timeout)) if in_task else inbox.take(timeout)
    assert taken is None
    core.go_on()
    letter = inbox.take(PATIENCE)
    assert letter is not None
    assert letter.body == b"x"
    assert not letter.redelivered


def test_letters_that_are_ahead_of_a_closed_inbox_are_those_of_others(core: CoreProcess, sender: rtmw.Sender) -> None:
    bodies = [b"%d" % number for number in range(8)]
    sender.send_many("ingest", bodies)
    with rtmw.Inbox("ingest") as first:
        while not first.stats().waiting:
            letter = first.take(PATIENCE)
            assert letter is not None
            letter.consume()
            bodies.remove(letter.body)
        assert bodies
    assert not first.stats().waiting
    with pytest.raises(rtmw.ClosedError):
        first.take(0)
    with rtmw.Inbox("ingest") as second:
        left = [second.take(PATIENCE) for _ in bodies]
    assert [letter and letter.body for letter in left] == bodies


def test_a_thread_that_waits_for_a_stopped_core_without_a_limit_holds_up_no_call_that_has_one(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    body, count = bytes(60_000), 200

    def send() -> None:
        for _ in range(count):
            sender.send("ingest", body, wait=Level.NONE)

    core.stop()
    with ThreadPoolExecutor(1) as threads:
        sending, before = threads.submit(send), -1
        while before < (before := sender.stats().sent):
            time.sleep(0.3)  # until the core's queue is full
        with pytest.raises(TimeoutError, match=r"full for 0\.2 s"):
            sender.send("ingest", body, timeout=0.2)
        with pytest.raises(TimeoutError, match=r"within 0\.2 s"):
            asyncio.run(sender.send_async("ingest", body, timeout=0.2))
        assert not sending.done()
        core.go_on()
        bodies = [letter.body for _ in range(count) if (letter := inbox.take(PATIENCE)) is not None]
        sending.result(PATIENCE)
    assert bodies == [body] * count
    assert sender.stats().sent == count


STOPPED = """
    import rtmw
    with rtmw.Inbox("ingest") as inbox:
        print("ready", flush=True)
        for letter in inbox:
            with letter:
                print(letter.body.decode(), flush=True)
"""


def test_a_stopped_receiver_holds_up_nobody_else(core: CoreProcess, sender: rtmw.Sender, spawn: Spawn) -> None:
    child = spawn(STOPPED)
    assert child.line() == "ready"
    child.stop()
    for number in range(300):
        sender.send("other", b"%d" % number)
    with rtmw.Inbox("other") as inbox:
        for number in range(300):
            letter = inbox.take(PATIENCE)
            assert letter is not None
            with letter:
                assert letter.body == b"%d" % number
    sender.send("ingest", b"late")
    child.cont()
    assert child.line() == "late"


def test_when_the_core_does_not_come_again_a_wait_says_how_to_start_it(
    core: CoreProcess, sender: rtmw.Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtmw.transfer.client.line.GRACE_S", 0.5)
    assert core.terminate() == 0
    begun = time.monotonic()
    with pytest.raises(rtmw.CoreNotRunning, match="start one: rtmw node --domain"):
        sender.send("ingest", b"x")
    assert time.monotonic() - begun < PATIENCE


def test_a_program_that_ends_in_the_middle_of_a_body_leaves_no_file(
    core: CoreProcess, sender: rtmw.Sender, spawn: Spawn
) -> None:
    child = spawn("""
        import rtmw
        with rtmw.Sender("child") as sender:
            print("ready", flush=True)
            sender.send("ingest", bytes(400 << 20), delivery=rtmw.Delivery.LOG)
    """)
    assert child.line() == "ready"
    end = time.monotonic() + PATIENCE
    while not any((core.data / "spool").iterdir()):
        assert time.monotonic() < end
    child.signal(signal.SIGKILL)
    while any((core.data / "spool").iterdir()):
        assert time.monotonic() < end, "the file goes"
    sender.send("ingest", b"x")


# Proves G178.
def test_t8_what_is_sent_again_with_its_id_after_program_and_core_died_is_sent_once(
    core: CoreProcess, spawn: Spawn
) -> None:
    child = spawn("""
        import rtmw
        with rtmw.Sender("gauge") as sender:
            sender.send("ingest", b"bill", delivery=rtmw.Delivery.LOG, id=7)
            print("sent", flush=True)
            input()
    """)
    assert child.line() == "sent"
    child.kill()
    core.kill()
    core.start()
    core.wait_until_ready()
    with rtmw.Sender("gauge") as sender, rtmw.Inbox("ingest") as inbox:
        sent = sender.send("ingest", b"bill", delivery=Delivery.LOG, id=7)
        letter = inbox.take(PATIENCE)
        assert letter is not None
        letter.consume()
        assert sent.wait(Level.CONSUMED, PATIENCE)
        assert inbox.take(0) is None
