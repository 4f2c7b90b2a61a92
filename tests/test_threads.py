"""One Publisher and one Subscriber used by many threads at once, and objects closed in any order."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

import rtmw
from rtmw import observe
from tests.bus import LONG, Reading, balanced, held
from tests.child import Spawn

THREADS, EACH = 6, 400


def together(*functions: Callable[[], object]) -> None:
    """Run all at once; the first exception of any is raised."""
    failures: list[BaseException] = []
    start = threading.Barrier(len(functions))

    def run(function: Callable[[], object]) -> None:
        try:
            start.wait(LONG)
            function()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * LONG)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def until_closed(function: Callable[[], object]) -> None:
    with suppress(rtmw.ClosedError):
        while True:
            function()


def test_many_threads_publish_through_one_publisher(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")

    def publish(thread: int) -> None:
        for number in range(EACH):
            assert publisher.publish(b"%d %d" % (thread, number))

    together(*(lambda thread=thread: publish(thread) for thread in range(THREADS)))  # type: ignore[misc]
    got: dict[int, list[int]] = {thread: [] for thread in range(THREADS)}
    for sample in subscriber.take_many(THREADS * EACH + 1):
        thread, number = map(int, sample.value.split())
        got[thread].append(number)
    assert got == {thread: list(range(EACH)) for thread in range(THREADS)}
    assert publisher.stats().published == THREADS * EACH


@pytest.mark.parametrize("how", ["take", "receive", "take_many"])
def test_many_threads_read_through_one_subscriber_each_message_once(domain: rtmw.Domain, how: str) -> None:
    publisher, subscriber, got = rtmw.Publisher("t"), rtmw.Subscriber("t"), list[int]()
    enough = threading.Event()

    def read() -> None:
        while not enough.is_set():
            samples = subscriber.take_many(3) if how == "take_many" else []
            if how == "take" and (sample := subscriber.take()):
                samples = [sample]
            if how == "receive":
                try:
                    samples = [subscriber.receive(0.01)]
                except TimeoutError:
                    continue
            got.extend(int(sample.value) for sample in samples)
            if len(got) >= 2000:
                enough.set()

    def publish() -> None:
        for number in range(2000):
            assert publisher.publish(b"%d" % number)

    together(publish, *[read] * THREADS)
    assert sorted(got) == list(range(2000))
    stats = subscriber.stats()
    assert (stats.received, stats.waiting, stats.missed) == (2000, 0, 0)


def test_publishers_subscribers_and_memory_of_all_sizes_at_once(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t", np.uint8, reliability=rtmw.Reliability.RELIABLE, max_blocking=LONG)
    subscriber = rtmw.Subscriber("t", np.uint8, reliability=rtmw.Reliability.RELIABLE, depth=16)
    got: list[int] = []
    keys = itertools.count()

    def publish(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(100):
            assert publisher.publish(np.full(chance.choice((4, 120, 400, 5000, 70_000)), next(keys) % 251, np.uint8))

    def read() -> None:
        while len(got) < 400:
            try:
                value = subscriber.receive(0.05).value
            except TimeoutError:
                continue
            assert value.min() == value.max(), "a message is of one piece"
            got.append(int(value[0]))

    together(*(lambda seed=seed: publish(seed) for seed in range(4)), read, read)  # type: ignore[misc]
    assert sorted(got) == sorted(key % 251 for key in range(400))
    assert publisher.stats().timed_out == publisher.stats().exhausted == 0
    publisher.close()
    subscriber.close()
    assert held(domain) == 0


def test_samples_are_released_in_other_threads_than_they_were_taken_in(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    handed: list[rtmw.Sample[bytes]] = []
    done = threading.Event()

    def read() -> None:
        for _ in range(500):
            handed.append(subscriber.receive(LONG))
        done.set()

    def release() -> None:
        while not done.is_set() or handed:
            if handed:
                handed.pop().release()

    def publish() -> None:
        for _ in range(500):
            assert publisher.publish(bytes(1000))

    together(publish, read, release, release)
    publisher.close()
    subscriber.close()
    assert held(domain) == 0


def test_stats_may_be_read_while_others_publish_and_take(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t", Reading), rtmw.Subscriber("t", Reading)

    def publish() -> None:
        for number in range(1000):
            publisher.publish(Reading("A1", number))

    def read() -> None:
        for number in range(1000):
            assert subscriber.receive(LONG).value.value == number

    def watch() -> None:
        seen = 0
        while seen < 1000:
            received, published = subscriber.stats().received, publisher.stats().published
            assert seen <= received <= published
            seen = received

    together(publish, read, watch)


def test_endpoints_come_and_go_in_many_threads(domain: rtmw.Domain) -> None:
    def come_and_go(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(60):
            topic = chance.choice("abc")
            with rtmw.Publisher(topic, history=chance.randrange(3)) as publisher, rtmw.Subscriber(topic) as subscriber:
                publisher.publish(bytes(chance.choice((1, 1000, 50_000))))
                assert subscriber.receive(LONG).topic == topic

    together(*(lambda seed=seed: come_and_go(seed) for seed in range(THREADS)))  # type: ignore[misc]
    assert held(domain) == 0
    assert all(not view.publishers and not view.subscribers for view in observe.topics(domain))


@pytest.mark.parametrize("type", [bytes, Reading])
def test_a_publisher_may_be_closed_while_others_publish(spawn: Spawn, type: type[object]) -> None:
    """In a child: the fault that this guards against ends a process."""
    child = spawn(
        f"""
        import sys, threading, rtmw
        from tests.bus import Reading
        sys.setswitchinterval(1e-6)
        for round in range(40):
            publisher = rtmw.Publisher("t", {type.__name__})
            def publish():
                try:
                    while True:
                        publisher.publish({"Reading('A1', 1.0)" if type is Reading else "b'x'"})
                except rtmw.ClosedError:
                    pass
            threads = [threading.Thread(target=publish) for _ in range(3)]
            for thread in threads:
                thread.start()
            publisher.close()
            for thread in threads:
                thread.join()
        print("all told")
        """
    )
    assert child.line() == "all told"
    assert child.wait() == 0


def test_a_subscriber_may_be_closed_while_others_read(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t")
    for _ in range(30):
        subscriber = rtmw.Subscriber("t")

        def read(subscriber: rtmw.Subscriber[bytes] = subscriber) -> None:
            until_closed(lambda: subscriber.receive(LONG))

        def take(subscriber: rtmw.Subscriber[bytes] = subscriber) -> None:
            until_closed(subscriber.take)

        def close(subscriber: rtmw.Subscriber[bytes] = subscriber) -> None:
            publisher.publish_many([b"x"] * 10)
            subscriber.close()

        together(read, read, take, close)


def close_all(domain_id: int, order: tuple[str, ...]) -> None:
    domain = rtmw.Domain(domain_id, pool="64K")
    publisher, subscriber = rtmw.Publisher("t", domain=domain), rtmw.Subscriber("t", domain=domain)
    publisher.publish(b"x")
    end = {
        "domain": domain.close,
        "publisher": publisher.close,
        "subscriber": subscriber.close,
        "sample": subscriber.receive(LONG).release,
        "loan": publisher.loan(1000).drop,
        "listener": subscriber.listen(lambda _: None).close if "listener" in order else None,
    }
    for name in order:
        close = end[name]
        assert close is not None
        close()


def test_closing_in_any_order_works(domain: rtmw.Domain) -> None:
    for order in itertools.permutations(("domain", "publisher", "subscriber", "sample", "loan")):
        close_all(domain.id, order)
    assert held(domain) == 0
    assert balanced(domain).descriptors_loaned == 0


@pytest.mark.parametrize("order", [("listener", "subscriber"), ("subscriber", "listener"), ("domain", "listener")])
def test_a_listener_may_be_closed_before_and_after_its_subscriber(domain: rtmw.Domain, order: tuple[str, ...]) -> None:
    close_all(domain.id, order)


@pytest.mark.parametrize(
    "left_open",
    [
        "subscriber.take()",
        "sample = subscriber.take(); view = sample.data",
        "loan = publisher.loan(5000); view = loan.data",
        "listener = subscriber.listen(print)",
        "threading.Thread(target=subscriber.receive, daemon=True).start()",
        "threading.Thread(target=list, args=(subscriber,), daemon=True).start()",
        "threading.Thread(target=rtmw.WaitSet(subscriber).wait, daemon=True).start()",
        "threading.Thread(target=waiting_publish, daemon=True).start()",
        "asyncio.new_event_loop().run_until_complete(awaits())",
        "domain.close()",
        "rtmw.Domain.unlink(domain.id)",
        "builtins.kept = [publisher, subscriber, subscriber.take()]",
    ],
)
def test_exiting_the_interpreter_with_open_objects_never_hangs(spawn: Spawn, left_open: str) -> None:
    child = spawn(
        f"""
        import asyncio, builtins, os, threading, time, rtmw
        domain = rtmw.Domain(int(os.environ["RTMW_DOMAIN"]))
        publisher = rtmw.Publisher("t", domain=domain)
        subscriber = rtmw.Subscriber("t", domain=domain)
        blocked = rtmw.Subscriber("r", reliability=rtmw.Reliability.RELIABLE, depth=1)
        def waiting_publish():
            full = rtmw.Publisher("r", reliability=rtmw.Reliability.RELIABLE, max_blocking=None)
            full.publish_many([b"1", b"2"])
        async def awaits():
            try:
                await asyncio.wait_for(anext(rtmw.Subscriber("a")), 0.02)
            except TimeoutError:
                pass
        publisher.publish(b"x")
        {left_open}
        time.sleep(0.05)
        print("end")
        """
    )
    lines = [child.line()]
    while lines[-1] != "end":
        lines.append(child.line())
    assert child.wait() == 0
    assert "Traceback" not in child.stderr
