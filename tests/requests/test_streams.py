"""Streams of replies, and their cancellation."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import rtmw
from rtmw.requests import wire
from tests.bus import LONG, eventually
from tests.requests.common import Goal, Step, client, service, steps

pytestmark = pytest.mark.usefixtures("domain")


class Watched:
    """Handlers that never end by themselves, and say how they were ended."""

    def __init__(self) -> None:
        self.ends = list[str]()

    def steps(self, goal: Goal) -> Iterator[Step]:
        try:
            for number in range(1 << 40):
                threading.Event().wait(goal.pause)
                yield Step(number)
        except GeneratorExit:
            self.ends.append("closed")
            raise

    async def steps_async(self, goal: Goal) -> AsyncIterator[Step]:
        try:
            for number in range(1 << 40):
                await asyncio.sleep(goal.pause)
                yield Step(number)
        except (GeneratorExit, asyncio.CancelledError):
            self.ends.append("closed")
            raise

    async def sleep(self, goal: Goal) -> Step:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise
        return Step(0)


def test_the_values_of_a_generator_are_the_replies_and_its_end_the_end() -> None:
    async def collected() -> list[Step]:
        return [step async for step in caller.stream(Goal(4), timeout=LONG)]

    with service(steps) as serves, client() as caller:
        assert [*caller.stream(Goal(3), timeout=LONG)] == [Step(0), Step(1), Step(2)]
        assert [*caller.stream(Goal(0), timeout=LONG)] == []
        assert asyncio.run(collected()) == [Step(number) for number in range(4)]
        eventually(lambda: serves.stats().served == 3)


def test_a_stream_of_what_returns_has_one_value() -> None:
    with service(lambda goal: Step(goal.count)), client() as caller:
        assert [*caller.stream(Goal(3), timeout=LONG)] == [Step(3)]


def test_values_come_as_they_are_yielded() -> None:
    go = threading.Event()

    def two(_: Goal) -> Iterator[Step]:
        yield Step(1)
        assert go.wait(LONG)
        yield Step(2)

    with service(two), client() as caller:
        stream = caller.stream(Goal(1), timeout=LONG)
        assert next(stream) == Step(1)
        go.set()
        assert [*stream] == [Step(2)]


def test_what_a_generator_raises_comes_behind_its_values() -> None:
    def broken(_: Goal) -> Iterator[Step]:
        yield Step(1)
        raise ValueError("no more")

    with service(broken), client() as caller:
        got, stream = list[Step](), caller.stream(Goal(1), timeout=LONG)
        with pytest.raises(rtmw.CallFailed, match="ValueError: no more"):
            got.extend(stream)
        assert got == [Step(1)]
        assert [*stream] == []


@pytest.mark.parametrize("bad", [None, 3, Goal(1)], ids=repr)
def test_a_bad_value_of_a_generator_closes_it_and_is_callfailed(bad: Any) -> None:
    ended = list[str]()

    def broken(_: Goal) -> Iterator[Any]:
        try:
            yield Step(1)
            yield bad
        finally:
            ended.append("closed")

    with service(broken), client() as caller:
        with pytest.raises(rtmw.CallFailed, match="TypeMismatch"):
            list(caller.stream(Goal(1), timeout=LONG))
        assert ended == ["closed"]


@pytest.mark.parametrize("how", ["break", "close", "with", "timeout"])
def test_a_stream_that_is_left_closes_the_generator(how: str) -> None:
    watched = Watched()
    with service(watched.steps) as serves, client() as caller:
        stream = caller.stream(Goal(0, 0.001), timeout=0.3 if how == "timeout" else None)
        if how == "timeout":
            with pytest.raises(TimeoutError):
                list(stream)
        else:
            assert next(stream) == Step(0)
            if how == "close":
                stream.close()
                stream.close()
                assert next(stream, None) is None
            elif how == "with":
                with stream:
                    pass
        del stream
        eventually(lambda: watched.ends == ["closed"])
        eventually(lambda: serves.stats().running == 0)
        stats = serves.stats()
        assert stats.cancelled + stats.expired == 1
        assert caller.stats().waiting == 0


@pytest.mark.parametrize("how", ["break", "cancel", "call"])
# Proves G86.
def test_in_asyncio_what_is_left_or_cancelled_cancels_the_task_and_leaves_none_behind(how: str) -> None:
    watched = Watched()

    async def main() -> None:
        handler: Any = watched.sleep if how == "call" else watched.steps_async
        with service(handler) as serves, client() as caller:
            before = len(asyncio.all_tasks())
            if how == "break":
                async for _ in caller.stream(Goal(0, 0.001)):
                    break
            else:

                async def whole() -> None:
                    if how == "call":
                        await caller.call_async(Goal(0), timeout=None)
                    async for _ in caller.stream(Goal(0, 0.001)):
                        pass

                task = asyncio.create_task(whole())
                while not serves.stats().running:
                    await asyncio.sleep(0.001)
                await asyncio.sleep(0.01)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            while serves.stats().running:
                await asyncio.sleep(0.001)
            assert watched.ends == ["cancelled" if how == "call" else "closed"]
            assert len(asyncio.all_tasks()) == before
            assert serves.stats().cancelled == 1
            assert caller.stats().waiting == 0
        await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


# Proves G83.
def test_a_call_that_is_cancelled_while_it_waits_is_never_served() -> None:
    go, seen = threading.Event(), list[int]()

    def slow(goal: Goal) -> Step:
        seen.append(goal.count)
        go.wait(LONG)
        return Step(goal.count)

    async def main() -> None:
        first = asyncio.create_task(caller.call_async(Goal(1), timeout=LONG))
        while not serves.stats().running:
            await asyncio.sleep(0.001)
        second = asyncio.create_task(caller.call_async(Goal(2), timeout=LONG))
        while not serves.stats().waiting:
            await asyncio.sleep(0.001)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        go.set()
        assert await first == Step(1)
        assert await caller.call_async(Goal(3), timeout=LONG) == Step(3)

    with service(slow) as serves, client() as caller:
        asyncio.run(main())
        assert seen == [1, 3]
        assert serves.stats().cancelled == 1


# Proves G86.
def test_cancelled_calls_leave_no_slots_threads_or_tasks_behind(domain: rtmw.Domain) -> None:
    watched = Watched()
    region = domain.region

    def used() -> tuple[int, int, int]:
        return len(region.publishers()), len(region.subscribers()), threading.active_count()

    with service(watched.steps, workers=2) as serves, client() as caller:
        next(caller.stream(Goal(0)))
        eventually(lambda: serves.stats().running == 0)
        before = used()
        for _ in range(100):
            assert next(caller.stream(Goal(0, 0.001))) == Step(0)  # without a pause it fills the queue of a busy client
        eventually(lambda: serves.stats().running + serves.stats().waiting == 0)
        assert used() == before
        assert caller.stats().waiting == 0


def test_a_stream_that_another_thread_closes_ends_at_once_for_who_waits_for_its_next_value() -> None:
    go, ended = threading.Event(), list[float]()

    def silent(_: Goal) -> Iterator[Step]:
        go.wait(LONG)
        yield Step(1)

    def wait() -> None:
        assert next(stream, None) is None
        ended.append(time.monotonic())

    with service(silent) as serves, client() as caller:
        stream = caller.stream(Goal(1), timeout=LONG)
        thread = threading.Thread(target=wait)
        thread.start()
        eventually(lambda: serves.stats().running == 1)
        began = time.monotonic()
        stream.close()
        thread.join()
        go.set()
        assert ended[0] - began < LONG / 2
        assert caller.stats().waiting == 0


def test_a_stream_that_is_left_unread_keeps_few_messages_in_the_memory_of_the_domain(domain: rtmw.Domain) -> None:
    with service(steps, workers=2) as serves, client() as caller:
        stream = caller.stream(Goal(200), timeout=LONG)
        assert next(stream) == Step(0)
        eventually(lambda: serves.stats().served == 1)
        with client() as other:
            assert other.call(Goal(1), timeout=LONG) == Step(0)  # its thread takes the replies of the stream, too
        assert stream._call is not None
        assert stream._call.arrived is not None
        kept = [isinstance(reply, rtmw.Sample) for reply in stream._call.arrived]
        assert kept == [True] * 8 + [False] * 191
        assert [*stream] == [Step(number) for number in range(1, 200)]


def test_closing_a_service_closes_its_generators_and_the_client_gets_noserver() -> None:
    watched = Watched()
    serves = service(watched.steps)
    with client() as caller:
        stream = caller.stream(Goal(0, 0.001))
        next(stream)
        serves.close()
        assert watched.ends == ["closed"]
        with pytest.raises(rtmw.NoServer):
            list(stream)


def test_a_caller_that_leaves_too_many_replies_unread_is_told_and_no_other_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "UNREAD_MOST", 16)
    monkeypatch.setitem(wire.SUBSCRIBES, "depth", 16)

    def either(goal: Goal) -> Any:
        return Step(9) if goal.count == 0 else steps(goal)

    with service(either) as serves, client() as caller:
        slow = caller.stream(Goal(1000), timeout=LONG)
        got = [next(slow)]
        eventually(lambda: serves.stats().unread == 1)  # its worker is free again
        assert caller.call(Goal(0), timeout=LONG) == Step(9)
        with pytest.raises(rtmw.CallFailed, match="replies unread"):
            got.extend(slow)
        assert got == [Step(number) for number in range(len(got))]


def test_a_slow_caller_of_a_quick_generator_that_stays_within_the_queue_gets_everything() -> None:
    with service(steps), client() as caller:
        got = list[Step]()
        for step in caller.stream(Goal(200), timeout=LONG):
            got.append(step)
            if step.number == 0:
                threading.Event().wait(0.2)
        assert got == [Step(number) for number in range(200)]


def test_many_streams_at_once_keep_their_order() -> None:
    async def one(number: int) -> bool:
        return [step.number async for step in caller.stream(Goal(number), timeout=LONG)] == [*range(number)]

    async def main() -> list[bool]:
        return await asyncio.gather(*(one(number) for number in range(30)))

    with service(steps, workers=3), client() as caller:
        threads = [
            threading.Thread(target=lambda: ends.append([*caller.stream(Goal(50), timeout=LONG)][-1])) for _ in range(3)
        ]
        ends = list[Step]()
        for thread in threads:
            thread.start()
        assert all(asyncio.run(main()))
        for thread in threads:
            thread.join()
        assert ends == [Step(49)] * 3
