"""Several threads and tasks take from one inbox: a call that has a time, or does not wait, waits for no other one. A
call that ends without a letter leaves nothing at the core that could be handed one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import rtmw
from rtmw import Delivery
from tests.bus import eventually
from tests.transfer.core_process import PATIENCE, CoreProcess


def waits(inbox: rtmw.Inbox) -> bool:
    """Does a call wait for a letter?"""
    return any(inbox._taking._callers.values())


async def begun(inbox: rtmw.Inbox) -> asyncio.Future[rtmw.Letter | None]:
    """A task that waits for every letter."""
    task = asyncio.ensure_future(inbox.take_async())
    while not waits(inbox):
        await asyncio.sleep(0)
    return task


async def cancelled(inbox: rtmw.Inbox) -> None:
    task = await begun(inbox)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_task_that_takes_keeps_its_timeout_beside_one_that_waits_for_every_letter(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    async def go() -> None:
        other = asyncio.ensure_future(anext(aiter(inbox)))
        while not waits(inbox):
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
        eventually(lambda: waits(inbox))
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


def test_a_letter_that_is_sent_after_a_task_was_cancelled_goes_to_an_inbox_that_takes(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    asyncio.run(cancelled(inbox))
    with rtmw.Inbox("ingest") as other:
        sender.send("ingest", b"x")
        letter = other.take(PATIENCE)
        assert letter is not None
        assert (letter.body, letter.redelivered) == (b"x", 0)


def test_a_letter_that_was_on_its_way_to_a_task_that_is_cancelled_is_the_next_one(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    sender.send_many("ingest", [b"first", b"second"])
    core.stop()
    asyncio.run(cancelled(inbox))
    core.go_on()
    for body in (b"first", b"second"):
        letter = inbox.take(0)
        assert letter is not None
        assert (letter.body, letter.redelivered) == (body, 0)


def test_a_transaction_takes_what_was_on_its_way_to_a_task_that_is_cancelled(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    sender.send_many("ingest", [b"first", b"second"], delivery=Delivery.LOG)
    with sender.transaction() as txn:
        core.stop()
        asyncio.run(cancelled(inbox))
        core.go_on()
        taken = [txn.take(inbox) for _ in range(3)]
    assert [letter and letter.body for letter in taken] == [b"first", b"second", None]


def test_tasks_and_threads_that_wait_together_get_each_letter_once(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    count = 40

    async def go() -> list[bytes]:
        loop, taken = asyncio.get_running_loop(), list[Any]()
        with ThreadPoolExecutor(4) as threads:
            calls = [loop.run_in_executor(threads, inbox.take) for _ in range(4)]
            calls += [asyncio.ensure_future(inbox.take_async()) for _ in range(count - 4)]
            for number in range(count):
                await sender.send_async("ingest", b"%d" % number)
            taken = await asyncio.wait_for(asyncio.gather(*calls), PATIENCE)
        return sorted(letter.body for letter in taken)

    assert asyncio.run(go()) == sorted(b"%d" % number for number in range(count))


def test_a_call_that_does_not_wait_gets_a_letter_that_is_there_beside_one_that_was_asked_before(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    sender.send_many("ingest", [b"first", b"second"])

    async def go() -> list[bytes]:
        core.stop()
        first = await begun(inbox)
        second = asyncio.ensure_future(inbox.take_async(0))
        await asyncio.sleep(0)
        core.go_on()
        letters = await asyncio.wait_for(asyncio.gather(first, second), PATIENCE)
        return [letter.body for letter in letters if letter is not None]

    assert sorted(asyncio.run(go())) == [b"first", b"second"]


class Counting(asyncio.SelectorEventLoop):
    """Counts the times at which somebody wants to be called."""

    times = 0

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, **more: Any) -> asyncio.TimerHandle:
        self.times += 1
        return super().call_at(when, callback, *args, **more)


def test_tasks_that_wait_beside_each_other_sleep_until_a_letter_comes(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    async def go() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Counting)
        tasks = [asyncio.ensure_future(inbox.take_async()) for _ in range(2)]
        await asyncio.sleep(0.2)  # in which they would look again and again
        sender.send_many("ingest", [b"x", b"y"])
        await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
        return loop.times

    with asyncio.Runner(loop_factory=Counting) as runner:
        assert runner.run(go()) <= 4


def test_a_call_whose_time_is_over_while_there_is_no_core_leaves_nothing_at_the_next_one(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    core.kill()
    assert inbox.take(0.3) is None
    core.start()
    with rtmw.Inbox("ingest") as other:
        sender.send("ingest", b"x", timeout=PATIENCE)
        assert other.take(PATIENCE) is not None


def test_a_call_that_has_found_no_core_leaves_nothing_at_the_next_one(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    core.kill()
    with monkeypatch.context() as patched:
        patched.setattr("rtmw.transfer.client.line.GRACE_S", 0.3)
        with pytest.raises(rtmw.CoreNotRunning):
            inbox.take()
    core.start()
    core.wait_until_ready()
    with rtmw.Inbox("ingest") as other:
        sender.send("ingest", b"x", timeout=PATIENCE)
        assert other.take(PATIENCE) is not None
