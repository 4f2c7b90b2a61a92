"""A sender whose time is over, or that is cancelled, gives up what was not handed over: nothing is left of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

import pytest

import rtmw
from rtmw import Delivery, Level
from rtmw.transfer.client.viewer import Viewer
from tests.bus import eventually
from tests.transfer.core_process import PATIENCE, CoreProcess

LARGE = 20 << 20
"""Bytes of a body, of which a part is on its way at a time."""
Call: TypeAlias = Callable[[rtmw.Sender, bytes], None]
TIMEOUT = 1.5
Send: TypeAlias = Callable[[rtmw.Sender, Delivery, float], None]


def by_thread(sender: rtmw.Sender, delivery: Delivery, timeout: float) -> None:
    with pytest.raises(TimeoutError, match=f"of {LARGE} bytes were taken"):
        sender.send("ingest", bytes(LARGE), delivery=delivery, timeout=timeout)


def by_task(sender: rtmw.Sender, delivery: Delivery, timeout: float) -> None:
    with pytest.raises(TimeoutError, match=f"of {LARGE} bytes were taken"):
        asyncio.run(sender.send_async("ingest", bytes(LARGE), delivery=delivery, timeout=timeout))


def by_task_that_is_cancelled(sender: rtmw.Sender, delivery: Delivery, timeout: float) -> None:
    async def send() -> None:
        await asyncio.wait_for(sender.send_async("ingest", bytes(LARGE), delivery=delivery), timeout)

    with pytest.raises(TimeoutError):
        asyncio.run(send())


def arriving(domain: rtmw.Domain) -> object:
    """Bodies of which the core has a part."""
    with Viewer(domain) as viewer:
        return viewer.show("transfers")["arriving"]


@pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])
@pytest.mark.parametrize("send", [by_thread, by_task, by_task_that_is_cancelled])
# Proves G179.
def test_the_core_forgets_what_has_come_of_a_body_whose_sender_gave_it_up(
    core: CoreProcess, domain: rtmw.Domain, sender: rtmw.Sender, inbox: rtmw.Inbox, send: Send, delivery: Delivery
) -> None:
    core.stop()
    try:
        send(sender, delivery, 0.2)
    finally:
        core.go_on()
    eventually(lambda: sender.stats().unanswered == 0)
    assert sender.stats().refused == 1
    assert not arriving(domain)
    assert not list((core.data / "spool").iterdir())
    sender.send("ingest", bytes(LARGE), delivery=delivery, timeout=PATIENCE)
    with inbox.take(PATIENCE) or pytest.fail("nothing came") as letter, letter.open() as body:
        assert body.read() == bytes(LARGE)
    assert inbox.take(0) is None


def fill(sender: rtmw.Sender) -> None:
    """The core, which is stopped, has so many requests without an answer that there is no room for another one."""
    while sender._line.requests.has_room():
        sender.send("ingest", b"x", wait=Level.NONE)


def go_on_for_a_moment(core: CoreProcess, sender: rtmw.Sender) -> None:
    """It answers what was asked first, and is stopped before it comes to what was asked last."""
    core.go_on()
    while not sender._line.requests.has_room():
        pass
    core.stop()


def calls_by_thread(sender: rtmw.Sender, body: bytes) -> None:
    sender.send("ingest", body, wait=Level.CONSUMED, timeout=TIMEOUT)


def calls_by_task(sender: rtmw.Sender, body: bytes) -> None:
    asyncio.run(sender.send_async("ingest", body, wait=Level.CONSUMED, timeout=TIMEOUT))


def calls_with_a_batch(sender: rtmw.Sender, body: bytes) -> None:
    sender.send_many("ingest", [body], wait=Level.CONSUMED, timeout=TIMEOUT)


@pytest.mark.parametrize("call", [calls_by_thread, calls_by_task, calls_with_a_batch])
@pytest.mark.parametrize(
    ("fills", "size", "halts"),
    [
        pytest.param(True, 1, False, id="room, and then the level"),
        pytest.param(True, LARGE, True, id="room, and then the pieces of a large body"),
        pytest.param(False, LARGE, False, id="the pieces of a large body, and then the level"),
    ],
)
def test_a_call_that_waits_for_several_things_has_one_timeout_for_all_of_them(
    core: CoreProcess, sender: rtmw.Sender, call: Call, fills: bool, size: int, halts: bool
) -> None:
    core.stop()
    if fills:
        fill(sender)
    end_of_the_first = (lambda: go_on_for_a_moment(core, sender)) if halts else core.go_on
    timer = threading.Timer(0.8 * TIMEOUT, end_of_the_first)
    began = time.monotonic()
    timer.start()
    try:
        with pytest.raises(TimeoutError, match=rf"within {TIMEOUT} s"):
            call(sender, bytes(size))
        assert time.monotonic() - began < 1.5 * TIMEOUT
    finally:
        timer.join()
        core.go_on()


# Proves G179.
def test_a_body_that_was_given_up_while_its_core_ended_is_no_question_to_the_next_one(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    core.stop()
    by_thread(sender, Delivery.LOG, 0.2)
    core.kill()
    core.start()
    eventually(lambda: sender.stats().unanswered == 0)
    assert sender.stats().refused == 1
    sender.send("ingest", b"next", delivery=Delivery.LOG, timeout=PATIENCE)
    with inbox.take(PATIENCE) or pytest.fail("nothing came") as letter:
        assert letter.body == b"next"


def test_a_task_that_waits_for_room_in_the_queue_to_the_core_waits_no_longer_than_its_timeout(
    core: CoreProcess, sender: rtmw.Sender
) -> None:
    async def send() -> None:
        while sender._line.requests.has_room():
            await sender.send_async("ingest", b"x", wait=Level.NONE)
        with pytest.raises(TimeoutError, match=r"answered what was sent before within 0\.2 s; nothing was sent"):
            await asyncio.wait_for(sender.send_async("ingest", b"late", timeout=0.2), PATIENCE)

    core.stop()
    try:
        asyncio.run(send())
        sent = sender.stats().sent
    finally:
        core.go_on()
    eventually(lambda: sender.stats().unanswered == 0)
    assert sender.stats().sent == sent
