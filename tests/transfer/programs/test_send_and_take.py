"""T1 to T4, T8: what programs send and take on one host, through a real core."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct

import rtmw
from rtmw import Delivery, Level, TransferState
from tests.transfer.core_process import PATIENCE, CoreProcess

BOTH = pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])


@dataclass
class Reading(IdlStruct):
    station: str
    level: float


def take(inbox: rtmw.Inbox) -> rtmw.Letter:
    letter = inbox.take(PATIENCE)
    assert letter is not None
    return letter


@BOTH
# Proves T1.
def test_t1_a_letter_has_what_its_header_says(sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery) -> None:
    sent = sender.send("ingest", b"level 4.2", delivery=delivery, lifetime=60, priority=3)
    letter = take(inbox)
    assert (letter.body, letter.sender, letter.redelivered, letter.size) == (b"level 4.2", "gauge", 0, 9)
    assert letter.id == sent.id
    assert (letter.header.delivery, letter.header.priority, letter.header.lifetime_ns) == (delivery, 3, 60_000_000_000)


def test_t2_the_bare_name_is_any_receiver_and_parked_until_one_comes(sender: rtmw.Sender) -> None:
    sender.send("late", b"x", delivery=Delivery.LOG)
    with rtmw.Inbox("late") as inbox:
        assert take(inbox).body == b"x"


# Proves T2.
def test_t2_a_pid_is_that_process_and_a_star_is_each_receiver_of_this_moment(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    with rtmw.Inbox("ingest") as other:
        sent = sender.send("ingest/*", b"all", delivery=Delivery.LOG)
        assert len(sent.ids) == 2
        for one in (inbox, other):
            take(one).consume()
            assert one.take(0) is None
        assert sent.wait(Level.CONSUMED, PATIENCE)
        sender.send(f"ingest/{os.getpid()}", b"newest")
        assert take(other).body == b"newest"
        assert inbox.take(0) is None
    with pytest.raises(rtmw.TransferRefused, match="means nobody"):
        sender.send("nobody/*", b"x")


def test_t2_nothing_for_a_service_reaches_another(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    sender.send("other", b"x")
    assert inbox.take(0) is None


@BOTH
# Proves T3.
def test_t3_each_level_is_reached_at_its_moment(sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery) -> None:
    sent = sender.send("ingest", b"x", delivery=delivery, wait=Level.SENT)
    assert not sent.wait(Level.DELIVERED, 0)
    letter = take(inbox)
    assert sent.wait(Level.DELIVERED, PATIENCE)
    assert not sent.wait(Level.CONSUMED, 0)
    letter.consume()
    assert sent.wait(Level.CONSUMED, PATIENCE)
    assert sent.state is TransferState.CONSUMED


def test_t3_a_call_that_waits_for_a_level_returns_then_or_says_that_it_goes_on(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    with pytest.raises(TimeoutError, match=r"has not become DELIVERED .* goes on"):
        sender.send("ingest", b"x", wait=Level.DELIVERED, timeout=0.05)
    with take(inbox) as letter:
        assert letter.body == b"x"


def test_t3_with_log_accepted_means_that_a_crash_of_the_core_loses_nothing(
    sender: rtmw.Sender, core: CoreProcess
) -> None:
    sender.send("ingest", b"kept", delivery=Delivery.LOG, wait=Level.ACCEPTED)
    core.kill()
    core.start()
    with rtmw.Inbox("ingest") as inbox:
        assert take(inbox).body == b"kept"


@pytest.mark.parametrize("level", [Level.SENT, Level.DELIVERED, Level.CONSUMED])
def test_t3_nobody_can_wait_for_what_a_small_raw_is_not_told(sender: rtmw.Sender, level: Level) -> None:
    with pytest.raises(ValueError, match="SMALL_RAW is not acknowledged"):
        sender.send("ingest", b"x", delivery=Delivery.SMALL_RAW, wait=level)
    sent = sender.send("ingest", b"x", delivery=Delivery.SMALL_RAW)
    with pytest.raises(ValueError, match="SMALL_RAW is not acknowledged"):
        sent.wait(level)


# Proves T4.
def test_t4_a_composite_is_one_letter_with_its_parts(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    sender.send("ingest", [rtmw.Part(b"head"), rtmw.Part(bytes(100_000))], delivery=Delivery.LOG)
    with take(inbox) as letter:
        assert letter.parts == letter.body == (b"head", bytes(100_000))
    with pytest.raises(rtmw.TypeMismatch, match=r"a list of rtmw\.Part"):
        sender.send("ingest", [b"head"])


@BOTH
@pytest.mark.parametrize("size", [1, 4095, 4096, 65536, 65537, 262144, 262145, 20 << 20])
# Proves T5.
def test_t5_a_body_of_any_size_passes_also_one_larger_than_the_pool(
    sender: rtmw.Sender, inbox: rtmw.Inbox, core: CoreProcess, delivery: Delivery, size: int
) -> None:
    body = os.urandom(min(size, 1 << 20)) * -(-size // (1 << 20))
    body = body[:size]
    sent = sender.send("ingest", body, delivery=delivery)
    letter = take(inbox)
    with letter.open() as file:
        assert file.read() == body
    assert letter.body == body
    files = list((core.data / "spool").iterdir())
    assert bool(files) == (size > (4095 if delivery is Delivery.LOG else 65536))
    letter.consume()
    assert sent.wait(Level.CONSUMED, PATIENCE)
    assert list((core.data / "spool").iterdir()) == []


def test_t4_an_empty_body_is_refused(sender: rtmw.Sender) -> None:
    with pytest.raises(ValueError, match="an empty body"):
        sender.send("ingest", b"")


def test_a_typed_message_is_the_same_value_at_the_inbox(sender: rtmw.Sender, core: CoreProcess) -> None:
    with rtmw.Inbox("readings", type=Reading) as inbox:
        sender.send("readings", Reading("A1", 4.2))
        assert take(inbox).body == Reading("A1", 4.2)
    with rtmw.Inbox("arrays", type=np.dtype("f4")) as inbox:
        sender.send("arrays", np.arange(4, dtype="f4"))
        assert take(inbox).body.tolist() == [0, 1, 2, 3]


# Proves T8.
def test_t8_a_small_raw_is_handed_over_once_and_has_one_buffer(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    sender.send("ingest", b"raw", delivery=Delivery.SMALL_RAW)
    letter = take(inbox)
    letter.consume()
    assert letter.body == b"raw"
    with pytest.raises(ValueError, match="65536 at most"):
        sender.send("ingest", bytes(65537), delivery=Delivery.SMALL_RAW)


def test_t1_a_lifetime_that_is_over_is_said(sender: rtmw.Sender) -> None:
    for delivery in Delivery:
        sender.send("nobody", b"x", delivery=delivery, lifetime=0.05)
    events = sender.events()
    assert [next(events).state for _ in Delivery] == [TransferState.EXPIRED] * 3


def test_priority_goes_first_whatever_the_delivery(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    for priority, delivery in ((0, Delivery.LOG), (3, Delivery.NORMAL), (7, Delivery.LOG), (5, Delivery.NORMAL)):
        sender.send("ingest", b"%d" % priority, delivery=delivery, priority=priority)
    assert [take(inbox).body for _ in range(4)] == [b"7", b"5", b"3", b"0"]


@BOTH
def test_a_letter_is_seen_again_after_an_exception_and_dead_after_sixteen(
    sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery
) -> None:
    """A handler that always raises."""
    sent = sender.send("ingest", b"poison", delivery=delivery)
    for turn in range(16):
        letter = take(inbox)
        assert letter.redelivered == turn
        with pytest.raises(ZeroDivisionError), letter:
            raise ZeroDivisionError("always")
    with pytest.raises(rtmw.TransferRefused, match=r"is DEAD.*delivered 16 times.*always"):
        sent.wait(Level.CONSUMED, PATIENCE)
    assert inbox.take(0) is None


def test_a_letter_that_is_refused_says_why(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    sent = sender.send("ingest", b"x")
    take(inbox).refuse("not for us")
    with pytest.raises(rtmw.TransferRefused, match=r"REFUSED.*not for us"):
        sent.wait(Level.CONSUMED, PATIENCE)
    event = next(sender.events())
    assert (event.id, event.state, event.cause) == (sent.id, TransferState.REFUSED, "not for us")


def test_a_transfer_that_nobody_has_taken_is_cancelled(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    sent = sender.send("ingest", b"x", delivery=Delivery.LOG)
    assert sent.cancel()
    assert inbox.take(0) is None
    other = sender.send("ingest", b"y")
    take(inbox)
    assert not other.cancel()


def test_t11_progress_is_told_while_it_goes(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    seen: list[TransferState] = []
    sent = sender.send("ingest", b"x")
    sent.on_progress(lambda progress: seen.append(progress.state))
    take(inbox).consume()
    assert sent.wait(Level.CONSUMED, PATIENCE)
    assert seen == [TransferState.ACCEPTED, TransferState.DELIVERED, TransferState.CONSUMED]
    assert sent.progress.share == 1


def test_in_asyncio_many_tasks_send_and_take(core: CoreProcess) -> None:
    async def work() -> list[bytes]:
        with rtmw.Sender("gauge") as sender, rtmw.Inbox("ingest") as inbox:
            bodies = [b"%d" % number for number in range(100)]
            await asyncio.gather(*(sender.send_async("ingest", body, delivery=Delivery.LOG) for body in bodies))
            found: list[bytes] = []
            async for letter in inbox:
                async with letter:
                    found.append(letter.body)
                if len(found) == len(bodies):
                    break
            big = await sender.send_async("ingest", bytes(9 << 20))
            letter = await inbox.take_async(PATIENCE)
            assert letter is not None
            assert len(letter.body) == 9 << 20
            letter.consume()
            assert await big.reached(Level.CONSUMED, PATIENCE)
            assert await inbox.take_async(0.05) is None
            return found

    assert sorted(asyncio.run(work()), key=int) == [b"%d" % number for number in range(100)]


def test_a_take_that_is_cancelled_loses_nothing(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    async def work() -> bytes:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(inbox.take_async(), 0.05)
        await sender.send_async("ingest", b"x")
        letter = await inbox.take_async(PATIENCE)
        assert letter is not None
        body: bytes = letter.body
        return body

    assert asyncio.run(work()) == b"x"


def test_stats_count_what_was_sent_and_taken(sender: rtmw.Sender, inbox: rtmw.Inbox) -> None:
    kept = sender.send("ingest", b"abc")
    with take(inbox):
        pass
    assert kept.wait(Level.CONSUMED, PATIENCE)
    told = sender.stats()
    assert (told.sent, told.bytes, told.refused, told.followed) == (1, 3, 0, 0)
    assert told.states[TransferState.CONSUMED] == 1
    assert (inbox.stats().received, inbox.stats().bytes, inbox.stats().waiting) == (1, 3, 0)


def test_without_a_core_the_command_that_starts_one_is_named(domain: rtmw.Domain) -> None:
    with pytest.raises(rtmw.CoreNotRunning, match=rf"rtmw node --domain {domain.id} --serve transfer --data"):
        rtmw.Sender("gauge")


def test_what_is_closed_says_so(core: CoreProcess) -> None:
    sender, inbox = rtmw.Sender("gauge"), rtmw.Inbox("ingest")
    for one in (sender, inbox):
        one.close()
        one.close()
    with pytest.raises(rtmw.ClosedError):
        sender.send("ingest", b"x")
    with pytest.raises(rtmw.ClosedError):
        inbox.take(0)
    assert list(inbox) == []


@BOTH
@pytest.mark.parametrize("body", [b"bill", bytes(700_000)])
def test_t8_what_is_sent_again_with_its_id_is_sent_once_and_followed_by_both(
    sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery, body: bytes
) -> None:
    first = sender.send("ingest", body, delivery=delivery, id="order 7")
    again = sender.send("ingest", body, delivery=delivery, id="order 7")
    with rtmw.Sender("gauge") as other, rtmw.Sender("another") as stranger:
        third = other.send("ingest", body, delivery=delivery, id="order 7")
        assert first.id == again.id == third.id
        assert stranger.send("ingest", body, delivery=delivery, id="order 7").id != first.id
        with pytest.raises(rtmw.TransferRefused, match="something else with id='order 7'"):
            sender.send("ingest", b"another bill", delivery=delivery, id="order 7")
        for _ in range(2):
            take(inbox).consume()
        assert inbox.take(0) is None
        for sent in (first, again, third):
            assert sent.wait(Level.CONSUMED, PATIENCE)
        late = other.send("ingest", body, delivery=delivery, id="order 7", wait=Level.CONSUMED, timeout=PATIENCE)
        assert late.state is TransferState.CONSUMED
    assert inbox.take(0) is None


@pytest.mark.parametrize("id", [1.5, True, b"x" * 5000])
def test_an_id_that_is_none_is_refused(sender: rtmw.Sender, id: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="is not possible"):
        sender.send("ingest", b"x", id=id)


@pytest.mark.parametrize("timeout", ["5", -1.0, float("nan")])
def test_a_timeout_that_is_none_is_refused_by_its_name(sender: rtmw.Sender, timeout: Any) -> None:
    for body in (b"x", bytes(100_000)):
        with pytest.raises((TypeError, ValueError), match=r"timeout=.* is not possible; it must be seconds from 0"):
            sender.send("ingest", body, timeout=timeout)
        with pytest.raises((TypeError, ValueError), match=r"timeout=.* is not possible; it must be seconds from 0"):
            asyncio.run(sender.send_async("ingest", body, timeout=timeout))
    assert sender.stats().sent == 0
