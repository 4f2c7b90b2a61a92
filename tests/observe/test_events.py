"""Events: who came, left and died, and which pairs do not match, as it happens."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress

import pytest

import rtmw
from rtmw import shm
from rtmw.observe import Event, EventKind, Events, events
from rtmw.observe.events import _LOOK_S
from rtmw.observe.views import NODE_TOPIC
from rtmw.publisher import OwnPublisher
from tests.bus import LONG, Order, Reading, eventually
from tests.child import Spawn
from tests.conftest import free_number

KILLED = 100
"""Processes of a domain that are killed at once: it has places for 127."""


@pytest.fixture
def found(domain: rtmw.Domain) -> Iterator[Events]:
    with events(domain) as made:
        yield made


def told(found: Events, count: int) -> list[Event]:
    """So many events, or a failure."""
    timer = threading.Timer(LONG, found.close)
    timer.start()
    events = [event for _, event in zip(range(count), found, strict=False)] if count else []
    timer.cancel()
    assert len(events) == count
    return events


def silent(found: Events) -> bool:
    """Nothing has happened that was not told."""
    found._step(0.0)
    return not found._found


def test_who_comes_and_leaves_is_told_and_who_was_there_is_not(domain: rtmw.Domain) -> None:
    there = rtmw.Publisher("there", domain=domain)
    with events(domain) as found:
        assert silent(found)
        publisher = rtmw.Publisher("a", domain=domain)
        (event,) = told(found, 1)
        assert (event.kind, event.topic, event.pid, event.host) == (EventKind.CAME, "a", os.getpid(), "")
        assert event.text == "publisher"
        subscriber = rtmw.Subscriber("a", domain=domain)
        assert [event.text for event in told(found, 1)] == ["subscriber"]
        subscriber.close()
        publisher.close()
        there.close()
        left = told(found, 3)
        assert {(event.kind, event.topic, event.text) for event in left} == {
            (EventKind.LEFT, "a", "publisher"),
            (EventKind.LEFT, "a", "subscriber"),
            (EventKind.LEFT, "there", "publisher"),
        }
        assert silent(found)


def test_a_pair_that_does_not_match_is_told_in_the_words_of_stats(domain: rtmw.Domain, found: Events) -> None:
    publisher = rtmw.Publisher("a", Order, domain=domain)
    assert told(found, 1)[0].kind is EventKind.CAME
    with rtmw.Subscriber("a", Reading, domain=domain) as subscriber:
        came, unmatched = told(found, 2)
        assert (came.kind, unmatched.kind) == (EventKind.CAME, EventKind.UNMATCHED)
        assert (unmatched.text,) == subscriber.stats().unheard
    assert told(found, 1)[0].kind is EventKind.LEFT
    with rtmw.Subscriber("a", Order, domain=domain, reliability=rtmw.Reliability.RELIABLE) as subscriber:
        assert (told(found, 2)[1].text,) == subscriber.stats().unheard
    publisher.close()


# Proves G26.
def test_a_process_that_is_killed_is_told_and_only_once(domain: rtmw.Domain, found: Events, spawn: Spawn) -> None:
    child = spawn(
        """
import rtmw, time
ends = [rtmw.Publisher(f"t/{n}") for n in range(3)] + [rtmw.Subscriber("t/0")]
print("ready", flush=True)
time.sleep(1000)
"""
    )
    assert child.line() == "ready"
    assert {event.kind for event in told(found, 4)} == {EventKind.CAME}
    child.kill()
    found._step(2 * LONG)  # which the death itself ends
    (event,) = found._found
    found._found.clear()
    assert (event.kind, event.pid, event.topic) == (EventKind.DIED, child.pid, "")
    assert event.text.startswith("it ended without closing; it was publisher of t/0, ")
    domain.region.sweep()
    assert silent(found)


# Proves G26.
def test_a_process_that_dies_while_the_tables_are_read_is_told_once(
    domain: rtmw.Domain, found: Events, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = spawn("import rtmw; ends = rtmw.Publisher('t'), rtmw.Subscriber('t'); print('ready'); input()")
    assert child.line() == "ready"
    assert {event.kind for event in told(found, 2)} == {EventKind.CAME}
    real = shm.subscribers

    def subscribers(region: shm.Region) -> list[shm.SubscriberRow]:
        """Its publisher was read while it lived."""
        child.kill()
        return real(region)

    monkeypatch.setattr(shm, "subscribers", subscribers)
    found._seen = None
    found._step(0.0)
    found._step(0.0)
    domain.region.sweep()
    found._step(0.0)
    assert [event.kind for event in found._found] == [EventKind.DIED]
    assert "publisher of t, subscriber of t" in found._found.pop().text


@contextmanager
def holder(of: Callable[[], object] = lambda: None) -> Generator[None]:
    """A child of fork() that has copies of all descriptors; it has called `of`."""
    (reading, ending), (called, calling) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ending)
        with suppress(BaseException):
            of()
            os.write(calling, b"x")
            os.read(reading, 1)  # until the parent closes it
        os._exit(0)
    os.close(calling)
    try:
        assert os.read(called, 1) == b"x"
        yield
    finally:
        for descriptor in (reading, ending, called):
            os.close(descriptor)
        os.waitpid(child, 0)


# Proves G26.
def test_a_death_is_told_once_and_no_other_by_it_though_a_child_of_fork_has_copies(found: Events, spawn: Spawn) -> None:
    program = "import rtmw; publisher = rtmw.Publisher('t'); print('ready'); input()"
    first = spawn(program)
    assert first.line() == "ready"
    assert [event.kind for event in told(found, 1)] == [EventKind.CAME]
    with holder():
        first.kill()
        assert [event.kind for event in told(found, 1)] == [EventKind.DIED]
        assert found._epoll.poll(0) == []
        second = spawn(program)
        assert second.line() == "ready"
        assert [event.kind for event in told(found, 1)] == [EventKind.CAME]
        assert silent(found)
        assert found._epoll.poll(0) == []


# Proves G26.
def test_close_in_a_child_of_fork_leaves_the_parent_in_peace(domain: rtmw.Domain, found: Events) -> None:
    with holder(found.close):
        assert found._epoll.poll(0) == []
        with rtmw.Publisher("a", domain=domain):
            assert [event.kind for event in told(found, 1)] == [EventKind.CAME]


def test_a_handler_of_a_signal_may_end_it(found: Events) -> None:
    def end(signum: int, frame: object) -> None:
        found.close()

    before = signal.signal(signal.SIGALRM, end)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        assert list(found) == []
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_process_that_ends_in_order_leaves_and_does_not_die(domain: rtmw.Domain, found: Events, spawn: Spawn) -> None:
    child = spawn("import rtmw; publisher = rtmw.Publisher('t'); print('ready'); input()")
    assert child.line() == "ready"
    assert told(found, 1)[0].kind is EventKind.CAME
    child.send()
    assert child.wait() == 0
    assert [event.kind for event in told(found, 1)] == [EventKind.LEFT]


def _crowd(number: int, count: int) -> list[int]:
    """Processes that publish in a domain, once all of them do."""
    reading, writing = os.pipe()
    pids: list[int] = []
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            with suppress(BaseException):
                publisher = rtmw.Publisher(f"crowd/{os.getpid()}", domain=number)
                os.write(writing, b"x")
                while publisher:
                    signal.pause()
            os._exit(1)
        pids.append(pid)
    os.close(writing)
    while count:
        count -= len(os.read(reading, count)) or pytest.fail("a process of the crowd has ended")
    os.close(reading)
    return pids


# Proves G26.
def test_of_two_hundred_processes_that_are_killed_at_once_each_is_told_once() -> None:
    domains = [rtmw.Domain(free_number(with_dds=False), pool="8M") for _ in range(2)]
    watches = [events(domain) for domain in domains]
    pids = [_crowd(domain.id, KILLED) for domain in domains]
    for watch in watches:
        assert {event.kind for event in told(watch, KILLED)} == {EventKind.CAME}
    for pid in [pid for mine in pids for pid in mine]:
        os.kill(pid, signal.SIGKILL)
    for pid in [pid for mine in pids for pid in mine]:
        os.waitpid(pid, 0)
    for watch, mine in zip(watches, pids, strict=True):
        died = told(watch, KILLED)
        assert {event.kind for event in died} == {EventKind.DIED}
        assert sorted(event.pid for event in died) == sorted(mine)
        assert silent(watch)
        watch.close()
    for domain in domains:
        domain.close()
        rtmw.Domain.unlink(domain.id)


def test_async_for_is_told_and_ends_with_close(domain: rtmw.Domain, found: Events) -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        loop.call_later(0.03, lambda: rtmw.Publisher("a", domain=domain).close())
        topics: list[str] = []
        publisher = rtmw.Publisher("b", domain=domain)
        async for event in found:
            topics.append(event.topic)
            loop.call_later(0.03, found.close)
        publisher.close()
        return topics

    assert "b" in asyncio.run(main())


def test_close_ends_a_wait_of_another_thread_and_gives_the_descriptors_back(domain: rtmw.Domain) -> None:
    before = len(os.listdir("/proc/self/fd"))
    found = events(domain)
    thread = threading.Thread(target=lambda: list(found))
    thread.start()
    found.close()
    thread.join(LONG)
    assert not thread.is_alive()
    assert len(os.listdir("/proc/self/fd")) == before
    found.close()


# Proves G26.
def test_it_takes_no_place_and_subscribes_to_nothing(domain: rtmw.Domain, found: Events) -> None:
    rows = domain.region.participants()
    with events(domain) as second:
        assert domain.region.participants() == rows
        assert domain.region.subscribers() == []
        assert silent(second)


def test_endpoints_on_other_hosts_come_and_leave_as_the_node_tells(domain: rtmw.Domain, found: Events) -> None:
    node = OwnPublisher(NODE_TOPIC, domain=domain, history=1)
    member = {
        "host": "press", "domain": 3, "pid": 7, "program": "press.py", "topic": "a", "publishes": True, "type": "X",
        "reliability": "TIMELY", "apart": "its type is Y",
    }  # fmt: skip

    def tell(*members: object) -> None:
        node.publish(json.dumps({"pid": os.getpid(), "told_ns": 1, "host": "here", "elsewhere": members}).encode())
        found._node_at = 0.0

    tell()
    assert silent(found)
    tell(member)
    came, unmatched = told(found, 2)
    assert (came.kind, came.host, came.pid, came.text) == (EventKind.CAME, "press", 7, "publisher")
    assert (unmatched.kind, unmatched.text) == (EventKind.UNMATCHED, "its type is Y")
    tell()
    assert [event.kind for event in told(found, 1)] == [EventKind.LEFT]
    node.publish(b"not what a node says")
    found._node_at = 0.0
    assert silent(found)


# Proves G26.
def test_at_rest_with_a_thousand_topics_it_takes_less_than_half_a_percent_of_a_core() -> None:
    number = free_number(with_dds=False)
    with rtmw.Domain(number, pool="64M") as domain:
        publishers = [rtmw.Publisher(f"t/{topic}", domain=domain) for topic in range(1000)]
        with events(domain) as found:
            steps = 20
            begin = time.thread_time()
            for _ in range(steps):
                found._step(_LOOK_S)
            spent = time.thread_time() - begin
        assert spent < 0.005 * steps * _LOOK_S
        del publishers
    rtmw.Domain.unlink(number)


def test_a_subscriber_counts_its_publishers_and_waits_for_them(domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("a", Reading, domain=domain) as subscriber:
        assert subscriber.publishers == 0
        assert not subscriber.wait_for_publishers(timeout=0.02)
        other = rtmw.Publisher("a", Order, domain=domain)
        timer = threading.Timer(0.03, lambda: made.append(rtmw.Publisher("a", Reading, domain=domain)))
        made: list[rtmw.Publisher[Reading]] = []
        timer.start()
        assert subscriber.wait_for_publishers(timeout=LONG)
        timer.join()
        assert subscriber.publishers == 1
        made[0].close()
        eventually(lambda: subscriber.publishers == 0)
        other.close()
    with pytest.raises(rtmw.ClosedError):
        subscriber.wait_for_publishers(timeout=LONG)
    with pytest.raises(rtmw.ClosedError):
        _ = subscriber.publishers
