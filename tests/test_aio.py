"""asyncio (requirement P15): one descriptor a process, no thread, cancel-safe, on the plain loop and on uvloop."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest
import uvloop

import rtmw
from rtmw import waiting
from tests.bus import LONG, Reading
from tests.child import Spawn

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(autouse=True)
def wakeups_only(monkeypatch: pytest.MonkeyPatch, domain: rtmw.Domain) -> None:
    """A waiter that is not woken stays asleep: these tests are about being woken, and not about looking by oneself."""
    monkeypatch.setattr(waiting, "LOOK_UP", 1000.0)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a coroutine to its end, within LONG seconds."""
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield lambda coroutine: runner.run(asyncio.wait_for(coroutine, LONG))


async def gather(subscriber: rtmw.Subscriber[bytes], count: int) -> list[bytes]:
    return [(await anext(subscriber)).value for _ in range(count)]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_what_is_there_is_given_at_once(run: Run) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish_many(numbered(10))
    assert run(gather(subscriber, 10)) == numbered(10)


def test_async_iteration_waits_for_messages_of_this_process(run: Run) -> None:
    async def main() -> list[bytes]:
        publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
        task = asyncio.create_task(gather(subscriber, 20))
        for value in numbered(20):
            await asyncio.sleep(0.001)
            publisher.publish(value)
        return await task

    assert run(main()) == numbered(20)


def test_async_iteration_waits_for_messages_of_another_process(run: Run, spawn: Spawn) -> None:
    async def main() -> list[bytes]:
        subscriber = rtmw.Subscriber("t")
        child = spawn(
            """
            import rtmw, time
            publisher = rtmw.Publisher("t")
            for number in range(50):
                publisher.publish(b"%d" % number)
                time.sleep(0.001)
            """
        )
        values = await gather(subscriber, 50)
        assert child.wait() == 0
        return values

    assert run(main()) == numbered(50)


def test_async_for_is_typed_as_any_other_reading(run: Run) -> None:
    async def main() -> Reading:
        publisher, subscriber = rtmw.Publisher("t", Reading), rtmw.Subscriber("t", Reading)
        publisher.publish(Reading("A1", 7.5))
        async for sample in subscriber:
            return sample.value
        raise AssertionError("the iteration ended")

    assert run(main()) == Reading("A1", 7.5)


def test_no_thread_is_created(run: Run) -> None:
    async def main() -> None:
        before = threading.enumerate()
        publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
        task = asyncio.create_task(gather(subscriber, 2))
        await asyncio.sleep(0.01)
        assert threading.enumerate() == before
        publisher.publish_many(numbered(2))
        await task
        assert threading.enumerate() == before

    run(main())


def test_the_loop_goes_on_while_a_subscriber_waits(run: Run) -> None:
    async def main() -> None:
        task = asyncio.create_task(gather(rtmw.Subscriber("t"), 1))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    run(main())


def test_many_subscribers_in_one_loop_share_one_descriptor(run: Run) -> None:
    async def main() -> None:
        publishers = [rtmw.Publisher(f"t{number}") for number in range(50)]
        subscribers = [rtmw.Subscriber(f"t{number}") for number in range(50)]
        first = asyncio.create_task(gather(subscribers[0], 1))
        await asyncio.sleep(0.01)
        publishers[0].publish(b"x")
        await first
        gc.collect()  # loops of other tests close their descriptors when they go
        before = len(os.listdir("/proc/self/fd"))
        tasks = [asyncio.create_task(gather(subscriber, 1)) for subscriber in subscribers]
        await asyncio.sleep(0.01)
        assert len(os.listdir("/proc/self/fd")) <= before
        for publisher in publishers:
            publisher.publish(b"x")
        assert await asyncio.gather(*tasks) == [[b"x"]] * 50
        assert len(os.listdir("/proc/self/fd")) <= before

    run(main())


def test_several_tasks_on_one_subscriber_get_each_message_once(run: Run) -> None:
    async def main() -> None:
        publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
        tasks = [asyncio.create_task(gather(subscriber, 5)) for _ in range(4)]
        for value in numbered(20):
            await asyncio.sleep(0)
            publisher.publish(value)
        got = await asyncio.gather(*tasks)
        assert sorted(int(value) for values in got for value in values) == list(range(20))

    run(main())


def test_cancelling_a_wait_loses_nothing(run: Run) -> None:
    async def main() -> None:
        publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", depth=1000)
        got: list[bytes] = []

        async def one() -> None:
            got.append((await anext(subscriber)).value)

        for number in range(300):
            task = asyncio.create_task(one())
            for _ in range(number % 4):  # cancelled at the start, while it sleeps, and when it has been woken
                await asyncio.sleep(0)
            publisher.publish(b"%d" % number)
            for _ in range(number % 3):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        while len(got) < 300:
            await one()
        assert got == numbered(300)
        assert subscriber.take() is None

    run(main())


def test_a_timeout_of_asyncio_loses_nothing(run: Run, spawn: Spawn) -> None:
    async def main() -> None:
        subscriber = rtmw.Subscriber("t")
        spawn(
            """
            import rtmw, time
            publisher = rtmw.Publisher("t")
            for number in range(100):
                publisher.publish(b"%d" % number)
                time.sleep(0.0005)
            input()
            """
        )
        got: list[bytes] = []
        while len(got) < 100:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.0007):
                    while True:
                        got.append((await anext(subscriber)).value)
        assert got == numbered(100)

    run(main())


@pytest.mark.parametrize("from_thread", [False, True])
def test_closing_the_subscriber_ends_the_iteration(run: Run, from_thread: bool) -> None:
    async def main() -> list[bytes]:
        publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")

        async def iterate() -> list[bytes]:
            return [sample.value async for sample in subscriber]

        task = asyncio.create_task(iterate())
        await asyncio.sleep(0.01)
        publisher.publish_many(numbered(2))
        await asyncio.sleep(0.01)
        assert not task.done()
        if from_thread:
            await asyncio.to_thread(subscriber.close)
        else:
            subscriber.close()
        return await task

    assert run(main()) == numbered(2)


def test_a_closed_subscriber_iterates_over_nothing(run: Run) -> None:
    async def main() -> list[object]:
        subscriber = rtmw.Subscriber("t")
        subscriber.close()
        return [sample async for sample in subscriber]

    assert run(main()) == []


def test_a_missed_deadline_is_raised_once_and_the_iteration_may_go_on(run: Run) -> None:
    async def main() -> None:
        publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", deadline=0.03)
        for count in (1, 2):
            with pytest.raises(rtmw.DeadlineMissed):
                await anext(subscriber)
            assert subscriber.stats().deadlines_missed == count
        publisher.publish(b"x")
        assert await gather(subscriber, 1) == [b"x"]

    run(main())


def test_a_lease_that_ran_out_is_raised(run: Run) -> None:
    async def main() -> None:
        publisher = rtmw.Publisher("t", reliability=rtmw.Reliability.RELIABLE, max_blocking=LONG)
        subscriber = rtmw.Subscriber("t", reliability=rtmw.Reliability.RELIABLE, depth=1, lease=0.03)
        publisher.publish_many(numbered(2))
        with pytest.raises(rtmw.LeaseExpired):
            await anext(subscriber)
        assert await gather(subscriber, 2) == numbered(2)

    run(main())


def test_messages_that_it_does_not_get_do_not_end_a_wait(run: Run) -> None:
    async def main() -> None:
        publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
        task = asyncio.create_task(gather(subscriber, 1))
        for _ in range(5):
            await asyncio.sleep(0.001)
            publisher.publish(b"expired", lifetime=0)
        assert not task.done()
        publisher.publish(b"valid")
        assert await task == [b"valid"]
        assert subscriber.stats().expired == 5

    run(main())


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_two_loops_in_two_threads_are_both_woken(factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    got: dict[str, list[bytes]] = {}
    subscribers = {topic: rtmw.Subscriber(topic) for topic in ("a", "b")}

    def loop(topic: str) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            got[topic] = runner.run(asyncio.wait_for(gather(subscribers[topic], 200), LONG))

    threads = [threading.Thread(target=loop, args=(topic,)) for topic in subscribers]
    for thread in threads:
        thread.start()
    publishers = [rtmw.Publisher(topic) for topic in subscribers]
    for value in numbered(200):
        for publisher in publishers:
            publisher.publish(value)
        threading.Event().wait(0.0003)
    for thread in threads:
        thread.join(LONG)
    assert got == {"a": numbered(200), "b": numbered(200)}


def test_one_loop_after_another_works(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")

    async def main() -> list[bytes]:
        task = asyncio.create_task(gather(subscriber, 1))
        await asyncio.sleep(0.005)
        publisher.publish(b"x")
        return await asyncio.wait_for(task, LONG)

    for factory in (asyncio.new_event_loop, uvloop.new_event_loop) * 3:
        with asyncio.Runner(loop_factory=factory) as runner:
            assert runner.run(main()) == [b"x"]


def test_a_loop_that_stopped_reading_does_not_keep_another_asleep(domain: rtmw.Domain) -> None:
    idle, subscriber, publisher = asyncio.new_event_loop(), rtmw.Subscriber("t"), rtmw.Publisher("t")

    async def waits_a_little() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(anext(rtmw.Subscriber("other")), 0.01)

    async def main() -> list[bytes]:
        task = asyncio.create_task(gather(subscriber, 1))
        await asyncio.sleep(0.005)
        publisher.publish(b"x")
        return await asyncio.wait_for(task, LONG)

    idle.run_until_complete(waits_a_little())  # its reader stays, and nobody runs the loop any more
    try:
        with asyncio.Runner() as runner:
            assert runner.run(main()) == [b"x"]
    finally:
        idle.close()


def test_a_domain_used_in_a_loop_is_detached_when_nobody_needs_it(domain_id: int, run: Run) -> None:
    async def main() -> weakref.ref[object]:
        with rtmw.Domain(domain_id) as domain, rtmw.Subscriber("t", domain=domain) as subscriber:
            publisher = rtmw.Publisher("t", domain=domain)
            task = asyncio.create_task(gather(subscriber, 1))
            await asyncio.sleep(0.005)
            publisher.publish(b"x")
            await task
            return weakref.ref(domain.region)

    rtmw.Domain.unlink(domain_id)  # the region of the fixture stays; this test has its own
    for _ in range(3):  # a descriptor number that is used again must not confuse the loop
        region = run(main())
        gc.collect()
        run(asyncio.sleep(0))
        assert region() is None


def test_a_loop_that_was_used_can_be_forgotten(domain: rtmw.Domain) -> None:
    async def main() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(anext(rtmw.Subscriber("t")), 0.01)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    gone = weakref.ref(loop)
    del loop
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_task_that_waits_in_a_loop_that_was_closed_keeps_neither_it_nor_the_attachment(
    domain_id: int, factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def leave() -> tuple[weakref.ref[object], weakref.ref[object]]:
        domain = rtmw.Domain(domain_id)
        subscriber = rtmw.Subscriber("pump", domain=domain)
        task: asyncio.Future[rtmw.Sample[bytes]] = asyncio.ensure_future(anext(subscriber))
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        while subscriber._reader() is None:
            await asyncio.sleep(0.005)
        return weakref.ref(domain.region), weakref.ref(asyncio.get_running_loop())

    rtmw.Domain.unlink(domain_id)  # the region of the fixture stays; this test has its own
    loop = factory()
    region, closed = loop.run_until_complete(leave())
    loop.close()
    del loop
    gc.collect()
    assert (region(), closed()) == (None, None)


def test_fileno_and_async_iteration_can_be_used_on_one_subscriber(run: Run) -> None:
    async def main() -> None:
        publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
        assert subscriber.fileno() >= 0
        task = asyncio.create_task(gather(subscriber, 1))
        await asyncio.sleep(0.005)
        publisher.publish(b"x")
        assert await task == [b"x"]

    run(main())


def test_blocking_and_async_readers_of_one_topic_are_both_woken(run: Run) -> None:
    async def main() -> None:
        blocking, waiting, publisher = rtmw.Subscriber("t", spin=0), rtmw.Subscriber("t"), rtmw.Publisher("t")
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.append(blocking.receive(LONG).value))
        thread.start()
        task = asyncio.create_task(gather(waiting, 1))
        await asyncio.sleep(0.01)
        publisher.publish(b"x")
        assert await task == [b"x"]
        thread.join(LONG)
        assert got == [b"x"]

    run(main())
