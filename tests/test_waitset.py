"""WaitSet: wait for any of several subscribers at once."""

from __future__ import annotations

import signal
import threading
import time

import pytest

import rtmw
from rtmw import shm
from tests.bus import LONG, Reading, eventually
from tests.child import Spawn

pytestmark = pytest.mark.usefixtures("domain")


def test_a_wait_gives_the_subscribers_that_have_something_to_take() -> None:
    subscribers = [rtmw.Subscriber(f"t{number}") for number in range(4)]
    waitset = rtmw.WaitSet(*subscribers)
    rtmw.Publisher("t1").publish(b"x")
    rtmw.Publisher("t3").publish(b"x")
    assert waitset.wait() == [subscribers[1], subscribers[3]]
    assert subscribers[1].take() is not None
    assert waitset.wait() == [subscribers[3]]


@pytest.mark.parametrize("timeout", [0, 0.0, 0.03])
def test_a_wait_gives_no_subscriber_after_its_timeout(timeout: float) -> None:
    begin = time.monotonic()
    assert rtmw.WaitSet(rtmw.Subscriber("a"), rtmw.Subscriber("b")).wait(timeout) == []
    assert time.monotonic() - begin >= timeout


def test_a_message_wakes_a_wait_set() -> None:
    first, second = rtmw.Subscriber("a"), rtmw.Subscriber("b", Reading)
    publisher = rtmw.Publisher("b", Reading)
    timer = threading.Timer(0.03, publisher.publish, [Reading("A1", 1.0)])
    timer.start()
    assert rtmw.WaitSet(first, second).wait(LONG) == [second]
    timer.join()


@pytest.mark.parametrize("count", [1, 128, 129, 300])
def test_it_may_have_more_subscribers_than_the_kernel_takes_at_once(count: int) -> None:
    subscribers = [rtmw.Subscriber("many") for _ in range(count - 1)] + [rtmw.Subscriber("last")]
    timer = threading.Timer(0.03, rtmw.Publisher("last").publish, [b"x"])
    timer.start()
    assert rtmw.WaitSet(*subscribers).wait(LONG) == [subscribers[-1]]
    timer.join()


def test_a_deadline_that_passes_makes_it_ready() -> None:
    silent, calm = rtmw.Subscriber("a", deadline=0.03), rtmw.Subscriber("b")
    waitset = rtmw.WaitSet(silent, calm)
    assert waitset.wait(LONG) == [silent]
    with pytest.raises(rtmw.DeadlineMissed):
        silent.receive(0)


def test_a_lease_that_ran_out_makes_it_ready() -> None:
    publisher = rtmw.Publisher("t", reliability=rtmw.Reliability.RELIABLE, max_blocking=LONG)
    subscriber = rtmw.Subscriber("t", reliability=rtmw.Reliability.RELIABLE, depth=1, lease=0.03)
    publisher.publish_many([b"1", b"2"])
    assert rtmw.WaitSet(subscriber).wait(LONG) == [subscriber]
    with pytest.raises(rtmw.LeaseExpired):
        subscriber.take()


def test_one_subscriber_may_be_in_several_sets_at_once() -> None:
    subscriber, publisher = rtmw.Subscriber("t"), rtmw.Publisher("t")
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(rtmw.WaitSet(subscriber).wait(LONG))) for _ in range(4)]
    for thread in threads:
        thread.start()
    publisher.publish(b"x")
    for thread in threads:
        thread.join(LONG)
    assert found == [[subscriber]] * 4


def test_subscribers_of_several_domains_can_be_in_one_set(domain: rtmw.Domain) -> None:
    other = rtmw.Domain((domain.id - 100 + 66) % 133 + 100, pool="64K")
    try:
        here, there = rtmw.Subscriber("t", domain=domain), rtmw.Subscriber("t", domain=other)
        rtmw.Publisher("t", domain=other).publish(b"x")
        assert rtmw.WaitSet(here, there).wait(LONG) == [there]
    finally:
        other.close()
        rtmw.Domain.unlink(other.id)


def test_a_wait_set_takes_nothing_but_subscribers() -> None:
    with pytest.raises(TypeError, match="subscribers"):
        rtmw.WaitSet(rtmw.Subscriber("t"), rtmw.Publisher("t"))  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [-1, float("nan"), "x"])
def test_an_impossible_timeout_is_refused(timeout: float) -> None:
    with pytest.raises((ValueError, TypeError)):
        rtmw.WaitSet(rtmw.Subscriber("t")).wait(timeout)


def test_a_closed_subscriber_in_it_is_an_error() -> None:
    open_one, closed = rtmw.Subscriber("a"), rtmw.Subscriber("b")
    closed.close()
    with pytest.raises(rtmw.ClosedError, match="'b'"):
        rtmw.WaitSet(open_one, closed).wait(0)


def test_closing_one_of_them_wakes_it_with_an_error() -> None:
    first, second = rtmw.Subscriber("a"), rtmw.Subscriber("b")
    timer = threading.Timer(0.05, second.close)
    timer.start()
    with pytest.raises(rtmw.ClosedError, match="'b'"):
        rtmw.WaitSet(first, second).wait(LONG)
    timer.join()


def test_the_core_names_what_is_no_subscriber() -> None:
    with pytest.raises(TypeError, match="waits for subscribers, and was given 'pump/speed'"):
        shm.wait_any((rtmw.Subscriber("t"), "pump/speed"), 0)  # type: ignore[type-var]


def test_an_empty_set_sleeps_until_its_timeout() -> None:
    began, used = time.monotonic(), time.thread_time()
    assert rtmw.WaitSet().wait(0.5) == []
    assert time.thread_time() - used < (time.monotonic() - began) / 5, "a share of the processor: it does not spin"


def test_a_wait_lets_other_threads_run() -> None:
    subscriber, publisher = rtmw.Subscriber("t"), rtmw.Publisher("t")
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(rtmw.WaitSet(subscriber).wait()))
    thread.start()
    for _ in range(1000):
        assert publisher.subscribers == 1
    publisher.publish(b"x")
    thread.join(LONG)
    assert found == [[subscriber]]


def test_ctrl_c_ends_a_wait(spawn: Spawn) -> None:
    child = spawn("import rtmw; s = rtmw.Subscriber('t'); print(); rtmw.WaitSet(s).wait()")
    child.line()

    def sleeps() -> bool:
        with open(f"/proc/{child.pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "S"

    eventually(sleeps)
    child.signal(signal.SIGINT)
    assert child.wait() in (1, 130, -signal.SIGINT)
    assert "KeyboardInterrupt" in child.stderr
