"""Threads and tasks that wait for conditions: who is woken, and who is not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from rtmw.waiting import Asleep, Signal, Waiting
from tests.child import Spawn

PATIENCE = 20.0


class Counted:
    """A condition that counts how often it was asked."""

    def __init__(self) -> None:
        self.is_met, self.asked = False, 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.is_met


def waiting(signal: Signal, count: int) -> Callable[[], bool]:
    return lambda: len(signal._waiting) == count


def test_a_thread_goes_on_when_its_condition_is_met_and_not_before() -> None:
    signal, mine, other = Signal(), Counted(), Counted()
    done: list[str] = []

    def wait(name: str, met: Counted) -> None:
        assert signal.wait(met, PATIENCE)
        done.append(name)

    threads = [threading.Thread(target=wait, args=one) for one in (("mine", mine), ("other", other))]
    for thread in threads:
        thread.start()
    while not waiting(signal, 2)():
        pass
    mine.is_met = True
    signal.notify()
    threads[0].join(PATIENCE)
    assert done == ["mine"]
    asked = other.asked
    other.is_met = True
    signal.notify()
    threads[1].join(PATIENCE)
    assert done == ["mine", "other"]
    assert other.asked == asked + 2, "by who notifies, and by who was woken"


def test_a_wait_ends_with_its_time_and_leaves_nothing_behind() -> None:
    signal = Signal()
    assert not signal.wait(lambda: False, 0.01)
    assert not signal._waiting
    assert not asyncio.run(signal.reached(lambda: False, 0.01))
    assert not signal._waiting


def test_a_condition_that_is_met_is_not_waited_for() -> None:
    signal = Signal()
    assert signal.wait(lambda: True, 0)
    assert asyncio.run(signal.reached(lambda: True, None))


def test_all_are_woken_whose_condition_is_not_met_too() -> None:
    async def work() -> list[bool]:
        signal = Signal()
        tasks = [asyncio.create_task(signal.reached(lambda: False, None)) for _ in range(3)]
        while not waiting(signal, 3)():
            await asyncio.sleep(0)
        await asyncio.to_thread(signal.notify)
        assert not any(task.done() for task in tasks)
        await asyncio.to_thread(signal.notify, all=True)
        return list(await asyncio.gather(*tasks))

    assert asyncio.run(work()) == [False, False, False]


def test_many_tasks_of_a_loop_are_woken_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> int:
        signal, met, calls = Signal(), Counted(), 0
        tasks = [asyncio.create_task(signal.reached(met, None)) for _ in range(50)]
        while not waiting(signal, 50)():
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        plain = loop.call_soon_threadsafe

        def counted(*told: object) -> object:
            nonlocal calls
            calls += 1
            return plain(*told)  # type: ignore[arg-type]

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        met.is_met = True
        signal.notify()
        assert all(await asyncio.gather(*tasks))
        return calls

    assert asyncio.run(work()) == 1


def test_a_wait_that_is_cancelled_leaves_nothing_behind() -> None:
    async def work() -> None:
        signal = Signal()
        task = asyncio.create_task(signal.reached(lambda: False, None))
        while not waiting(signal, 1)():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not signal._waiting

    asyncio.run(work())


def test_tasks_of_several_loops_and_threads_are_woken_in_spite_of_a_task_that_was_cancelled() -> None:
    waiting, asleep, ready = Waiting(), Asleep(), threading.Barrier(3)
    waiting.threads.append(asleep)

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in range(3)]
        futures[0].cancel()
        waiting.tasks[loop] += futures
        await asyncio.to_thread(ready.wait, PATIENCE)
        await asyncio.wait_for(asyncio.gather(*futures[1:]), PATIENCE)

    with ThreadPoolExecutor(3) as threads:
        tasks = [threads.submit(asyncio.run, wait()) for _ in range(2)]
        thread = threads.submit(asleep.wait)
        ready.wait(PATIENCE)
        waiting.wake()
        for one in (*tasks, thread):
            one.result(PATIENCE)


INTERRUPTED = """
    import signal
    from rtmw.waiting import Signal

    changed, asked, is_met = Signal(), 0, False

    def meets(*_):
        global is_met
        is_met = True
        changed.notify()

    def met():
        global asked
        asked, found = asked + 1, is_met
        if asked == {at}:
            signal.raise_signal(signal.SIGUSR1)  # behind the look, and before the sleep
        return found

    signal.signal(signal.SIGUSR1, meets)
    print(changed.wait(met, None), flush=True)
"""


@pytest.mark.parametrize("at", [1, 2])
def test_a_handler_of_a_signal_may_notify_and_the_wait_that_it_interrupts_ends(at: int, spawn: Spawn) -> None:
    assert spawn(INTERRUPTED.format(at=at)).line(PATIENCE) == "True"


ASLEEP = """
    import asyncio
    import signal
    import time
    from rtmw.waiting import finish_in, woken

    async def waits():
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        signal.signal(signal.SIGALRM, lambda *_: finish_in(loop, [future]))
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        begun = time.monotonic()
        await woken(future, {patience})
        return time.monotonic() - begun < {patience} / 2

    print(asyncio.run(waits()), flush=True)
"""


def test_a_handler_of_a_signal_wakes_a_task_though_their_loop_is_asleep(spawn: Spawn) -> None:
    assert spawn(ASLEEP.format(patience=PATIENCE)).line(2 * PATIENCE) == "True"
