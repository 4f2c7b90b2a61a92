"""What the tasks of an event loop send in one turn goes to the core together; each letter is told what it would be told
alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

import rtmw
from rtmw import Delivery, Level, TransferState
from rtmw.transfer import messages
from tests.transfer.core_process import PATIENCE, CoreProcess, consumed
from tests.transfer.programs.test_deaths import killed_behind

BOTH = pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])
COUNT = 100


def sent_at_once(sender: rtmw.Sender, delivery: Delivery, level: Level = Level.ACCEPTED) -> list[rtmw.Transfer]:
    async def go() -> list[rtmw.Transfer]:
        sends = (sender.send_async("ingest", b"%d" % n, delivery=delivery, wait=level) for n in range(COUNT))
        return await asyncio.gather(*sends)

    return asyncio.run(go())


@BOTH
def test_letters_of_one_turn_have_an_id_each_and_come_in_the_order_of_the_calls(
    sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery
) -> None:
    sent = sent_at_once(sender, delivery)
    assert len({one.id for one in sent}) == COUNT
    assert consumed(inbox, COUNT) == [b"%d" % n for n in range(COUNT)]
    assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)
    assert {one.state for one in sent} == {TransferState.CONSUMED}
    stats = sender.stats()
    assert (stats.sent, stats.bytes, stats.unanswered) == (COUNT, sum(len(b"%d" % n) for n in range(COUNT)), 0)


@BOTH
def test_a_task_goes_on_when_its_letter_has_reached_the_level(
    sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery
) -> None:
    with ThreadPoolExecutor(1) as threads:
        taken = threads.submit(consumed, inbox, COUNT)
        sent = sent_at_once(sender, delivery, Level.CONSUMED)
        assert {one.state for one in sent} == {TransferState.CONSUMED}
        assert len(taken.result()) == COUNT


@pytest.mark.parametrize("has_another", [False, True])
@BOTH
def test_who_waits_for_a_letter_is_told_when_its_sender_is_closed(
    core: CoreProcess, delivery: Delivery, has_another: bool
) -> None:
    """Also while another sender of the program goes on."""
    closing = rtmw.Sender("gauge", domain=core.domain)

    async def go() -> rtmw.Transfer:
        parked = await closing.send_async("nobody", b"1", delivery=delivery)
        waits = [
            parked.reached(Level.DELIVERED),
            closing.send_async("nobody", b"2", delivery=delivery, wait=Level.DELIVERED),
            asyncio.to_thread(parked.wait, Level.DELIVERED),
        ]
        tasks = [asyncio.ensure_future(one) for one in waits]
        while len(closing._line.changed._waiting) < len(tasks):
            await asyncio.sleep(0.001)
        closing.close()
        for one in await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), PATIENCE):
            assert isinstance(one, rtmw.ClosedError)
            assert "it goes on, and nothing is heard of it" in str(one)
        return parked

    with rtmw.Sender("another", domain=core.domain) if has_another else nullcontext():
        parked = asyncio.run(go())
    assert parked.wait(Level.ACCEPTED)
    assert parked.state is TransferState.ACCEPTED


def test_what_is_asked_in_another_way_comes_behind_what_was_sent_before(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    async def go() -> None:
        await sender.send_async("ingest", b"1", wait=Level.NONE)
        await sender.send_async("ingest", b"2", wait=Level.NONE, lifetime=60)
        await sender.send_async("ingest", b"3", wait=Level.NONE)
        sender.send("ingest", b"4")

    asyncio.run(go())
    assert consumed(inbox, 4) == [b"1", b"2", b"3", b"4"]


def test_progress_is_told_of_a_letter_that_went_out_with_others(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    told: list[tuple[TransferState, float]] = []

    async def go() -> rtmw.Transfer:
        sent, _ = await asyncio.gather(*(sender.send_async("ingest", body) for body in (b"1", b"2")))
        sent.on_progress(lambda progress: told.append((progress.state, progress.share)))
        return sent

    sent = asyncio.run(go())
    consumed(inbox, 2)
    assert sent.wait(Level.CONSUMED, PATIENCE)
    assert (told[0], told[-1]) == ((TransferState.ACCEPTED, 1.0), (TransferState.CONSUMED, 1.0))


def test_a_letter_that_went_out_with_others_can_be_cancelled(sender: rtmw.Sender) -> None:
    first, second = sent_at_once(sender, Delivery.LOG)[:2]
    assert first.cancel()
    assert first.cancel(), "nobody gets it: that is so the second time, too"
    with rtmw.Inbox("ingest") as inbox:
        assert consumed(inbox, 1) == [b"1"]
    assert second.wait(Level.CONSUMED, PATIENCE)
    with pytest.raises(rtmw.TransferRefused, match="CANCELLED"):
        first.wait(Level.CONSUMED)


def test_several_event_loops_share_a_sender(core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    with ThreadPoolExecutor(4) as threads:
        sent = [one for all in threads.map(sent_at_once, [sender] * 4, [Delivery.NORMAL] * 4) for one in all]
    assert len({one.id for one in sent}) == 4 * COUNT
    assert Counter(consumed(inbox, 4 * COUNT)) == {b"%d" % n: 4 for n in range(COUNT)}


def test_a_loop_sends_while_the_turn_of_another_one_goes_on(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    async def go(threads: ThreadPoolExecutor) -> None:
        await sender.send_async("ingest", b"1", wait=Level.NONE)
        threads.submit(asyncio.run, sender.send_async("ingest", b"2")).result(PATIENCE)

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(go(threads))
    assert consumed(inbox, 2) == [b"1", b"2"]


def test_a_loop_sends_behind_one_of_its_thread_that_was_stopped_in_the_middle_of_a_turn(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    stopped = asyncio.new_event_loop()

    async def send_and_stop() -> None:
        await sender.send_async("ingest", b"1", wait=Level.NONE)
        stopped.stop()

    task = stopped.create_task(send_and_stop())
    stopped.run_forever()
    assert task.done()
    asyncio.run(sender.send_async("ingest", b"2"))
    stopped.run_until_complete(asyncio.sleep(0))
    stopped.close()
    assert consumed(inbox, 2) == [b"1", b"2"]


def test_a_task_that_waits_for_a_core_is_told_when_its_sender_is_closed(core: CoreProcess) -> None:
    async def go() -> None:
        sender = rtmw.Sender("gauge")
        core.stop()
        sending = asyncio.create_task(sender.send_async("ingest", b"x"))
        await asyncio.sleep(0)
        await asyncio.to_thread(sender.close)
        with pytest.raises(rtmw.ClosedError):
            await sending

    try:
        asyncio.run(go())
    finally:
        core.go_on()


@pytest.mark.parametrize("batches", range(2, 7))
# Proves G188.
def test_the_core_is_killed_behind_a_batch_and_each_letter_of_it_is_consumed_once(
    core: CoreProcess, batches: int
) -> None:
    async def send() -> None:
        with rtmw.Sender("gauge") as sender:
            for begin in range(0, COUNT, 20):
                sends = (
                    sender.send_async("ingest", b"%d" % n, delivery=Delivery.LOG) for n in range(begin, begin + 20)
                )
                await asyncio.gather(*sends)

    with killed_behind(core, batches):
        asyncio.run(send())
    with rtmw.Inbox("ingest") as inbox:
        assert sorted(map(int, consumed(inbox, COUNT))) == list(range(COUNT))
        assert inbox.take(0.2) is None


async def consumed_together(inbox: rtmw.Inbox, count: int) -> list[rtmw.Letter]:
    async def consume(letter: rtmw.Letter) -> None:
        async with letter:
            pass

    letters = [letter for _ in range(count) if (letter := await inbox.take_async(PATIENCE)) is not None]
    await asyncio.gather(*map(consume, letters))
    return letters


@BOTH
def test_what_tasks_consume_in_one_turn_is_consumed_and_comes_in_the_order_in_which_it_was_sent(
    sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery
) -> None:
    sent = sent_at_once(sender, delivery)
    letters = asyncio.run(consumed_together(inbox, COUNT))
    assert [(one.id, one.body, one.sender, one.redelivered) for one in letters] == [
        (transfer.id, b"%d" % n, "gauge", 0) for n, transfer in enumerate(sent)
    ]
    assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)
    assert inbox.stats().refused == 0


def test_letters_of_both_classes_are_consumed_by_one_request(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    sent = [sender.send("ingest", b"x", delivery=one) for one in (Delivery.LOG, Delivery.NORMAL, Delivery.LOG)]
    asyncio.run(consumed_together(inbox, 3))
    assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)


def test_of_letters_that_are_consumed_together_each_that_is_not_its_own_says_so(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    sent = sent_at_once(sender, Delivery.LOG)

    async def go() -> list[BaseException | None]:
        letters = [letter for _ in range(COUNT) if (letter := await inbox.take_async(PATIENCE)) is not None]
        for number in (3, 70):
            inbox._line.ask(
                inbox._life, messages.Settle(TransferState.ACCEPTED, "back", (letters[number]._handed.item,))
            )
        leaving = (letter.__aexit__(None, None, None) for letter in letters)
        return await asyncio.gather(*leaving, return_exceptions=True)

    found = asyncio.run(go())
    assert [number for number, error in enumerate(found) if isinstance(error, rtmw.TransferRefused)] == [3, 70]
    assert [number for number, error in enumerate(found) if error is not None] == [3, 70]
    assert all(sent[number].wait(Level.CONSUMED, PATIENCE) for number in range(COUNT) if number not in (3, 70))
    assert inbox.stats().refused == 2
    again = [inbox.take(PATIENCE) for _ in range(2)]
    assert [(one.body, one.redelivered) for one in again if one is not None] == [(b"3", 1), (b"70", 1)]


@BOTH
def test_what_was_left_when_its_inbox_is_closed_is_consumed(
    sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery
) -> None:
    sent = sender.send("ingest", b"x", delivery=delivery)

    async def go() -> None:
        letter = await inbox.take_async(PATIENCE)
        assert letter is not None
        leaving = asyncio.create_task(letter.__aexit__(None, None, None))
        asyncio.get_running_loop().call_soon(inbox.close)
        await asyncio.gather(leaving, return_exceptions=True)

    asyncio.run(go())
    assert sent.wait(Level.CONSUMED, PATIENCE)


def test_letters_that_an_inbox_was_handed_ahead_go_to_others_when_it_is_closed(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    sent = sent_at_once(sender, Delivery.LOG)
    taken = consumed(inbox, COUNT // 2)
    ahead = inbox.stats().waiting
    inbox.close()
    with rtmw.Inbox("ingest") as other:
        rest = [other.take(PATIENCE) for _ in range(COUNT - len(taken))]
        assert [one.body for one in rest if one is not None] == [b"%d" % n for n in range(len(taken), COUNT)]
        assert [one.redelivered for one in rest if one is not None] == [1] * ahead + [0] * (len(rest) - ahead)
        for one in rest:
            assert one is not None
            one.consume()
    assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)


def test_letters_that_were_handed_over_and_not_consumed_are_consumed_at_the_next_core(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    sent = sent_at_once(sender, Delivery.LOG)

    async def go() -> None:
        letters = [letter for _ in range(COUNT) if (letter := await inbox.take_async(PATIENCE)) is not None]
        core.kill()
        core.start()
        await asyncio.gather(*(letter.__aexit__(None, None, None) for letter in letters))

    asyncio.run(go())
    assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)
    assert inbox.stats().refused == 0
