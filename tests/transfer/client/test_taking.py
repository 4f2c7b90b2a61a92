"""Several threads and tasks take from one inbox: a call that has a time, or does not wait, waits for no other one."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import rtmw
from rtmw import Delivery
from tests.bus import eventually
from tests.transfer.core_process import PATIENCE


def test_a_task_that_takes_keeps_its_timeout_beside_one_that_waits_for_every_letter(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    async def go() -> None:
        other = asyncio.ensure_future(anext(aiter(inbox)))
        while not inbox._lock.locked():
            await asyncio.sleep(0)
        for timeout in (0, 0.1):
            assert await asyncio.wait_for(inbox.take_async(timeout), PATIENCE) is None
        assert not other.done()
        await sender.send_async("ingest", b"x")
        assert (await other).body == b"x"

    asyncio.run(go())


def test_a_transaction_takes_at_once_beside_a_thread_that_waits_for_every_letter(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    with ThreadPoolExecutor(2) as threads:
        other = threads.submit(next, inbox)
        eventually(inbox._lock.locked)
        try:
            with sender.transaction() as txn:
                assert threads.submit(txn.take, inbox).result(PATIENCE) is None
            assert not other.done()
        finally:
            sender.send("ingest", b"x", delivery=Delivery.LOG)
        assert other.result(PATIENCE).body == b"x"


def test_what_was_handed_over_ahead_goes_back_for_a_transaction_and_is_counted_once(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    sender.send_many("ingest", [b"%d" % n for n in range(9)], delivery=Delivery.LOG)
    for n in range(4):
        letter = inbox.take(PATIENCE)
        assert letter is not None
        assert letter.body == b"%d" % n
    assert inbox.stats().waiting > 0
    with sender.transaction() as txn:
        taken = [txn.take(inbox) for _ in range(6)]
    assert [letter and letter.body for letter in taken] == [b"4", b"5", b"6", b"7", b"8", None]
    assert (inbox.stats().received, inbox.stats().waiting) == (9, 0)
