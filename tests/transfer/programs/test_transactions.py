"""T10: what a program does with `rtmw.Transaction` and its letters, through a real core."""

from __future__ import annotations

import asyncio
import threading

import pytest

import rtmw
from rtmw import Delivery, Level
from rtmw.transfer.client.viewer import Viewer
from tests.transfer.core_process import PATIENCE, CoreProcess, consumed


def test_t10_a_savepoint_that_was_released_is_unknown_with_those_after_it_and_nothing_is_undone(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    with sender.transaction() as txn:
        first = txn.savepoint("first")
        txn.send("ingest", b"a")
        half = txn.savepoint("half")
        txn.send("ingest", b"b")
        late = txn.savepoint("late")
        txn.release(half)
        for gone, name in ((half, "half"), ("half", "half"), (late, "late")):
            with pytest.raises(ValueError, match=f"has no savepoint '{name}'; it has 'first'"):
                txn.rollback(gone)
            with pytest.raises(ValueError, match=f"has no savepoint '{name}'; it has 'first'"):
                txn.release(gone)
        txn.release(first)
        with pytest.raises(ValueError, match="has no savepoint 'first'; it has none"):
            txn.rollback("first")
    assert consumed(inbox, 2) == [b"a", b"b"]
    assert inbox.take(0) is None


def test_t10_a_savepoint_that_was_released_is_not_in_the_save_list_of_the_core_any_more(
    domain: rtmw.Domain, sender: rtmw.Sender
) -> None:
    def saved() -> list[str]:
        (row,) = viewer.show("transfers")["transactions"]
        return [one.split()[0] for one in row["SaveList"]]

    with Viewer(domain) as viewer, sender.transaction() as txn:
        for name in ("a", "b", "c"):
            txn.savepoint(name)
        assert saved() == ["c", "b", "a"]
        txn.release("b")
        assert saved() == ["a"]


def test_t10_of_savepoints_with_one_name_the_name_means_the_newest_and_an_object_the_one_that_it_is(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    with sender.transaction() as txn:
        txn.send("ingest", b"a")
        txn.savepoint("half")
        txn.send("ingest", b"b")
        txn.savepoint("half")
        txn.send("ingest", b"never")
        txn.rollback("half")
        txn.send("ingest", b"c")
    assert consumed(inbox, 3) == [b"a", b"b", b"c"]
    with sender.transaction() as txn:
        txn.send("ingest", b"a")
        first = txn.savepoint("half")
        txn.send("ingest", b"never")
        txn.savepoint("half")
        txn.rollback(first)
    assert consumed(inbox, 1) == [b"a"]
    assert inbox.take(0) is None


@pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])
# Proves G205.
def test_t10_what_a_transaction_sends_is_log_and_its_consume_waits_for_the_disk(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery
) -> None:
    """The core stands still meanwhile, so that nothing can be on its disk."""
    with sender.transaction() as txn:
        txn.send("ingest", b"x", delivery=delivery)
    letter = inbox.take(PATIENCE)
    assert letter is not None
    assert letter.header.delivery is Delivery.LOG
    core.stop()
    consuming = threading.Thread(target=letter.consume)
    consuming.start()
    try:
        consuming.join(0.2)
        assert consuming.is_alive()
    finally:
        core.go_on()
        consuming.join(PATIENCE)
    assert not consuming.is_alive()


def test_t10_a_with_block_is_undone_after_an_exception(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    sender.send("ingest", b"taken", delivery=Delivery.LOG)
    txn = sender.transaction()

    def work() -> None:
        with txn:
            assert txn.take(inbox) is not None
            txn.send("ingest", b"never")
            raise ZeroDivisionError("in the middle")

    with pytest.raises(ZeroDivisionError):
        work()
    with pytest.raises(ValueError, match="has been committed or undone; begin a new one"):
        txn.send("ingest", b"late")
    assert consumed(inbox, 1) == [b"taken"]
    assert inbox.take(0) is None


def test_t10_a_rollback_to_no_savepoint_undoes_all_and_the_transaction_goes_on(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    sender.send("ingest", b"taken", delivery=Delivery.LOG)
    with sender.transaction() as txn:
        assert txn.take(inbox) is not None
        half = txn.savepoint("half")
        txn.send("ingest", b"never")
        txn.rollback()
        with pytest.raises(ValueError, match="has no savepoint 'half'; it has none"):
            txn.rollback(half)
        txn.send("ingest", b"sent")
    assert consumed(inbox, 2) == [b"taken", b"sent"]
    assert inbox.take(0) is None


@pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])
def test_a_letter_is_consumed_at_the_end_of_async_with_and_seen_again_after_an_exception(
    sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery
) -> None:
    async def take() -> rtmw.Letter:
        letter = await inbox.take_async(PATIENCE)
        assert letter is not None
        return letter

    async def fail() -> None:
        async with await take() as letter:
            assert letter.redelivered == 0
            raise ZeroDivisionError("in the middle")

    async def go() -> None:
        sent = await sender.send_async("ingest", b"x", delivery=delivery)
        with pytest.raises(ZeroDivisionError):
            await fail()
        assert not await sent.reached(Level.CONSUMED, 0)
        async with await take() as letter:
            assert (letter.body, letter.redelivered) == (b"x", 1)
        assert await sent.reached(Level.CONSUMED, PATIENCE)
        assert await inbox.take_async(0) is None

    asyncio.run(go())


def test_a_body_in_a_file_that_is_gone_is_an_error_that_says_when_to_read_it(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    sent = sender.send("ingest", bytes(100_000), delivery=Delivery.LOG)
    letter = inbox.take(PATIENCE)
    assert letter is not None
    letter.consume()
    assert sent.wait(Level.CONSUMED, PATIENCE)
    for read in (letter.open, lambda: letter.body):
        with pytest.raises(rtmw.TransferError, match=f"the body of {sent.id} is gone; read it before"):
            read()
