"""Listener (requirement P7): a callback for each message, from a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

import rtmw
from tests.bus import LONG, eventually, held

pytestmark = pytest.mark.usefixtures("domain")


def test_the_callback_gets_each_message_in_order() -> None:
    publisher, subscriber, got = rtmw.Publisher("t"), rtmw.Subscriber("t"), list[bytes]()
    with subscriber.listen(lambda sample: got.append(sample.value)) as listener:
        publisher.publish_many([b"%d" % number for number in range(100)])
        eventually(lambda: len(got) == 100)
    assert got == [b"%d" % number for number in range(100)]
    assert isinstance(listener, rtmw.Listener)
    assert listener.errors == 0


def test_callbacks_run_in_one_thread_of_the_listener() -> None:
    publisher, subscriber, threads = rtmw.Publisher("t"), rtmw.Subscriber("t"), list[str]()
    with subscriber.listen(lambda _: threads.append(threading.current_thread().name)):
        publisher.publish_many([b"a", b"b"])
        eventually(lambda: len(threads) == 2)
    assert threads == ["rtmw t"] * 2


def test_an_exception_of_the_callback_is_reported_and_counted_and_it_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    publisher, subscriber, got = rtmw.Publisher("t"), rtmw.Subscriber("t"), list[bytes]()

    def callback(sample: rtmw.Sample[bytes]) -> None:
        if sample.value == b"bad":
            raise RuntimeError("my callback is broken")
        got.append(sample.value)

    with caplog.at_level(logging.ERROR, "rtmw"), subscriber.listen(callback) as listener:
        publisher.publish_many([b"bad", b"good", b"bad", b"good"])
        eventually(lambda: len(got) == 2)
    assert listener.errors == 2
    records = [record for record in caplog.records if record.name == "rtmw"]
    assert len(records) == 2
    assert all(record.exc_info and "'t'" in record.getMessage() for record in records)


def test_sys_exit_in_the_callback_is_reported_and_counted_and_it_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    publisher, subscriber, got = rtmw.Publisher("t"), rtmw.Subscriber("t"), list[bytes]()

    def callback(sample: rtmw.Sample[bytes]) -> None:
        if sample.value == b"end":
            sys.exit("the callback wants to end the program")
        got.append(sample.value)

    with caplog.at_level(logging.ERROR, "rtmw"), subscriber.listen(callback) as listener:
        publisher.publish_many([b"end", b"good"])
        eventually(lambda: got == [b"good"])
    assert listener.errors == 1
    assert "the listener of topic 't' raised SystemExit; it goes on" in caplog.text


def test_a_missed_deadline_calls_on_deadline() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", deadline=0.02)
    missed, got = list[int](), list[bytes]()
    with subscriber.listen(lambda sample: got.append(sample.value), lambda: missed.append(1)):
        eventually(lambda: len(missed) >= 2)
        publisher.publish(b"x")
        eventually(lambda: got == [b"x"])
    assert subscriber.stats().deadlines_missed == len(missed)


def test_an_exception_of_on_deadline_is_counted_too_and_told_as_itself(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise RuntimeError("on_deadline is broken")

    subscriber = rtmw.Subscriber("t", deadline=0.02)
    with caplog.at_level(logging.ERROR, "rtmw"), subscriber.listen(lambda _: None, broken) as listener:
        eventually(lambda: listener.errors >= 2)
    assert "on_deadline is broken" in caplog.text
    assert "DeadlineMissed" not in caplog.text


def test_without_on_deadline_a_missed_deadline_is_only_counted() -> None:
    publisher, subscriber, got = rtmw.Publisher("t"), rtmw.Subscriber("t", deadline=0.02), list[bytes]()
    with subscriber.listen(lambda sample: got.append(sample.value)) as listener:
        eventually(lambda: subscriber.stats().deadlines_missed >= 2)
        publisher.publish(b"x")
        eventually(lambda: got == [b"x"])
    assert listener.errors == 0


def test_a_lease_that_ran_out_is_logged_and_it_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    publisher = rtmw.Publisher("t", reliability=rtmw.Reliability.RELIABLE, max_blocking=LONG)
    subscriber = rtmw.Subscriber("t", reliability=rtmw.Reliability.RELIABLE, depth=1, lease=0.05)
    got, busy, go_on = list[bytes](), threading.Event(), threading.Event()

    def callback(sample: rtmw.Sample[bytes]) -> None:
        got.append(sample.value)
        busy.set()
        go_on.wait(LONG)

    with caplog.at_level(logging.WARNING, "rtmw"), subscriber.listen(callback):
        publisher.publish(b"1")
        assert busy.wait(LONG)
        assert publisher.publish_many([b"2", b"3", b"4"]) == 3
        go_on.set()
        eventually(lambda: got[-1] == b"4")
    assert "lease" in caplog.text
    assert subscriber.stats().lapses == 1


def test_closing_the_listener_stops_it_and_leaves_the_subscriber_open() -> None:
    publisher, subscriber, got = rtmw.Publisher("t"), rtmw.Subscriber("t"), list[bytes]()
    listener = subscriber.listen(lambda sample: got.append(sample.value))
    listener.close()
    listener.close()
    publisher.publish(b"x")
    assert subscriber.receive(LONG).value == b"x"
    assert got == []
    assert "rtmw t" not in [thread.name for thread in threading.enumerate()]


def test_closing_waits_for_a_callback_that_runs() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    inside, leave, done = threading.Event(), threading.Event(), list[int]()

    def callback(_: object) -> None:
        inside.set()
        leave.wait(LONG)
        done.append(1)

    listener = subscriber.listen(callback)
    publisher.publish(b"x")
    assert inside.wait(LONG)
    threading.Timer(0.05, leave.set).start()
    listener.close()
    assert done == [1]


def test_a_callback_may_close_its_listener_and_its_subscriber() -> None:
    publisher, subscriber, got = rtmw.Publisher("t"), rtmw.Subscriber("t"), list[bytes]()

    def callback(sample: rtmw.Sample[bytes]) -> None:
        got.append(sample.value)
        listener.close()
        subscriber.close()

    listener = subscriber.listen(callback)
    publisher.publish_many([b"a", b"b"])
    eventually(lambda: subscriber.closed and "rtmw t" not in [thread.name for thread in threading.enumerate()])
    assert got == [b"a"]
    assert listener.errors == 0


def test_closing_the_subscriber_ends_the_listener() -> None:
    subscriber = rtmw.Subscriber("t")
    subscriber.listen(lambda _: None)
    subscriber.close()
    eventually(lambda: "rtmw t" not in [thread.name for thread in threading.enumerate()])


def test_a_listener_keeps_no_sample_when_its_callback_has_returned(domain: rtmw.Domain) -> None:
    publisher, subscriber, count = rtmw.Publisher("t"), rtmw.Subscriber("t"), list[int]()
    with subscriber.listen(lambda _: count.append(1)):
        publisher.publish(bytes(100_000))
        eventually(lambda: count == [1])
        publisher.publish(b"next")
        eventually(lambda: count == [1, 1])
        eventually(lambda: held(domain) == 0)


async def coroutine(_: object, *more: object) -> None:
    await asyncio.sleep(0)


async def generator(_: object) -> AsyncIterator[int]:
    yield 1


class Handler:
    async def __call__(self, _: object) -> None: ...

    async def method(self, _: object) -> None: ...


ASYNC: list[Callable[..., Any]] = [
    coroutine,
    partial(coroutine, 1),
    partial(partial(coroutine, 1), 2),
    Handler(),
    partial(Handler()),
    Handler().method,
    generator,
]


@pytest.mark.parametrize("callback", ASYNC)
# Proves G42.
def test_a_coroutine_function_is_refused_as_callback_and_the_error_says_what_to_use(
    callback: Callable[..., Any],
) -> None:
    subscriber = rtmw.Subscriber("t")
    with pytest.raises(TypeError, match=r"would await.*`async for sample in subscriber`"):
        subscriber.listen(callback)
    with pytest.raises(TypeError, match="would await"):
        subscriber.listen(lambda _: None, callback)
    assert "rtmw t" not in [thread.name for thread in threading.enumerate()]


def test_a_callback_that_gives_a_coroutine_nevertheless_is_reported_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    with caplog.at_level(logging.ERROR, "rtmw"), subscriber.listen(lambda sample: coroutine(sample)) as listener:
        publisher.publish(b"x")
        eventually(lambda: listener.errors == 1)
    assert "use `async for`" in caplog.text


@pytest.mark.parametrize("opened", [rtmw.Subscriber, rtmw.PatternSubscriber])
def test_listen_refuses_what_cannot_be_called_and_a_subscriber_that_is_closed(opened: Callable[[str], Any]) -> None:
    subscriber = opened("t")
    for wrong in (None, 5, "callback"):
        with pytest.raises(TypeError, match="cannot call"):
            subscriber.listen(wrong)
    with pytest.raises(TypeError, match="cannot call 5 back"):
        subscriber.listen(print, on_deadline=5)
    subscriber.close()
    with pytest.raises(rtmw.ClosedError, match=r"after close\(\)"):
        subscriber.listen(print)
