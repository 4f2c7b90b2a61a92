"""Calls that are left in the midst of taking replies: by what a handler of a signal does, and by a loop that ends.

What such a handler does is done here by the class of a value, or by a profiler, at a place that is known.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

import pytest

import rtmw
from rtmw.requests import client as calling
from rtmw.requests import wire
from tests.bus import LONG, eventually
from tests.requests.common import Goal, client, double, service

pytestmark = pytest.mark.usefixtures("domain")

during: list[Callable[[], object]] = []
"""What happens once, while the thread `takes` reads a value that has the number 1."""


@dataclass
class Read:
    number: int

    def __post_init__(self) -> None:
        if during and self.number == 1 and threading.current_thread().name == "takes":
            during.pop()()


class Interrupted(BaseException):
    pass


class Alarm(Exception):
    """An error that may be one of the class whose value is read."""


def interrupt() -> None:
    raise Interrupted


class Taking:
    """A thread `takes` waits for the reply to its call, and another one waits meanwhile."""

    def __init__(self, caller: rtmw.Client[Goal, Read]) -> None:
        self.caller = caller
        self.released = [threading.Event(), threading.Event()]
        """What the handler waits for, by the number of the call."""
        self.results = list[Read]()
        self.raised = list[BaseException]()

    def handle(self, goal: Goal) -> Read:
        assert self.released[goal.count].wait(LONG)
        return Read(goal.count)

    def call(self, number: int) -> None:
        try:
            self.results.append(self.caller.call(Goal(number), timeout=LONG))
        except (Interrupted, Alarm, rtmw.ValueMismatch) as error:
            self.raised.append(error)

    def begin(self, number: int) -> tuple[threading.Thread, threading.Thread]:
        """The thread that takes, with the call of this number, and the one that waits, with the other."""
        takes = threading.Thread(target=self.call, args=(number,), name="takes")
        takes.start()
        eventually(lambda: self.caller._line.taker == takes.ident)
        other = threading.Thread(target=self.call, args=(1 - number,))
        other.start()
        eventually(lambda: any(call.wake is not None for call in list(self.caller._line.calls.values())))
        return takes, other


@pytest.fixture
def taking(domain: rtmw.Domain) -> Iterator[Taking]:
    with rtmw.Client("arm", request=Goal, reply=Read) as caller:
        made = Taking(caller)
        with rtmw.Service("arm", made.handle, request=Goal, reply=Read, workers=2):
            assert caller.wait(LONG)
            yield made


@pytest.mark.parametrize("kind", [Interrupted, Alarm])
def test_what_a_handler_of_a_signal_raises_while_a_reply_is_read_reaches_its_caller_and_ends_no_other_call(
    taking: Taking, kind: type[BaseException]
) -> None:
    def interrupted() -> None:
        raise kind

    during[:] = [interrupted]
    takes, other = taking.begin(1)
    taking.released[1].set()
    takes.join()
    taking.released[0].set()
    other.join()
    assert taking.results == [Read(0)]
    (raised,) = taking.raised
    assert kind in (type(raised), type(raised.__cause__))  # ValueMismatch, of what may be an error of the class
    assert taking.caller.stats().waiting == 0


def test_who_takes_replies_reads_its_own_alone(taking: Taking) -> None:
    during[:] = [interrupt]
    takes, other = taking.begin(0)
    taking.released[1].set()
    other.join()
    taking.released[0].set()
    takes.join()
    assert taking.results == [Read(1), Read(0)]
    assert during.pop() is interrupt


def test_a_stream_keeps_its_order_though_a_handler_of_a_signal_calls_while_a_value_is_read() -> None:
    def handler(goal: Goal) -> Iterator[Read]:
        yield from map(Read, range(goal.count))

    def take() -> None:
        results.extend(caller.stream(Goal(5), timeout=LONG))

    results = list[Read]()
    with (
        rtmw.Service("arm", handler, request=Goal, reply=Read, workers=2),
        rtmw.Client("arm", request=Goal, reply=Read) as caller,
    ):
        assert caller.wait(LONG)
        during[:] = [lambda: caller.call(Goal(1), timeout=LONG)]
        takes = threading.Thread(target=take, name="takes")
        takes.start()
        takes.join()
        assert during == []
        assert results == [Read(number) for number in range(5)]


def test_a_handler_of_a_signal_may_call_while_its_thread_looks_for_a_server() -> None:
    def call(frame: FrameType, event: str, _: object) -> None:
        if frame.f_code is wire.Readers.are_there.__code__ and event == "call":
            sys.setprofile(None)
            with suppress(rtmw.NoServer):
                caller.call(Goal(1), timeout=LONG)

    def look() -> None:
        sys.setprofile(call)
        found.append(caller.wait(0))

    found = list[bool]()
    with client() as caller:
        looks = threading.Thread(target=look, daemon=True)
        looks.start()
        looks.join(LONG)
        assert found == [False]


def test_a_thread_that_is_interrupted_as_it_has_taken_its_reply_lets_another_one_take(
    taking: Taking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "LEAD_S", 60.0)  # so that the other one is told, and does not find out by itself
    monkeypatch.setattr(calling, "WATCH_S", LONG)
    during[:] = [interrupt]
    takes, other = taking.begin(1)
    taking.released[1].set()
    takes.join()
    eventually(lambda: taking.caller._line.taker == other.ident)
    taking.released[0].set()
    other.join()
    assert taking.results == [Read(0)]


def test_calls_of_a_loop_that_was_closed_are_over_when_another_call_ends() -> None:
    async def leave() -> None:
        left.append(asyncio.ensure_future(caller.call_async(Goal(0), timeout=None)))
        while not caller._line.heads:
            await asyncio.sleep(0.005)

    def handler(goal: Goal) -> object:
        if not goal.count:
            assert released.wait(LONG)
        return double(goal)

    released, left = threading.Event(), list[asyncio.Future[object]]()
    with service(handler, workers=2), client() as caller:
        assert caller.wait(LONG)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(leave())
        loop.close()
        caller.call(Goal(1), timeout=LONG)
        assert (caller.stats().waiting, caller._line.heads) == (0, {})
        released.set()
        for task in left:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
