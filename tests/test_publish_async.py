"""`publish_async` (requirement P15): the event loop goes on while a RELIABLE queue is full."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import uvloop
from numpy.typing import NDArray

import rtmw
from rtmw import Reliability
from tests.bus import LONG, numbered, taken
from tests.child import Spawn

Run = Callable[[Coroutine[Any, Any, Any]], Any]
RELIABLE = Reliability.RELIABLE

pytestmark = pytest.mark.usefixtures("domain")


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a coroutine to its end, within LONG seconds."""
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield lambda coroutine: runner.run(asyncio.wait_for(coroutine, LONG))


def full(depth: int = 2, **options: Any) -> tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]]:
    """A RELIABLE pair whose queue has room for nothing more."""
    subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=depth)
    publisher = rtmw.Publisher("t", reliability=RELIABLE, **{"max_blocking": None, **options})
    assert publisher.publish_many(numbered(depth)) == depth
    return publisher, subscriber


async def until_it_waits(publisher: rtmw.Publisher[bytes]) -> None:
    while not any(turn.locked() for turns in (publisher._turns or {}).values() for turn in turns.values()):
        await asyncio.sleep(0)


def test_where_there_is_room_no_thread_is_created_and_nobody_else_runs(run: Run) -> None:
    async def main() -> list[bytes]:
        before, ran = threading.enumerate(), False

        async def other() -> None:
            nonlocal ran
            ran = True

        publisher, subscriber = rtmw.Publisher("t", reliability=RELIABLE), rtmw.Subscriber("t", reliability=RELIABLE)
        task = asyncio.create_task(other())
        assert all([await publisher.publish_async(value) for value in numbered(10)])
        assert not ran
        await task
        assert threading.enumerate() == before
        return taken(subscriber)

    assert run(main()) == numbered(10)


# Proves G20.
def test_the_loop_goes_on_while_a_queue_is_full_and_the_order_is_that_of_the_calls(run: Run) -> None:
    async def main() -> None:
        publisher, subscriber = full()
        tasks = [asyncio.create_task(publisher.publish_async(b"late %d" % number)) for number in range(20)]
        await until_it_waits(publisher)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        values = [(await anext(subscriber)).value for _ in range(22)]
        assert values == [*numbered(2), *(b"late %d" % number for number in range(20))]
        assert [await task for task in tasks] == [True] * 20
        assert publisher.stats().timed_out == publisher.stats().exhausted == 0

    run(main())


def test_a_message_without_room_within_max_blocking_is_refused_and_counted_once(run: Run) -> None:
    async def main() -> None:
        publisher, subscriber = full(max_blocking=0.05)
        began = time.monotonic()
        assert not await publisher.publish_async(b"refused")
        assert time.monotonic() - began >= 0.05
        assert publisher.stats().timed_out == 1
        assert taken(subscriber) == numbered(2)
        assert await publisher.publish_async(b"accepted")
        assert taken(subscriber) == [b"accepted"]

    run(main())


# Proves G20.
def test_where_other_work_has_all_threads_of_the_loop_it_publishes_and_is_refused_all_the_same(run: Run) -> None:
    """Each of these threads waits for something that the loop does afterwards."""

    async def main() -> None:
        loop, done = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(2))
        busy = [loop.run_in_executor(None, done.wait, LONG) for _ in range(2)]
        publisher, subscriber = full(max_blocking=0.05)
        assert not await publisher.publish_async(b"refused")
        assert publisher.stats().timed_out == 1
        waiting = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=None)
        task = asyncio.create_task(waiting.publish_async(b"late"))
        await until_it_waits(waiting)
        assert taken(subscriber) == numbered(2)
        assert await task
        assert not any(one.done() for one in busy)
        done.set()
        assert all(await asyncio.gather(*busy))

    run(main())


def test_with_max_blocking_0_it_only_tries(run: Run) -> None:
    async def main() -> None:
        publisher, _ = full(max_blocking=0)
        before = threading.enumerate()
        assert not await publisher.publish_async(b"refused")
        assert threading.enumerate() == before
        assert publisher.stats().timed_out == 1

    run(main())


def test_a_value_is_not_encoded_again_while_the_queue_is_full(run: Run) -> None:
    """Encoding takes the time of the loop."""
    tries = 0

    async def main() -> None:
        subscriber = rtmw.Subscriber("t", reliability=RELIABLE, depth=2)
        publisher = Counting("t", reliability=RELIABLE, max_blocking=None)
        assert publisher.publish_many(numbered(2)) == 2
        task = asyncio.create_task(publisher.publish_async(b"late"))
        await until_it_waits(publisher)
        for _ in range(20):
            await asyncio.get_running_loop().run_in_executor(None, publisher._sleep, None)
        assert tries <= 2
        assert (await anext(subscriber)).value == numbered(1)[0]
        assert await task

    class Counting(rtmw.Publisher[bytes]):
        def _try(self, *given: Any, **options: Any) -> bool | None:
            nonlocal tries
            tries += 1
            return super()._try(*given, **options)

    run(main())


def test_an_urgent_message_does_not_wait_behind_one_of_a_lower_priority(run: Run) -> None:
    async def main() -> None:
        publisher, subscriber = full()
        task = asyncio.create_task(publisher.publish_async(b"late"))
        await until_it_waits(publisher)
        assert await publisher.publish_async(b"alarm", priority=7)
        assert not task.done()
        assert (await anext(subscriber)).value == b"alarm"
        assert (await anext(subscriber)).value == numbered(1)[0]
        assert await task

    run(main())


def test_the_priority_of_the_publisher_is_one_priority_named_or_not(run: Run) -> None:
    async def main() -> None:
        publisher, subscriber = full(priority=3)
        options: list[dict[str, int]] = [{}, {"priority": 3}] * 5
        tasks = [
            asyncio.create_task(publisher.publish_async(b"late %d" % number, **given))
            for number, given in enumerate(options)
        ]
        values = [(await anext(subscriber)).value for _ in range(12)]
        assert values[2:] == [b"late %d" % number for number in range(10)]
        assert all([await task for task in tasks])

    run(main())


def test_cancelled_while_it_waits_it_has_published_nothing_and_the_next_one_goes_on(run: Run) -> None:
    async def main() -> None:
        publisher, subscriber = full()
        tasks = [asyncio.create_task(publisher.publish_async(value)) for value in (b"cancelled", b"kept")]
        await until_it_waits(publisher)
        tasks[0].cancel()
        await asyncio.wait(tasks[:1])
        assert tasks[0].cancelled()
        assert [(await anext(subscriber)).value for _ in range(3)] == [*numbered(2), b"kept"]
        assert await tasks[1]
        assert subscriber.take() is None

    run(main())


# Proves G20.
def test_cancelled_at_any_moment_it_is_published_once_or_not(run: Run) -> None:
    chance = random.Random(6)

    async def main() -> None:
        publisher, subscriber = full()
        came: list[bytes] = []
        said: list[bytes] = []
        for number in range(300):
            value = b"turn %d" % number
            task = asyncio.create_task(publisher.publish_async(value))
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            if chance.random() < 0.5:
                came += taken(subscriber)
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(chance.choice([0, 0.0005]))
            task.cancel()
            said += [value for done in await asyncio.gather(task, return_exceptions=True) if done is True]
        came += taken(subscriber)
        assert len(set(came)) == len(came)
        assert set(said) <= set(came)
        assert 0 < len(said) < 300

    run(main())


def test_a_subscriber_that_dies_is_in_the_way_no_longer(run: Run, spawn: Spawn) -> None:
    async def main() -> None:
        child = spawn(
            """
            import rtmw, time
            subscriber = rtmw.Subscriber("t", reliability=rtmw.Reliability.RELIABLE, depth=1)
            print("ready", flush=True)
            time.sleep(1000)
            """
        )
        assert child.line() == "ready"
        publisher = rtmw.Publisher("t", reliability=RELIABLE, max_blocking=None)
        assert await publisher.publish_async(b"unread")
        task = asyncio.create_task(publisher.publish_async(b"late"))
        await until_it_waits(publisher)
        child.kill()
        assert await task

    run(main())


def test_a_large_message_waits_for_memory(run: Run) -> None:
    async def main() -> None:
        subscriber = rtmw.Subscriber("t", np.uint8, reliability=RELIABLE)
        publisher = rtmw.Publisher("t", np.uint8, reliability=RELIABLE, max_blocking=None)
        large: list[NDArray[np.uint8]] = [np.full(3 << 20, number, np.uint8) for number in range(3)]
        tasks = [asyncio.create_task(publisher.publish_async(value)) for value in large]
        sums = []
        async for sample in subscriber:
            sums.append(int(sample.value[0]))
            sample.release()
            if len(sums) == 3:
                break
        assert sums == [0, 1, 2]
        assert [await task for task in tasks] == [True] * 3
        assert publisher.stats().exhausted == 0

    run(main())


def test_what_publish_refuses_it_refuses_with_the_same_words(run: Run) -> None:
    async def main() -> None:
        publisher, _ = full()
        for refused, options, kind in (("text", {}, TypeError), (b"x", {"priority": 8}, ValueError)):
            with pytest.raises(kind) as plain:
                publisher.publish(refused, **options)  # type: ignore[arg-type]
            with pytest.raises(kind) as waiting:
                await publisher.publish_async(refused, **options)  # type: ignore[arg-type]
            assert str(waiting.value) == str(plain.value)

    run(main())


def test_who_waits_hears_that_the_publisher_is_closed(run: Run) -> None:
    async def main() -> None:
        publisher, _ = full()
        tasks = [asyncio.create_task(publisher.publish_async(b"late")) for _ in range(2)]
        await until_it_waits(publisher)
        publisher.close()
        for task in tasks:
            with pytest.raises(rtmw.ClosedError):
                await task

    run(main())


def test_loops_of_several_threads_wait_for_one_publisher() -> None:
    publisher, subscriber = full()
    published: list[bool] = []

    async def main(start: int) -> None:
        values = [b"%d" % number for number in range(start, start + 100)]
        published.extend(await asyncio.gather(*map(publisher.publish_async, values)))

    threads = [threading.Thread(target=asyncio.run, args=(main(start),)) for start in (1000, 2000)]
    for thread in threads:
        thread.start()
    came = [subscriber.receive(timeout=LONG).value for _ in range(202)]
    for thread in threads:
        thread.join(LONG)
    assert published == [True] * 200
    for start in (1000, 2000):
        mine = [int(value) for value in came[2:] if start <= int(value) < start + 100]
        assert mine == list(range(start, start + 100))
