"""What a process asks its core: how much has no answer, and when those are woken who wait for one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import rtmw
from rtmw.errors import ClosedError
from rtmw.transfer.client import sender as sender_module
from rtmw.transfer.client.line import MOST_PENDING, Line, Requests
from rtmw.transfer.client.waiting import NEVER, Pending
from rtmw.transfer.frames import BLOCK, WINDOW, Frame
from rtmw.transfer.messages import Accepted, Run
from rtmw.waiting import Asleep
from tests.transfer.client.test_group import LIFE, SHORT, Sender, id_of
from tests.transfer.core_process import PATIENCE, CoreProcess


@pytest.fixture
def requests(domain: rtmw.Domain) -> Iterator[Requests]:
    """Of a line that has no core yet."""
    requests = Requests(domain, 0)
    requests.enter(LIFE)
    yield requests
    requests.close()


def test_who_waits_for_a_letter_that_was_answered_is_woken_also_when_the_line_ends_before_it_sleeps(
    requests: Requests,
) -> None:
    asleep = Asleep()
    place = requests.join_others(Sender(), SHORT, b"x", asleep, NEVER)
    assert place is not None
    requests.take(Frame(LIFE, 0, 1, Accepted(1, (id_of(1),))))
    requests.end(ClosedError("closed"))
    waits = threading.Thread(target=asleep.wait, daemon=True)
    waits.start()
    waits.join(PATIENCE)
    assert not waits.is_alive()
    assert place[0].is_done


def test_no_letter_begins_a_group_while_too_many_requests_have_no_answer(requests: Requests) -> None:
    async def gather() -> bool:
        return requests.gather(Sender(), SHORT, b"x", waits=True) is not None

    size = 128
    for _ in range(MOST_PENDING // size):
        assert requests.begin_runs(Sender(), [Run(SHORT, (b"x",) * size)], waits=True) is not None
    assert not asyncio.run(gather())
    assert requests.join_others(Sender(), SHORT, b"x", None, NEVER) is None
    requests.take(Frame(LIFE, 0, 1, Accepted(size, (id_of(1),))))
    assert asyncio.run(gather())


@pytest.mark.parametrize("is_task", [False, True])
def test_blocks_that_are_taken_between_a_look_and_the_wait_wake_who_waits(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox, monkeypatch: pytest.MonkeyPatch, is_task: bool
) -> None:
    """A thread may be stopped anywhere; here it is while it makes the condition, until the core has taken a window."""
    make = sender_module._has_changed

    def stopped(line: Line, pending: Pending) -> Callable[[], bool]:
        time.sleep(0.05)
        return make(line, pending)

    monkeypatch.setattr(sender_module, "_has_changed", stopped)
    body = bytes(3 * WINDOW * BLOCK)
    if is_task:
        asyncio.run(sender.send_async("ingest", body, timeout=PATIENCE))
    else:
        sender.send("ingest", body, timeout=PATIENCE)
    letter = inbox.take(PATIENCE)
    assert letter is not None
    assert letter.body == body
