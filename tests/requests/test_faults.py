"""Errors that nobody expects, strangers on the topics of a service, and loops that stand still: both sides go on."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

import rtmw
from rtmw.profiles import STATUS
from rtmw.requests import client as calling
from rtmw.requests import service as serving
from rtmw.requests import wire
from rtmw.requests._calls import Line
from tests.bus import LONG, eventually
from tests.requests.common import Goal, Step, client, double, service, steps

pytestmark = pytest.mark.usefixtures("domain")


async def in_time(fact: Callable[[], object]) -> None:
    """`eventually`, in a loop that goes on."""
    until = time.monotonic() + LONG
    while not fact():
        assert time.monotonic() < until
        await asyncio.sleep(0.005)


class Mute(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise ZeroDivisionError("no text")


# Proves G90.
def test_a_long_text_of_an_error_is_cut_and_that_is_said() -> None:
    def broken(goal: Goal) -> Step:
        raise ValueError("é" * 100_000)

    with service(broken), client() as calls:
        assert calls.wait(LONG)
        with pytest.raises(rtmw.CallFailed) as failed:
            calls.call(Goal(1), timeout=LONG)
    text, _, cut = str(failed.value).partition(" … ")
    assert (len(text), text[:14]) == (4096, "ValueError: éé")
    assert cut == "(100012 characters; the log of the server has all)"


ODD = [Mute(), ValueError("\udcff"), ValueError("a\0b")]


@pytest.mark.parametrize("error", ODD, ids=["mute", "surrogate", "nul"])
# Proves G90.
def test_an_error_whose_text_cannot_be_made_or_sent_is_callfailed_and_the_worker_goes_on(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "rtmw")  # a report of a test with such a text cannot be sent either

    def broken(goal: Goal) -> Step:
        if goal.count == 1:
            raise error
        return double(goal)

    async def broken_async(goal: Goal) -> Step:
        return broken(goal)

    async def main() -> None:
        with service(broken_async, "async") as serves, client("async") as caller:
            with pytest.raises(rtmw.CallFailed, match=type(error).__name__[0]):
                await caller.call_async(Goal(1), timeout=LONG)
            assert await caller.call_async(Goal(2), timeout=LONG) == Step(4)
            assert (serves.stats().failed, serves.stats().served) == (1, 1)

    with service(broken) as serves, client() as caller:
        with pytest.raises(rtmw.CallFailed, match=type(error).__name__[0]):
            caller.call(Goal(1), timeout=LONG)
        assert caller.call(Goal(2), timeout=LONG) == Step(4)
        assert serves.stats().failed == 1
    asyncio.run(main())


def test_a_call_whose_failure_cannot_be_sent_is_counted_as_failed_and_the_worker_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(goal: Goal) -> Any:
        return 3 if goal.count == 1 else double(goal)

    with service(broken) as serves, client() as caller:
        assert caller.call(Goal(2), timeout=LONG) == Step(4)
        monkeypatch.setattr(serving, "_told", type)  # what is no text
        with pytest.raises(TimeoutError):
            caller.call(Goal(1), timeout=0.2)
        assert caller.call(Goal(2), timeout=LONG) == Step(4)
        assert serves.stats().failed == 1
    assert "its client is not told" in caplog.text


def test_a_handler_in_a_thread_that_raises_cancellederror_after_its_call_leaves_the_worker() -> None:
    def cancelled(goal: Goal) -> Step:
        if goal.count == 1:
            time.sleep(0.1)
            raise asyncio.CancelledError
        return double(goal)

    with service(cancelled) as serves, client() as caller:
        with pytest.raises(TimeoutError):
            caller.call(Goal(1), timeout=0.05)
        assert caller.call(Goal(2), timeout=LONG) == Step(4)
        eventually(lambda: serves.stats().served == 1)


def announcement() -> tuple[rtmw.Publisher[Any], Any]:
    """A publisher where the server of "arm" says that it serves, and what that server has said."""
    reply, topic = wire.envelope("Reply", Step), wire.server_topic("arm")
    with wire.subscriber(topic, reply, rtmw.Domain(), **STATUS.subscriber) as said:
        value = said.receive(timeout=LONG).value
    return wire.publisher(topic, reply, rtmw.Domain(), **STATUS.publisher), value


@pytest.mark.parametrize("kind", ["thread", "task"])
# Proves G90.
def test_whatever_a_stranger_publishes_where_servers_say_that_they_serve_the_service_goes_on(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def double_async(goal: Goal) -> Step:
        return double(goal)

    async def main() -> None:
        with (
            rtmw.Publisher("arm/reply/server", history=1) as raw,
            rtmw.Publisher("arm/reply/server", Step, history=1) as other,
        ):
            raw.publish(b"x")
            other.publish(Step(1))
            with service(double if kind == "thread" else double_async), client() as caller:
                replayed, value = announcement()
                for _ in range(3):
                    raw.publish(b"y")
                    other.publish(Step(2))
                    replayed.publish(value)
                    await asyncio.sleep(0.12)  # it has looked
                    assert await caller.call_async(Goal(1), timeout=LONG) == Step(2)
                replayed.close()

    asyncio.run(main())
    assert "another server" not in caplog.text
    assert "error of its own" not in caplog.text


# Proves G90.
def test_a_replay_of_what_a_server_said_ends_no_call() -> None:
    go = threading.Event()
    with service(lambda goal: go.wait(LONG) and Step(goal.count)), client() as caller:
        replayed, value = announcement()
        threading.Timer(0.05, replayed.publish, [value]).start()
        threading.Timer(0.3, go.set).start()
        with replayed:
            assert caller.call(Goal(1), timeout=LONG) == Step(1)


@pytest.mark.parametrize("kind", ["thread", "task"])
# Proves G91.
def test_a_stream_that_is_left_is_closed_though_more_calls_than_may_wait_have_timed_out(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "UNREAD_MOST", 32)
    monkeypatch.setitem(wire.SUBSCRIBES, "depth", 32)
    closed = threading.Event()

    def endless(goal: Goal) -> Iterator[Step]:
        try:
            for number in range(1 << 40):
                yield Step(number)
                time.sleep(0.2)
        finally:
            closed.set()

    async def endless_async(goal: Goal) -> Any:
        try:
            for number in range(1 << 40):
                yield Step(number)
                await asyncio.sleep(0.2)
        finally:
            closed.set()

    def either(goal: Goal) -> Any:
        return (endless if kind == "thread" else endless_async)(goal)

    async def main() -> None:
        handler: Any = either if kind == "thread" else endless_async
        with service(handler) as serves, client() as caller:
            stream = caller.stream(Goal(1))
            assert await anext(stream) == Step(0)
            calls = (caller.call_async(Goal(2), timeout=0.2) for _ in range(100))
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(end) for end in ends} == {TimeoutError}
            await in_time(lambda: (serves.stats().running, serves.stats().waiting) == (1, 0))
            stream.close()
            await in_time(lambda: closed.is_set() and not serves.stats().running)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_a_left_stream_whose_generator_raises_at_its_end_is_counted_once(kind: str) -> None:
    def broken(goal: Goal) -> Iterator[Step]:
        try:
            yield from steps(goal)
        finally:
            raise RuntimeError("at the end")

    async def broken_async(goal: Goal) -> Any:
        try:
            for step in steps(goal):
                await asyncio.sleep(0.001)
                yield step
        finally:
            raise RuntimeError("at the end")

    async def main() -> None:
        handler: Any = broken if kind == "thread" else broken_async
        with service(handler) as serves, client() as caller:
            async for _ in caller.stream(Goal(1 << 30, 0.001)):
                break
            while serves.stats().running:
                await asyncio.sleep(0.01)
            stats = serves.stats()
            assert stats.cancelled + stats.failed + stats.unread == 1

    asyncio.run(main())


def test_a_task_that_a_handler_began_may_call_when_the_call_of_the_handler_is_over() -> None:
    tasks = list[asyncio.Task[Step]]()

    async def main() -> None:
        async def later() -> Step:
            await asyncio.sleep(0.3)
            return await caller.call_async(Goal(4), timeout=LONG)

        async def begins(goal: Goal) -> Step:
            tasks.append(asyncio.create_task(later()))
            return Step(goal.count)

        with service(double), service(begins, "begins"), client() as caller, client("begins") as other:
            assert await other.call_async(Goal(1), timeout=0.2) == Step(1)
            assert await tasks[0] == Step(8)

    asyncio.run(main())


def test_a_service_that_always_has_work_lets_go_of_clients_that_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(goal: Goal) -> Step:
        time.sleep(0.005)
        return Step(goal.count)

    with service(busy) as serves, client() as caller:
        over, tidied = threading.Event(), list[int]()
        tidy = serves._tidy
        monkeypatch.setattr(serves, "_tidy", lambda: (tidied.append(serves.stats().waiting), tidy()))

        def load() -> None:
            while not over.is_set():
                caller.call(Goal(1), timeout=LONG)

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            eventually(lambda: sum(waiting > 0 for waiting in tidied) >= 3)
        finally:
            over.set()
            for thread in threads:
                thread.join()


def test_an_async_service_whose_loop_has_ended_is_closed_and_a_call_is_noserver() -> None:
    async def handler(goal: Goal) -> Step:
        return Step(goal.count)

    async def main() -> rtmw.Service[Goal, Step]:
        serves = service(handler)
        assert await caller.call_async(Goal(1), timeout=LONG) == Step(1)
        return serves

    with client() as caller:
        serves = asyncio.run(main())
        assert "closed" in repr(serves)
        with pytest.raises(rtmw.NoServer):
            caller.call(Goal(1), timeout=0.5)
        with service(double):  # the name is free
            assert caller.wait(LONG)


@pytest.mark.parametrize("timeout", [1.0, LONG], ids=["short", "long"])
@pytest.mark.parametrize("where", ["in the loop", "in a thread", "between two runs"])
# Proves G92.
def test_a_call_is_answered_though_a_task_waits_whose_loop_stands_still(
    where: str, timeout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "LEAD_S", 60.0)
    go = threading.Event()

    def either(goal: Goal) -> Step:
        if goal.count == 0:
            go.wait(LONG)
        return Step(goal.count)

    got = list[Step]()

    def call() -> None:
        got.append(caller.call(Goal(1), timeout=timeout))

    def blocked() -> None:
        if where == "in a thread":
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
        else:
            call()

    async def leads() -> asyncio.Task[Step]:
        task = asyncio.create_task(caller.call_async(Goal(0), timeout=LONG))
        await in_time(lambda: serves.stats().running == 1)
        if where != "between two runs":
            blocked()
        return task

    loop = asyncio.new_event_loop()
    with service(either, workers=2) as serves, client() as caller:
        task = loop.run_until_complete(leads())
        if where == "between two runs":
            blocked()
        go.set()
        assert loop.run_until_complete(task) == Step(0)
    loop.close()
    assert got == [Step(1)]


# Proves G92.
def test_an_idle_client_does_not_take_the_server_of_before_for_that_of_now() -> None:
    first = service(double)
    with client() as caller:
        assert caller.call(Goal(1), timeout=LONG) == Step(2)
        first.close()

        def slow(goal: Goal) -> Step:
            time.sleep(0.2)  # longer than the client waits before it looks who serves
            return Step(7)

        with service(slow):
            assert caller.call(Goal(1), timeout=LONG) == Step(7)


def test_no_call_begins_with_a_server_that_another_thread_has_just_seen_go() -> None:
    with service(double), client() as caller:
        line = caller._line
        identity = line.look()

        def look() -> int:
            line.server = servers.pop()  # as another thread does right behind the look of this one
            return identity

        servers = [0, identity]
        line.look = look  # type: ignore[method-assign]
        line.server = 0
        call = line.begin(caller, time.monotonic() + LONG, None)
        line.leave(call)
        assert call.server == identity
        line.server = 0
        with pytest.raises(rtmw.NoServer):
            line.begin(caller, time.monotonic() + LONG, None)


@pytest.mark.parametrize("first", ["thread", "task"])
# Proves G92.
def test_threads_and_tasks_of_two_loops_each_get_their_replies_from_whoever_takes_them(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "LEAD_S", 60.0)  # so that each is told, and nobody finds out by himself
    order, wrong = ["thread", "task", "thread", "task"], list[object]()

    def slow(goal: Goal) -> Step:
        time.sleep(goal.count % 3 / 1000)
        return Step(goal.count)

    def in_thread(base: int) -> None:
        for number in range(base, base + 40):
            if caller.call(Goal(number), timeout=LONG) != Step(number):
                wrong.append(number)

    async def in_task(base: int) -> None:
        for number in range(base, base + 40):
            if await caller.call_async(Goal(number), timeout=LONG) != Step(number):
                wrong.append(number)

    async def tasks(base: int) -> None:
        await asyncio.gather(*(in_task(base + 1000 * one) for one in range(5)))

    def run(kind: str, base: int) -> None:
        try:
            in_thread(base) if kind == "thread" else asyncio.run(tasks(base))
        except Exception as error:
            wrong.append(error)

    with service(slow, workers=6) as serves, client() as caller:
        kinds = order if first == "thread" else order[::-1]
        threads = [threading.Thread(target=run, args=(kind, 10_000 * n)) for n, kind in enumerate(kinds)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert time.monotonic() - began < LONG
        assert (caller.stats().waiting, caller.stats().late, caller._line.taker) == (0, 0, 0)
        eventually(lambda: serves.stats().served == 480)


def test_a_cancellation_for_which_the_server_had_no_room_is_sent_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(wire.SUBSCRIBES, "depth", 4)
    ended = threading.Event()

    async def sleeps(goal: Goal) -> Step:
        if goal.count == 0:
            return Step(0)
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()
        return Step(1)

    async def main() -> None:
        with service(sleeps, workers=100) as serves, client() as caller:
            tasks = [asyncio.create_task(caller.call_async(Goal(1), timeout=None)) for _ in range(40)]
            await in_time(lambda: serves.stats().running == 40)
            for task in tasks:
                task.cancel()  # all in one turn of the loop, in which the server takes nothing
            await asyncio.gather(*tasks, return_exceptions=True)
            until = time.monotonic() + LONG
            while serves.stats().running:
                assert time.monotonic() < until
                assert await caller.call_async(Goal(0), timeout=LONG) == Step(0)
                await asyncio.sleep(0.01)

    asyncio.run(main())
    assert ended.is_set()


def test_a_client_that_is_dropped_gives_its_topics_back_and_its_stream_goes_on(domain: rtmw.Domain) -> None:
    before = len(domain.region.publishers()), len(domain.region.subscribers())
    for _ in range(3):
        client("nobody")
    gc.collect()
    assert (len(domain.region.publishers()), len(domain.region.subscribers())) == before
    with service(steps):
        assert [*client().stream(Goal(3), timeout=LONG)] == [Step(0), Step(1), Step(2)]


# Proves G85.
def test_a_handler_of_a_signal_that_raises_in_a_call_slows_down_no_later_call() -> None:
    class Interrupted(Exception):
        pass

    def interrupt(number: int, frame: object) -> None:
        if is_armed:
            raise Interrupted

    is_armed = False
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with service(double) as serves, client() as caller:
            for number in range(400):
                with suppress(Interrupted):
                    is_armed = True
                    signal.setitimer(signal.ITIMER_REAL, 0.0001 + number * 1e-6)
                    while True:
                        caller.call(Goal(1), timeout=LONG)
                is_armed = False
                assert not caller._line.taker  # or no other thread would take replies any more
            results = [caller.call(Goal(1), timeout=LONG)]
            other = threading.Thread(target=lambda: results.append(caller.call(Goal(1), timeout=LONG)))
            other.start()
            other.join()
            assert results == [Step(2)] * 2
            assert caller.stats().waiting == 0
            eventually(lambda: serves.stats().running == 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_handler_of_a_signal_that_raises_as_a_wait_begins_leaves_no_coroutine_that_was_never_awaited() -> None:
    class Interrupted(Exception):
        pass

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        if frame.f_code is wire.run.__code__ and event == "call":
            raise Interrupted

    with service(steps), client() as caller, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        before, stream = sys.getprofile(), caller.stream(Goal(1))
        sys.setprofile(interrupt)
        try:
            with pytest.raises(Interrupted):
                next(stream)
        finally:
            sys.setprofile(before)
        gc.collect()
        assert [*stream] == [Step(0)]
    assert told == []


def test_a_handler_of_a_signal_may_call_while_its_thread_waits_for_a_reply() -> None:
    def slow(goal: Goal) -> Step:
        if goal.count:
            begun.set()
            assert answered.wait(LONG)
        return Step(goal.count)

    def call(number: int, frame: object) -> None:
        results.append(caller.call(Goal(0), timeout=LONG))
        answered.set()

    def interrupt() -> None:
        if begun.wait(LONG):
            os.kill(os.getpid(), signal.SIGALRM)

    begun, answered, results = threading.Event(), threading.Event(), list[Step]()
    before = signal.signal(signal.SIGALRM, call)
    try:
        with service(slow, workers=2), client() as caller:
            threading.Thread(target=interrupt).start()
            assert caller.call(Goal(1), timeout=LONG) == Step(1)
            assert results == [Step(0)]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_line_that_was_not_made_whole_is_an_error_and_no_crash() -> None:
    def nothing(*_: object) -> None:
        return None

    servers = rtmw.Subscriber("servers", bytes)
    whole: tuple[Any, ...] = {}, nothing, nothing, servers, 1, 2
    half = Line.__new__(Line)
    for use in (lambda: half.take(0.0), lambda: half.begin(None, 1.0, None)):
        with pytest.raises(RuntimeError, match="before its __init__ has ended"):
            use()
    half.__init__(*whole)  # type: ignore[misc]
    with pytest.raises(RuntimeError, match="made once"):
        half.__init__({}, 1)  # type: ignore[misc,call-arg,arg-type]
    assert half.take(0.0)
    for wrong in ((), (None,), (None, 1.0, (1,)), (None, 1.0, 5)):
        with pytest.raises(TypeError, match="begin"):
            half.begin(*wrong)  # type: ignore[call-arg,arg-type]


def test_a_line_that_only_its_own_calls_keep_is_collected() -> None:
    class Kept(Line):
        def __init__(self) -> None:
            super().__init__({}, self.nothing, self.nothing, rtmw.Subscriber("servers", bytes), 1, 2)

        def nothing(self, *_: object) -> None:
            return None

    gone = weakref.ref(Kept())
    gc.collect()
    assert gone() is None
