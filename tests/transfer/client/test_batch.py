"""Letters that are sent as one batch, through a real core: by a thread, and by a task of an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct

import rtmw
from rtmw import Delivery, Level, TransferState
from rtmw.transfer.client.line import MOST_PENDING
from tests.transfer.core_process import PATIENCE, CoreProcess, consumed
from tests.transfer.programs.test_deaths import killed_behind

BOTH = pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])
COUNT = 300
SendMany: TypeAlias = Callable[..., list[rtmw.Transfer]]


@dataclass
class Reading(IdlStruct):
    station: str
    level: float


def by_thread(sender: rtmw.Sender, to: str, bodies: Iterable[Any], **options: Any) -> list[rtmw.Transfer]:
    return sender.send_many(to, bodies, **options)


def by_task(sender: rtmw.Sender, to: str, bodies: Iterable[Any], **options: Any) -> list[rtmw.Transfer]:
    return asyncio.run(sender.send_many_async(to, bodies, **options))


@pytest.fixture(params=[by_thread, by_task])
def send_many(request: pytest.FixtureRequest) -> SendMany:
    send: SendMany = request.param
    return send


@pytest.fixture
def narrow(domain: rtmw.Domain, tmp_path: Path) -> Iterator[CoreProcess]:
    """A core with room for ten transfers."""
    config = tmp_path / "node.toml"
    config.write_text("[transfer.limits]\nparked = 10\n")
    core = CoreProcess(domain.id, tmp_path / "transfers", config=config)
    core.start()
    core.wait_until_ready()
    yield core
    core.end()


def numbered(count: int, begin: int = 0) -> list[bytes]:
    return [b"%06d" % number for number in range(begin, begin + count)]


@BOTH
def test_each_letter_is_a_transfer_and_they_come_in_their_order(
    sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery, send_many: SendMany
) -> None:
    sent = send_many(sender, "ingest", numbered(COUNT), delivery=delivery)
    assert {one.state for one in sent} == {TransferState.ACCEPTED}
    assert len({one.id for one in sent}) == COUNT
    letters = [inbox.take(PATIENCE) for _ in range(COUNT)]
    assert [(one.id, one.body, one.sender) for one in letters if one is not None] == [
        (one.id, body, "gauge") for one, body in zip(sent, numbered(COUNT), strict=True)
    ]
    for letter in letters:
        assert letter is not None
        letter.consume()
    assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)
    stats = sender.stats()
    assert (stats.sent, stats.bytes, stats.unanswered, stats.followed) == (COUNT, 6 * COUNT, 0, 0)


@BOTH
@pytest.mark.parametrize("level", [Level.SENT, Level.DELIVERED, Level.CONSUMED])
def test_a_batch_waits_until_each_of_its_letters_has_reached_the_level(
    sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery, level: Level, send_many: SendMany
) -> None:
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(consumed, inbox, COUNT)
        sent = send_many(sender, "ingest", numbered(COUNT), delivery=delivery, wait=level)
        assert all(one.wait(level, 0) for one in sent)
        assert found.result() == numbered(COUNT)


def test_a_batch_that_waits_for_nothing_returns_before_its_core_has_answered(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox, send_many: SendMany
) -> None:
    core.stop()
    try:
        sent = send_many(sender, "ingest", numbered(COUNT), wait=Level.NONE)
        assert {one.state for one in sent} == {TransferState.HELD}
    finally:
        core.go_on()
    assert consumed(inbox, COUNT) == numbered(COUNT)
    assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)


@BOTH
def test_bodies_of_all_kinds_and_sizes_come_in_their_order(
    core: CoreProcess, sender: rtmw.Sender, tmp_path: Path, delivery: Delivery, send_many: SendMany
) -> None:
    source, folder = tmp_path / "table.csv", tmp_path / "arrived"
    source.write_bytes(b"1,2\n")
    folder.mkdir()
    bodies = [b"1", b"22", bytes(5000), b"3", bytes(70_000), bytearray(b"4"), bytes(700_000), [rtmw.Part(b"5")], b"6"]
    with rtmw.Inbox("ingest", folder=folder) as inbox:
        sent = send_many(sender, "ingest", [*bodies, rtmw.File(source, "in/table.csv"), b"7"], delivery=delivery)
        expected = [tuple(part.body for part in one) if isinstance(one, list) else bytes(one) for one in bodies]
        assert consumed(inbox, len(bodies)) == expected
        last = [inbox.take(PATIENCE) for _ in range(2)]
        assert {len(one.files) if one is not None else -1 for one in last} == {0, 1}, "a file is copied first"
        for letter in last:
            assert letter is not None
            letter.consume()
    assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)
    assert (folder / "in/table.csv").read_bytes() == b"1,2\n"


def test_letters_of_many_sizes_are_there_after_a_crash(
    core: CoreProcess, sender: rtmw.Sender, send_many: SendMany
) -> None:
    bodies = [b"%0*d" % (1 + 37 * number % 300, number % 10) for number in range(COUNT)]
    sent = send_many(sender, "ingest", bodies, delivery=Delivery.LOG)
    core.kill()
    core.start()
    with rtmw.Inbox("ingest") as inbox:
        assert consumed(inbox, COUNT) == bodies
    assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)


def test_typed_messages_are_sent_as_a_batch(core: CoreProcess, sender: rtmw.Sender, send_many: SendMany) -> None:
    readings = [Reading("A1", 0.1 * number) for number in range(20)]
    with rtmw.Inbox("readings", type=Reading) as inbox, rtmw.Inbox("arrays", type=np.dtype("f4")) as arrays:
        send_many(sender, "readings", readings)
        send_many(sender, "arrays", np.arange(6, dtype="f4").reshape(2, 3))
        assert consumed(inbox, 20) == readings
        assert [one.tolist() for one in consumed(arrays, 2)] == [[0, 1, 2], [3, 4, 5]]


@BOTH
def test_more_letters_than_may_be_unanswered_are_sent_as_one_batch(
    sender: rtmw.Sender, inbox: rtmw.Inbox, delivery: Delivery, send_many: SendMany
) -> None:
    count = 5 * MOST_PENDING
    sent = send_many(sender, "ingest", (body for body in numbered(count)), delivery=delivery)
    assert len({one.id for one in sent}) == count
    assert [letter.body for letter in (inbox.take(PATIENCE) for _ in range(count)) if letter] == numbered(count)


def test_a_batch_comes_behind_what_was_sent_before_and_before_what_is_sent_next(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    async def go() -> None:
        first = asyncio.create_task(sender.send_async("ingest", b"1"))
        await asyncio.sleep(0)
        await sender.send_many_async("ingest", [b"2", b"3"], wait=Level.NONE)
        sender.send_many("ingest", [b"4", b"5"], wait=Level.NONE)
        await sender.send_async("ingest", b"6")
        await first

    asyncio.run(go())
    assert consumed(inbox, 6) == [b"1", b"2", b"3", b"4", b"5", b"6"]


def test_several_threads_and_event_loops_send_batches_at_once_and_each_is_in_order(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    def send(turn: int) -> list[rtmw.Transfer]:
        bodies = [b"%d:%06d" % (turn, number) for number in range(1000)]
        return (by_task if turn % 2 else by_thread)(sender, "ingest", bodies)

    with ThreadPoolExecutor(4) as threads:
        sent = [one for batch in threads.map(send, range(4)) for one in batch]
    assert len({one.id for one in sent}) == 4000
    found: dict[bytes, list[int]] = defaultdict(list)
    for _ in range(4000):
        letter = inbox.take(PATIENCE)
        assert letter is not None
        turn, _, number = letter.body.partition(b":")
        found[turn].append(int(number))
    assert found == {b"%d" % turn: list(range(1000)) for turn in range(4)}


# ---- what goes wrong ----


@pytest.mark.parametrize("bad", [b"", 7, bytes(65537)])
def test_of_a_batch_with_a_bad_body_nothing_is_sent(
    sender: rtmw.Sender, inbox: rtmw.Inbox, bad: Any, send_many: SendMany
) -> None:
    with pytest.raises((ValueError, TypeError)) as error:
        send_many(sender, "ingest", [b"1", b"2", bad], delivery=Delivery.SMALL_RAW)
    assert error.value.__notes__ == ["That is bodies[2]; nothing was sent."]
    assert inbox.take(0) is None
    assert sender.stats().sent == 0


@pytest.mark.parametrize("bodies", [b"one", bytearray(b"one"), "one"])
def test_one_body_is_no_batch(sender: rtmw.Sender, bodies: Any, send_many: SendMany) -> None:
    with pytest.raises(TypeError, match=r"is one body; write \[body\]"):
        send_many(sender, "ingest", bodies)
    assert send_many(sender, "ingest", []) == []


def test_options_and_addresses_are_checked_as_of_a_send(sender: rtmw.Sender, send_many: SendMany) -> None:
    for options in ({"priority": 8}, {"lifetime": 0}, {"timeout": -1}):
        with pytest.raises(ValueError, match=r"is not possible|does not exist"):
            send_many(sender, "ingest", [b"1"], **options)
    with pytest.raises(ValueError, match="is no address"):
        send_many(sender, "in gest", [b"1"])
    with pytest.raises(ValueError, match="SMALL_RAW is not acknowledged"):
        send_many(sender, "ingest", [b"1"], delivery=Delivery.SMALL_RAW, wait=Level.SENT)


@BOTH
def test_of_letters_that_are_refused_the_call_says_how_many_and_gives_all(
    narrow: CoreProcess, delivery: Delivery, send_many: SendMany
) -> None:
    """Those for which there is room are accepted."""
    with rtmw.Sender("gauge") as sender:
        with pytest.raises(rtmw.TransferRefused, match=r"5 of 15 letters will not be ACCEPTED.*10 transfers") as error:
            send_many(sender, "ingest", numbered(15), delivery=delivery)
        sent = error.value.transfers
        assert [one.wait(Level.ACCEPTED) for one in sent[:10]] == [True] * 10
        for refused in sent[10:]:
            with pytest.raises(rtmw.TransferRefused, match="no more may be"):
                refused.wait(Level.ACCEPTED)
        assert (sender.stats().sent, sender.stats().refused) == (15, 5)
        with rtmw.Inbox("ingest") as inbox:
            assert consumed(inbox, 10) == numbered(10)


def test_letters_whose_lifetime_is_over_are_told_of_a_batch_that_waits_for_a_receiver(
    sender: rtmw.Sender, send_many: SendMany
) -> None:
    with pytest.raises(rtmw.TransferRefused, match=r"20 of 20 letters will not be DELIVERED.*EXPIRED") as error:
        send_many(sender, "nobody", numbered(20), lifetime=0.05, wait=Level.DELIVERED)
    assert {one.state for one in error.value.transfers} == {TransferState.EXPIRED}


def test_copies_for_each_receiver_are_refused_if_there_is_none(sender: rtmw.Sender, send_many: SendMany) -> None:
    with pytest.raises(rtmw.TransferRefused, match=r"2 of 2 letters.*means nobody"):
        send_many(sender, "nobody/*", [b"1", b"2"])


def test_each_letter_of_a_batch_has_a_copy_for_each_receiver(
    sender: rtmw.Sender, inbox: rtmw.Inbox, send_many: SendMany
) -> None:
    with rtmw.Inbox("ingest") as other:
        sent = send_many(sender, "ingest/*", [b"1", b"2"])
        assert [len(one.ids) for one in sent] == [2, 2]
        assert consumed(inbox, 2) == consumed(other, 2) == [b"1", b"2"]


@pytest.mark.parametrize(("count", "sent"), [(COUNT, COUNT), (2 * MOST_PENDING, MOST_PENDING)])
def test_a_batch_whose_time_is_over_says_how_many_go_on_and_gives_them(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox, count: int, sent: int, send_many: SendMany
) -> None:
    core.stop()
    try:
        begun = time.monotonic()
        with pytest.raises(rtmw.BatchTimeout, match=rf"within 0\.2 s; {sent} of {count} go on") as error:
            send_many(sender, "ingest", numbered(count), timeout=0.2)
        assert isinstance(error.value, TimeoutError)
        assert time.monotonic() - begun < PATIENCE / 2
    finally:
        core.go_on()
    assert len(error.value.transfers) == sent
    assert all(one.wait(Level.ACCEPTED, PATIENCE) for one in error.value.transfers)
    assert consumed(inbox, sent) == numbered(sent)
    assert inbox.take(0) is None


def test_of_a_large_body_that_was_not_taken_in_time_the_letters_before_it_go_on(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox, send_many: SendMany
) -> None:
    core.stop()
    try:
        with pytest.raises(rtmw.BatchTimeout, match="2 of 4 go on, and 2 were not sent") as error:
            send_many(sender, "ingest", [b"1", b"2", bytes(20 << 20), b"3"], timeout=0.2)
    finally:
        core.go_on()
    assert all(one.wait(Level.ACCEPTED, PATIENCE) for one in error.value.transfers)
    assert consumed(inbox, 2) == [b"1", b"2"]
    assert inbox.take(0) is None


@pytest.mark.parametrize("batches", range(2, 14, 3))
def test_the_core_is_killed_behind_a_batch_and_each_letter_is_consumed_once(
    core: CoreProcess, batches: int, send_many: SendMany
) -> None:
    with killed_behind(core, batches), rtmw.Sender("gauge") as sender:
        sent = [
            one
            for begin in range(0, 4 * COUNT, COUNT)
            for one in send_many(sender, "ingest", numbered(COUNT, begin), delivery=Delivery.LOG)
        ]
        assert all(one.wait(Level.ACCEPTED, PATIENCE) for one in sent)
    with rtmw.Inbox("ingest") as inbox:
        assert Counter(map(int, consumed(inbox, 4 * COUNT))) == Counter(range(4 * COUNT))
        assert inbox.take(0.2) is None


def test_of_letters_that_no_log_keeps_a_batch_says_that_nobody_knows(
    core: CoreProcess, sender: rtmw.Sender, send_many: SendMany
) -> None:
    def start_anew() -> None:
        while sender.stats().followed < COUNT:
            time.sleep(0.001)
        core.kill()
        core.start()

    with ThreadPoolExecutor(1) as threads:
        anew = threads.submit(start_anew)
        with pytest.raises(rtmw.TransferError, match=r"300 of 300 letters will not be CONSUMED.*nobody knows") as error:
            send_many(sender, "ingest", numbered(COUNT), wait=Level.CONSUMED)
        anew.result()
    assert not isinstance(error.value, rtmw.TransferRefused)
    assert {one.state for one in error.value.transfers} == {TransferState.UNKNOWN}


def test_a_sender_that_is_closed_sends_no_batch(core: CoreProcess, send_many: SendMany) -> None:
    sender = rtmw.Sender("gauge")
    sender.close()
    with pytest.raises(rtmw.ClosedError):
        send_many(sender, "ingest", [b"1"])


@pytest.mark.parametrize("level", [Level.ACCEPTED, Level.DELIVERED])
def test_a_batch_that_waits_is_told_when_its_sender_is_closed(
    core: CoreProcess, level: Level, send_many: SendMany
) -> None:
    sender = rtmw.Sender("gauge")

    def close() -> None:
        while not sender._line.changed._waiting:
            time.sleep(0.001)
        sender.close()

    if level is Level.ACCEPTED:
        core.stop()
    closing = threading.Thread(target=close)
    closing.start()
    try:
        with pytest.raises(rtmw.ClosedError):
            send_many(sender, "nobody", numbered(COUNT), wait=level)
    finally:
        core.go_on()
        closing.join()


def test_a_batch_whose_task_is_cancelled_goes_on_and_leaves_nothing_behind(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    async def go() -> None:
        sending = asyncio.create_task(sender.send_many_async("ingest", numbered(COUNT)))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

    core.stop()
    try:
        asyncio.run(go())
        assert not sender._line.changed._waiting
    finally:
        core.go_on()
    assert consumed(inbox, COUNT) == numbered(COUNT)
    assert sender.stats().followed == sender._line.requests._gathering.unanswered == 0


def test_no_letter_of_a_batch_is_sent_again_when_one_like_it_is_sent(
    sender: rtmw.Sender, inbox: rtmw.Inbox, send_many: SendMany
) -> None:
    """Bodies are no ids."""
    for _ in range(2):
        send_many(sender, "ingest", [b"same", b"same"])
    assert consumed(inbox, 4) == [b"same"] * 4
