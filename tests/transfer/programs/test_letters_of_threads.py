"""What threads send while the core has enough to do goes to it together; each letter is told what it would be told
alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import rtmw
from rtmw import Delivery, Level, TransferState
from rtmw.transfer.client.group import ENOUGH, MOST_TOGETHER
from rtmw.transfer.frames import CORE_QUEUE, unpack_frame
from rtmw.transfer.messages import Send, Sends
from tests.bus import eventually
from tests.transfer.core_process import PATIENCE, CoreProcess, consumed
from tests.transfer.programs.test_deaths import killed_behind

BOTH = pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])
THREADS = 16
EACH = 20


@contextmanager
def stopped(core: CoreProcess) -> Generator[None]:
    core.stop()
    try:
        yield
    finally:
        core.go_on()


class Frames:
    """Frames with letters that programs send to the core."""

    def __init__(self, domain: int) -> None:
        self.letters: list[int] = []
        """In each of them."""
        self._seen = rtmw.Subscriber(CORE_QUEUE, domain=domain, depth=4096)

    def look(self) -> list[int]:
        for sample in self._seen.take_many(4096):
            message = unpack_frame(sample.value).message
            if isinstance(message, Sends):
                self.letters.append(sum(len(run.bodies) for run in message.runs))
            elif isinstance(message, Send):
                self.letters.append(1)
        return self.letters


@BOTH
def test_letters_of_threads_have_an_id_each_and_come_in_the_order_of_their_thread(
    sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery
) -> None:
    def send(thread: int) -> list[rtmw.Transfer]:
        return [sender.send("ingest", b"%d %d" % (thread, n), delivery=delivery) for n in range(EACH)]

    with ThreadPoolExecutor(THREADS) as threads:
        sent = [one for all in threads.map(send, range(THREADS)) for one in all]
    assert all(one.state in (TransferState.ACCEPTED, TransferState.DELIVERED) for one in sent)
    assert len({one.id for one in sent}) == THREADS * EACH
    come = [tuple(map(int, body.split())) for body in consumed(inbox, THREADS * EACH)]
    for thread in range(THREADS):
        assert [n for of, n in come if of == thread] == list(range(EACH))
    assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)
    assert (sender.stats().sent, sender.stats().unanswered) == (THREADS * EACH, 0)


def sending(threads: ThreadPoolExecutor, sender: rtmw.Sender, count: int) -> list[Future[rtmw.Transfer]]:
    """Letters that were given to the sender, one after the other, each by a thread that waits for the core."""
    sent: list[Future[rtmw.Transfer]] = []
    before = sender.stats().unanswered
    for n in range(count):
        sent.append(threads.submit(sender.send, "ingest", b"%d" % n))
        eventually(lambda: sender.stats().unanswered > before + len(sent) - 1)
    return sent


def test_while_the_core_has_enough_to_do_letters_of_threads_wait_and_share_a_frame(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    frames, more = Frames(core.domain), 5
    with ThreadPoolExecutor(2 * MOST_TOGETHER) as threads:
        with stopped(core):
            sent = sending(threads, sender, ENOUGH + MOST_TOGETHER + more)
            assert frames.look() == [1] * ENOUGH + [MOST_TOGETHER], "a frame that is full goes out"
        assert len({one.result(PATIENCE).id for one in sent}) == len(sent)
    assert frames.look() == [1] * ENOUGH + [MOST_TOGETHER, more]
    assert consumed(inbox, len(sent)) == [b"%d" % n for n in range(len(sent))]


def test_letters_of_threads_with_a_timeout_share_frames_too_and_go_on_when_it_is_over(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    frames, more = Frames(core.domain), 3
    with ThreadPoolExecutor(ENOUGH + more) as threads:
        with stopped(core):
            sent = [threads.submit(sender.send, "ingest", b"x", timeout=0.3) for _ in range(ENOUGH + more)]
            for one in sent:
                with pytest.raises(TimeoutError, match=r"not become ACCEPTED within 0.3 s; it goes on"):
                    one.result(PATIENCE)
        assert consumed(inbox, len(sent)) == [b"x"] * len(sent)
        assert inbox.take(0.1) is None
    assert len(frames.look()) < len(sent)
    assert sum(frames.look()) == len(sent)


def test_letters_of_tasks_with_a_timeout_share_a_frame_too_and_go_on_when_it_is_over(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    frames = Frames(core.domain)

    async def go(timeout: float) -> list[rtmw.Transfer | BaseException]:
        bodies: list[Any] = [b"x", bytearray(b"x"), memoryview(b"x"), np.frombuffer(b"x", "u1"), b"x"]
        sends = (sender.send_async("ingest", body, timeout=timeout) for body in bodies)
        return await asyncio.gather(*sends, return_exceptions=True)

    with stopped(core):
        for error in asyncio.run(go(0.2)):
            assert isinstance(error, TimeoutError)
            assert "not become ACCEPTED within 0.2 s; it goes on" in str(error)
    assert consumed(inbox, 5) == [b"x"] * 5
    assert all(isinstance(one, rtmw.Transfer) for one in asyncio.run(go(PATIENCE)))
    assert frames.look() == [5, 5]
    assert consumed(inbox, 5) == [b"x"] * 5


def test_what_waits_for_no_answer_goes_out_at_once(core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    frames = Frames(core.domain)
    with stopped(core):
        for n in range(5):
            sender.send("ingest", b"%d" % n, wait=Level.NONE)
        assert frames.look() == [1] * 5
    assert consumed(inbox, 5) == [b"%d" % n for n in range(5)]


def test_what_is_asked_in_another_way_comes_behind_what_waits(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    with ThreadPoolExecutor(8) as threads:
        with stopped(core):
            sent = sending(threads, sender, ENOUGH + 2)
            last = threads.submit(sender.send, "ingest", b"last", lifetime=60)
            eventually(lambda: sender.stats().unanswered > ENOUGH + 2)
        for one in [*sent, last]:
            one.result(PATIENCE)
    assert consumed(inbox, ENOUGH + 3) == [*(b"%d" % n for n in range(ENOUGH + 2)), b"last"]


def test_a_thread_that_runs_an_event_loop_sends_behind_the_letters_of_its_tasks(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    async def go() -> None:
        before = [asyncio.create_task(sender.send_async("ingest", b"%d" % n)) for n in range(3)]
        await asyncio.sleep(0)
        sender.send("ingest", b"3")
        await asyncio.gather(*before)

    asyncio.run(asyncio.wait_for(go(), PATIENCE))
    assert consumed(inbox, 4) == [b"0", b"1", b"2", b"3"]


def test_a_letter_that_the_core_refuses_is_refused_to_its_thread_alone(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    with ThreadPoolExecutor(8) as threads:
        with stopped(core):
            sent = sending(threads, sender, ENOUGH + 1)
            wrong = threads.submit(sender.send, "ingest/1", b"nobody has this pid")
            eventually(lambda: sender.stats().unanswered > ENOUGH + 1)
        for one in sent:
            one.result(PATIENCE)
        with pytest.raises(rtmw.TransferRefused, match="ingest"):
            wrong.result(PATIENCE)
    assert sender.stats().refused == 1


@pytest.mark.parametrize("has_another", [False, True])
def test_threads_whose_letters_wait_are_told_when_their_sender_is_closed(core: CoreProcess, has_another: bool) -> None:
    closing, others = rtmw.Sender("gauge"), [rtmw.Sender("another")] if has_another else []
    with ThreadPoolExecutor(8) as threads:
        with stopped(core):
            sent = sending(threads, closing, ENOUGH + 3)
            closing.close()
            for one in sent:
                with pytest.raises(rtmw.ClosedError):
                    one.result(PATIENCE)
        for other in others:
            assert other.send("ingest", b"x").wait(Level.ACCEPTED)
            other.close()


@pytest.mark.parametrize("batches", range(2, 7))
def test_the_core_is_killed_behind_a_batch_and_each_letter_of_threads_is_consumed_once(
    core: CoreProcess, batches: int
) -> None:
    def send(thread: int) -> None:
        for n in range(EACH):
            sender.send("ingest", b"%d" % (EACH * thread + n), delivery=Delivery.LOG)

    with rtmw.Sender("gauge") as sender, ThreadPoolExecutor(THREADS) as threads, killed_behind(core, batches):
        list(threads.map(send, range(THREADS)))
    with rtmw.Inbox("ingest") as inbox:
        come = Counter(map(int, consumed(inbox, THREADS * EACH)))
        assert come == dict.fromkeys(range(THREADS * EACH), 1)
        assert inbox.take(0.2) is None


def test_letters_that_wait_go_to_the_next_core(core: CoreProcess, sender: rtmw.Sender) -> None:
    with ThreadPoolExecutor(8) as threads:
        core.stop()
        sent = sending(threads, sender, ENOUGH + 3)
        core.kill()
        core.start()
        assert len({one.result(PATIENCE).id for one in sent}) == len(sent)


def test_threads_whose_letters_wait_are_told_when_no_core_comes(
    core: CoreProcess, sender: rtmw.Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtmw.transfer.client.line.GRACE_S", 0.2)
    with ThreadPoolExecutor(8) as threads:
        core.stop()
        sent = sending(threads, sender, ENOUGH + 3)
        core.kill()
        for one in sent:
            with pytest.raises(rtmw.CoreNotRunning):
                one.result(PATIENCE)
