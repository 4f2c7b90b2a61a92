"""PatternSubscriber: many topics as one subscriber, in one order, with those that come and go."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

import rtmw
from rtmw import observe
from rtmw.many import pattern_subscriber
from tests.bus import LONG, Order, Reading, eventually
from tests.child import Spawn
from tests.conftest import free_number

pytestmark = pytest.mark.usefixtures("domain")


def everything(pattern: rtmw.PatternSubscriber[Any]) -> list[tuple[str, bytes]]:
    return [(sample.topic, bytes(sample.data)) for sample in pattern.take_many(100_000)]


def waiting_in(thread: threading.Thread) -> str:
    """The function that a thread is in."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame.f_code.co_name if frame else ""


# ---- which topics ----


def test_it_takes_from_all_topics_that_are_meant_and_from_no_other() -> None:
    publishers = [rtmw.Publisher(name) for name in ("pump/1", "pump/2/speed", "pumps", "pump", "fan/1")]
    with rtmw.PatternSubscriber(["pump/#", "f*"], exclude="pump/2/+") as pattern:
        for publisher in publishers:
            publisher.publish(b"x")
        assert [topic for topic, _ in everything(pattern)] == ["pump/1", "pump", "fan/1"]
        assert sorted(pattern.topics) == ["fan/1", "pump", "pump/1"]


def test_a_topic_that_comes_later_is_heard_with_all_that_it_has_kept() -> None:
    told: list[str] = []
    with rtmw.PatternSubscriber("late/+", on_topic=told.append) as pattern:
        assert pattern.take() is None
        publisher = rtmw.Publisher("late/1", history=100)
        for number in range(100):
            publisher.publish(b"%d" % number)
        found = [bytes(pattern.receive(LONG).data) for _ in range(100)]
    assert found == [b"%d" % number for number in range(100)]
    assert told == ["late/1"]


def test_of_topics_that_are_there_it_gets_the_history_that_it_asks_for() -> None:
    publisher = rtmw.Publisher("a/1", history=9)
    for number in range(9):
        publisher.publish(b"%d" % number)
    assert everything(rtmw.PatternSubscriber("a/+")) == []
    assert everything(rtmw.PatternSubscriber("a/+", history=2)) == [("a/1", b"7"), ("a/1", b"8")]


def test_topics_of_rtmw_itself_are_heard_by_name_only() -> None:
    from rtmw.publisher import OwnPublisher

    publisher = OwnPublisher("rtmw/x")
    everywhere, by_name = rtmw.PatternSubscriber(["*", "#"]), rtmw.PatternSubscriber("rtmw/x")
    publisher.publish(b"x")
    assert everything(everywhere) == []
    assert everything(by_name) == [("rtmw/x", b"x")]


def test_a_name_is_heard_before_its_topic_is_there_and_a_pattern_may_mean_nothing_yet() -> None:
    with rtmw.PatternSubscriber(["one", "none/*"]) as pattern:
        assert pattern.topics == ("one",)
        rtmw.Publisher("one").publish(b"x")
        assert everything(pattern) == [("one", b"x")]


def test_a_wait_says_that_no_topic_is_meant_or_why_its_publishers_do_not_match() -> None:
    with rtmw.PatternSubscriber("none/*") as pattern, pytest.raises(TimeoutError, match=r"no topic .* is meant"):
        pattern.receive(0.02)
    publisher = rtmw.Publisher("a/1", Order)
    with rtmw.PatternSubscriber("a/*", Reading) as pattern:
        with pytest.raises(TimeoutError, match=r"'a/1': publisher of process .* its type is Order"):
            pattern.receive(0)
        assert pattern.stats().unheard[0].startswith("'a/1': publisher of process")
    publisher.close()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"patterns": "a/#/b"}, rtmw.TopicNameError),
        ({"patterns": []}, ValueError),
        ({"patterns": 7}, TypeError),
        ({"exclude": "#/a"}, rtmw.TopicNameError),
        ({"depth": 0}, ValueError),
        ({"history": -1}, ValueError),
        ({"lease": 1.0}, ValueError),
        ({"min_interval": 2, "deadline": 1}, ValueError),
        ({"type": object}, rtmw.UnsupportedType),
        ({"reliability": 9}, ValueError),
    ],
)
def test_options_that_cannot_be_are_refused_though_no_topic_is_there(options: dict[str, Any], error: type) -> None:
    made = cast("Callable[..., object]", rtmw.PatternSubscriber)
    with pytest.raises(error):
        made(**{"patterns": "none/*", **options})


def test_a_domain_that_only_looks_on_is_refused(domain_id: int) -> None:
    with rtmw.Domain(domain_id, observe=True) as looking:
        if looking.region.slot is None:  # not the attachment of this process
            with pytest.raises(rtmw.DomainError, match="observe=True"):
                rtmw.PatternSubscriber("*", domain=looking)


# ---- in which order ----


def test_the_highest_priority_comes_first_and_then_the_time_of_publishing() -> None:
    publishers: list[rtmw.Publisher[bytes]] = [rtmw.Publisher(f"t/{number}") for number in range(30)]
    pattern = rtmw.PatternSubscriber("t/*")
    for number in range(90):
        publishers[number * 7 % 30].publish(b"%02d" % number, priority=number % 3)
    found = [int(payload) for _, payload in everything(pattern)]
    assert found == sorted(range(90), key=lambda number: (-(number % 3), number))


ACTION = some.one_of(some.just(None), some.tuples(some.integers(0, 4), some.integers(0, 7)))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some.lists(ACTION, max_size=60))
# Proves G44.
def test_each_take_gives_the_most_urgent_of_all_that_is_there(
    domain: rtmw.Domain, actions: list[tuple[int, int] | None]
) -> None:
    publishers: list[rtmw.Publisher[bytes]] = [rtmw.Publisher(f"t/{number}", domain=domain) for number in range(5)]
    waiting: list[tuple[int, int]] = []
    with rtmw.PatternSubscriber("t/*", domain=domain) as pattern:
        for number, action in enumerate([*actions, *[None] * len(actions)]):
            if action is not None:
                topic, priority = action
                publisher: rtmw.Publisher[bytes] = publishers[topic]
                publisher.publish(b"%d" % number, priority=priority)
                waiting.append((-priority, number))
                continue
            sample = pattern.take()
            expected = min(waiting, default=None)
            assert (sample and (-sample.priority, int(bytes(sample.data)))) == expected
            if expected is not None:
                waiting.remove(expected)
    for each in publishers:
        each.close(forget=True)


# Proves G44.
def test_an_urgent_message_behind_one_that_was_taken_ahead_does_not_wait_for_other_topics() -> None:
    slow, flood = rtmw.Publisher("t/slow"), rtmw.Publisher("t/flood", priority=3, depth=1000)
    others = [rtmw.Publisher(f"t/{number}") for number in range(40)]
    pattern = rtmw.PatternSubscriber("t/*", depth=1000)
    for _ in range(500):
        flood.publish(b"flood")
    slow.publish(b"low")
    first = pattern.take()
    slow.publish(b"urgent", priority=7)
    found = [bytes(sample.data) for sample in pattern.take_many(500)]
    assert first is not None
    assert found.index(b"urgent") < 400
    assert everything(pattern)[-1] == ("t/slow", b"low")
    del others


def test_a_take_sees_what_comes_in_any_priority_of_any_of_many_topics_that_had_nothing() -> None:
    publishers = [rtmw.Publisher(f"t/{number}") for number in range(20)]
    with rtmw.PatternSubscriber("t/+") as pattern:
        for priority in (0, 3, 0, 7, 3, 0):  # some are new on their topic
            for publisher in publishers[::7]:
                assert pattern.take() is None
                publisher.publish(b"x", priority=priority)
                sample = pattern.take()
                assert sample is not None
                assert (sample.topic, sample.priority) == (publisher.topic, priority)


def test_messages_whose_time_is_over_while_they_wait_in_the_order_are_not_given_and_counted() -> None:
    short, urgent = rtmw.Publisher("t/short", lifetime=0.05), rtmw.Publisher("t/urgent", priority=7)
    pattern = rtmw.PatternSubscriber("t/*")
    short.publish(b"short")
    urgent.publish(b"a")
    urgent.publish(b"b")
    assert bytes(pattern.receive(LONG).data) == b"a"
    time.sleep(0.06)  # what is tested is that the time is over
    assert everything(pattern) == [("t/urgent", b"b")]
    stats = pattern.stats()
    assert (stats.received, stats.expired, stats.topics["t/short"].expired) == (2, 1, 1)


# ---- topics that come, go and change ----


@pytest.fixture
def large() -> Iterator[rtmw.Domain]:
    """A domain with 1,024 topics."""
    number = free_number(with_dds=False)
    with rtmw.Domain(number, pool="64M") as domain:
        yield domain
    rtmw.Domain.unlink(number)


# Proves G46.
def test_a_thousand_topics_that_come_and_go_during_takes_give_each_message_once(large: rtmw.Domain) -> None:
    done = threading.Event()

    def publish() -> None:
        for number in range(1000):
            with rtmw.Publisher(f"many/{number}", domain=large, history=1) as publisher:
                publisher.publish(b"%d" % number)
        done.set()

    with rtmw.PatternSubscriber("many/#", domain=large) as pattern:
        thread = threading.Thread(target=publish)
        thread.start()
        found: list[int] = []
        while not done.is_set() or len(found) < 1000:
            found.append(int(bytes(pattern.receive(LONG).data)))
        thread.join()
        assert sorted(found) == list(range(1000))
        assert pattern.stats().received == 1000
        eventually(lambda: len(pattern.topics) <= pattern_subscriber.ENDED_MOST)


# Proves G46.
def test_a_topic_that_nobody_publishes_on_is_left_and_gives_nothing_twice_when_it_comes_again(
    domain: rtmw.Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pattern_subscriber, "LEAVE_AFTER_S", 0.0)
    pattern = rtmw.PatternSubscriber("t/+")
    with rtmw.Publisher("t/1", history=10) as publisher:
        publisher.publish(b"1")
        publisher.publish(b"2", priority=5)
        assert sorted(payload for _, payload in everything(pattern)) == [b"1", b"2"]
    eventually(lambda: pattern.topics == ())
    with rtmw.Publisher("t/1", history=10) as publisher:
        publisher.publish(b"3")
        assert bytes(pattern.receive(LONG).data) == b"3"
        assert pattern.take() is None
        stats = pattern.stats()
        (shown,) = observe.topics(domain)
    assert (stats.received, stats.bytes, stats.waiting) == (3, 3, 0)
    assert stats.latency.count == 3
    assert [one.latency.count for one in shown.subscribers] == [1]  # what tools read of the one that is there now


def test_a_topic_with_messages_that_were_not_taken_is_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_subscriber, "LEAVE_AFTER_S", 0.0)
    pattern = rtmw.PatternSubscriber("t/+")
    with rtmw.Publisher("t/1") as publisher:
        for number in range(20):
            publisher.publish(b"%d" % number)
    assert pattern.topics == ("t/1",)
    assert len(everything(pattern)) == 20


# Proves G44.
def test_a_topic_that_comes_again_while_it_is_left_is_heard_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler of a signal may take between the look and the removal, as another thread may."""
    monkeypatch.setattr(pattern_subscriber, "LEAVE_AFTER_S", 0.0)
    again: list[rtmw.Publisher[bytes]] = []
    found: list[bytes] = []

    class Interrupted(rtmw.PatternSubscriber[Any]):
        def _advance(self, source: Any, /) -> bool:
            advanced = super()._advance(source)
            if not advanced and not again:
                again.append(rtmw.Publisher("t/1"))
                for number in range(3):
                    again[0].publish(b"%d" % number)
                found.append(bytes(self.receive(LONG).data))
            return advanced

    pattern = Interrupted("t/+")
    with rtmw.Publisher("t/1"):
        eventually(lambda: pattern.topics == ("t/1",))
    while len(found) < 3:
        found.append(bytes(pattern.receive(LONG).data))
    assert found == [b"0", b"1", b"2"]
    assert pattern.topics == ("t/1",)


# Proves G44.
def test_a_topic_is_not_left_by_a_handler_of_a_signal_that_interrupts_a_take_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pattern_subscriber, "LEAVE_AFTER_S", 0.0)
    handlers: list[Callable[[], object]] = []

    class Interrupted(rtmw.Subscriber[Any]):
        def take(self) -> rtmw.Sample[Any] | None:
            if handlers:
                handlers.pop()()
            return super().take()

    monkeypatch.setattr(pattern_subscriber, "Subscriber", Interrupted)
    pattern = rtmw.PatternSubscriber("t/+")
    with rtmw.Publisher("t/1"):
        eventually(lambda: pattern.topics == ("t/1",))
    handlers.append(lambda: [pattern.topics for _ in range(3)])
    pattern._look_whole()
    assert pattern.take() is None
    assert not handlers
    eventually(lambda: pattern.topics == ())


def test_a_topic_that_is_retyped_is_heard_with_both_types() -> None:
    pattern = rtmw.PatternSubscriber("t/+")
    with rtmw.Publisher("t/1", Reading, history=1) as first:
        first.publish(Reading("A", 1.0))
        assert pattern.receive(LONG).value.station == "A"
    with rtmw.Publisher("t/1", Order, history=1) as second:
        second.publish(Order("go"))
        assert pattern.receive(LONG).value.text == "go"
    typed = rtmw.PatternSubscriber("t/+", Reading)
    with rtmw.Publisher("t/1", Reading) as first, rtmw.Publisher("t/1", Order) as second:
        second.publish(Order("go"))
        first.publish(Reading("B", 2.0))
        assert typed.receive(LONG).value == Reading("B", 2.0)
        assert typed.stats().other_types == 1


# Proves G46.
def test_a_topic_for_which_there_is_no_place_is_named_with_the_reason_and_heard_once_there_is_one() -> None:
    most = rtmw.Domain().region.capacity["subscribers"]
    publisher = rtmw.Publisher("late/1", history=1)
    publisher.publish(b"x")
    others = [rtmw.Subscriber("other") for _ in range(most)]
    with pytest.raises(rtmw.LimitReached):
        rtmw.PatternSubscriber("late/1")
    pattern = rtmw.PatternSubscriber("late/+")
    assert pattern.topics == ()
    assert "subscriber" in pattern.skipped["late/1"] or "endpoint" in pattern.skipped["late/1"]
    others.pop().close()
    assert bytes(pattern.receive(LONG).data) == b"x"
    assert pattern.skipped == {}


def test_an_exception_of_on_topic_reaches_who_takes_and_no_topic_is_lost_by_it() -> None:
    def fail(name: str) -> None:
        raise KeyError(name)

    pattern = rtmw.PatternSubscriber("t/+", on_topic=fail)
    publishers = [rtmw.Publisher(f"t/{number}", history=1) for number in range(3)]
    for publisher in publishers:
        publisher.publish(b"x")
    found, raised = 0, 0
    while found < 3:
        try:
            pattern.receive(LONG)
            found += 1
        except KeyError:
            raised += 1
    assert raised == 3


# Proves G45.
def test_any_exception_of_on_topic_reaches_who_takes() -> None:
    def fail(name: str) -> None:
        raise BlockingIOError(name)

    pattern = rtmw.PatternSubscriber("t/+", on_topic=fail)
    publisher = rtmw.Publisher("t/1", history=1)
    with pytest.raises(BlockingIOError):
        pattern.receive(LONG)
    publisher.publish(b"x")
    assert bytes(pattern.receive(LONG).data) == b"x"
    assert pattern.skipped == {}


# Proves G45.
def test_on_topic_may_wait_for_a_thread_that_asks_for_the_topics_and_is_told_before_the_first_message() -> None:
    found: list[str] = []

    def ask(name: str) -> None:
        thread = threading.Thread(target=lambda: found.extend(pattern.topics), daemon=True)
        thread.start()
        thread.join(LONG)
        found.append("told" if not thread.is_alive() else "stuck")

    pattern = rtmw.PatternSubscriber("t/+", on_topic=ask)
    with rtmw.Publisher("t/1", history=1) as publisher:
        publisher.publish(b"x")
        pattern.receive(LONG)
        assert found == ["t/1", "told"]


# Proves G45.
def test_on_topic_may_close_it_and_then_no_topic_more_is_heard() -> None:
    told: list[str] = []

    def close(name: str) -> None:
        told.append(name)
        pattern.close()

    pattern = rtmw.PatternSubscriber("t/+", on_topic=close)
    publishers = [rtmw.Publisher(f"t/{number}") for number in range(3)]
    with pytest.raises(rtmw.ClosedError):
        pattern.receive(LONG)
    assert len(told) == 1
    assert [publisher.subscribers for publisher in publishers] == [0, 0, 0]


# Proves G45.
def test_a_thread_that_waits_to_look_for_topics_hears_none_of_a_pattern_that_is_closed_meanwhile() -> None:
    pattern = rtmw.PatternSubscriber("t/+")
    publisher = rtmw.Publisher("t/1")
    raised: list[type] = []

    def ask(use: Callable[[], object]) -> None:
        try:
            use()
        except rtmw.ClosedError as error:
            raised.append(type(error))

    threads = [threading.Thread(target=ask, args=[use]) for use in (lambda: pattern.topics, pattern.fileno)]
    with pattern._lock:
        for thread in threads:
            thread.start()
        eventually(lambda: {waiting_in(thread) for thread in threads} == {"_follow", "fileno"})
        pattern.close()
    for thread in threads:
        thread.join(LONG)
    assert raised == [rtmw.ClosedError] * 2
    assert publisher.subscribers == 0


# ---- waiting ----


def test_a_message_and_a_new_topic_wake_a_receive_and_close_ends_it() -> None:
    known = rtmw.Publisher("t/1")
    pattern = rtmw.PatternSubscriber("t/+")
    timer = threading.Timer(0.03, known.publish, [b"x"])
    timer.start()
    assert bytes(pattern.receive(LONG).data) == b"x"
    timer.join()
    timer = threading.Timer(0.03, lambda: rtmw.Publisher("t/2", history=1).publish(b"y"))
    timer.start()
    assert bytes(pattern.receive(LONG).data) == b"y"
    timer.join()
    timer = threading.Timer(0.03, pattern.close)
    timer.start()
    assert list(pattern) == []
    timer.join()
    for use in (pattern.take, pattern.receive, pattern.stats, pattern.fileno, lambda: pattern.take_many(1)):
        with pytest.raises(rtmw.ClosedError):
            use()
    pattern.close()


def test_the_deadline_of_each_topic_is_told_with_its_name() -> None:
    publishers = [rtmw.Publisher(f"t/{number}") for number in range(2)]
    pattern = rtmw.PatternSubscriber("t/+", deadline=0.1)
    missed: list[str] = []
    while len(missed) < 2:
        try:
            publishers[0].publish(b"x")
            pattern.receive(LONG)
        except rtmw.DeadlineMissed as error:
            missed.append(str(error))
    assert all("'t/1'" in text for text in missed)
    assert pattern.stats().deadlines_missed == 2


def test_a_lease_that_runs_out_is_told_and_nothing_that_was_taken_is_lost() -> None:
    reliable = rtmw.Reliability.RELIABLE
    publisher = rtmw.Publisher("t/1", reliability=reliable, max_blocking=5)
    pattern = rtmw.PatternSubscriber("t/+", reliability=reliable, depth=2, lease=0.05)
    for number in range(4):
        assert publisher.publish(b"%d" % number)
    found: list[bytes] = []
    lapses = 0
    publisher.publish(b"last")
    while b"last" not in found:
        try:
            found.append(bytes(pattern.receive(LONG).data))
        except rtmw.LeaseExpired as error:
            lapses += error.missed
    assert len(found) + lapses == 5


# Proves G44.
def test_a_lease_that_runs_out_behind_messages_is_told_by_the_next_call() -> None:
    reliable = rtmw.Reliability.RELIABLE
    first = rtmw.Publisher("t/1", reliability=reliable)
    second = rtmw.Publisher("t/2", reliability=reliable, depth=4, max_blocking=LONG)
    pattern = rtmw.PatternSubscriber("t/*", reliability=reliable, depth=4, lease=0.05)
    first.publish(b"x")
    first.publish(b"x")
    second.publish(b"x")
    given, missed, told = [pattern.receive(LONG)], 0, 0
    for _ in range(12):
        assert second.publish(b"x")
    for _ in range(20):
        try:
            given += pattern.take_many(10)
        except rtmw.LeaseExpired as error:
            told += 1
            missed += error.missed
    assert told == pattern.stats().lapses > 0
    assert len(given) + missed == 15


def test_a_listener_is_called_for_messages_of_all_topics() -> None:
    found: list[str] = []
    publishers = [rtmw.Publisher(f"t/{number}") for number in range(3)]
    with rtmw.PatternSubscriber("t/+") as pattern, pattern.listen(lambda sample: found.append(sample.topic)):
        for publisher in publishers:
            publisher.publish(b"x")
        eventually(lambda: sorted(found) == ["t/0", "t/1", "t/2"])


def test_async_for_takes_from_topics_that_are_there_and_that_come_and_a_wait_that_is_cancelled_loses_nothing() -> None:
    async def main() -> list[bytes]:
        publisher = rtmw.Publisher("t/1")
        pattern = rtmw.PatternSubscriber("t/+")
        waiting = asyncio.ensure_future(anext(pattern))
        await asyncio.sleep(0)
        waiting.cancel()
        publisher.publish(b"1")
        with suppress(asyncio.CancelledError):
            await waiting
        loop = asyncio.get_running_loop()
        loop.call_later(0.02, lambda: rtmw.Publisher("t/2", history=1).publish(b"2"))
        loop.call_later(0.1, lambda: publisher.publish(b"3"))
        found: list[bytes] = []
        async for sample in pattern:
            found.append(bytes(sample.data))
            if len(found) == 3:
                loop.call_later(0.02, pattern.close)
        return found

    assert asyncio.run(main()) == [b"1", b"2", b"3"]


def test_its_descriptor_is_readable_for_messages_and_new_topics_and_quiet_without() -> None:
    publisher = rtmw.Publisher("t/1")
    pattern = rtmw.PatternSubscriber("t/+")
    poll = select.poll()
    poll.register(pattern.fileno(), select.POLLIN)

    def found() -> list[bytes]:
        taken: list[bytes] = []
        while not taken and poll.poll(LONG * 1000):
            taken += [payload for _, payload in everything(pattern)]
        return taken

    publisher.publish(b"1")
    assert found() == [b"1"]
    rtmw.Publisher("t/2", history=1).publish(b"2")
    assert found() == [b"2"]
    publisher.publish(b"3")
    assert found() == [b"3"]
    eventually(lambda: everything(pattern) == [] and poll.poll(0) == [])
    descriptors = len(os.listdir("/proc/self/fd"))
    pattern.close()
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= descriptors - 8)


def test_its_descriptor_is_quiet_when_a_topic_was_left_though_a_child_of_fork_has_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pattern_subscriber, "LEAVE_AFTER_S", 0.0)
    pattern = rtmw.PatternSubscriber("t/+")
    poll = select.poll()
    poll.register(pattern.fileno(), select.POLLIN)
    publisher = rtmw.Publisher("t/1")
    eventually(lambda: everything(pattern) == [] and pattern.topics == ("t/1",))
    publisher.publish(b"x")
    eventually(lambda: len(everything(pattern)) == 1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent closes it
        os._exit(0)
    os.close(reading)
    try:
        publisher.close()
        eventually(lambda: pattern.topics == ())
        eventually(lambda: everything(pattern) == [] and poll.poll(0) == [])
    finally:
        os.close(writing)
        os.waitpid(child, 0)


DROPPED = """
    import gc, threading, time, rtmw

    gc.collect()
    gc.freeze()
    for _ in range(20):
        dropped = []
        for _ in range(20):
            pattern = rtmw.PatternSubscriber("t/+", domain={domain})
            pattern.fileno()
            dropped.append([pattern, dropped])  # only a collection of garbage finds them
        del dropped, pattern
        gc.set_threshold(1)
        time.sleep(0.012)  # their threads look for topics, and may collect
        gc.set_threshold(0)
        gc.collect()
    while any(thread.name == "rtmw patterns" for thread in threading.enumerate()):
        time.sleep(0.01)
    print("ended", flush=True)
"""


def test_threads_end_of_those_that_were_dropped_whichever_thread_collects_them(domain_id: int, spawn: Spawn) -> None:
    assert spawn(DROPPED.format(domain=domain_id)).line(LONG) == "ended"


# ---- what is counted, and who harms whom ----


def test_the_sums_are_those_of_the_topics_and_of_topics_that_were_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_subscriber, "LEAVE_AFTER_S", 0.0)
    pattern = rtmw.PatternSubscriber("t/+", depth=4, reliability=rtmw.Reliability.TIMELY)
    gone, stays = rtmw.Publisher("t/gone"), rtmw.Publisher("t/stays", reliability=rtmw.Reliability.TIMELY)
    assert pattern.take() is None
    eventually(lambda: len(pattern.topics) == 2)
    for publisher in (gone, stays):
        for number in range(10):
            publisher.publish(b"%02d" % number)
    assert pattern.take() is not None
    stats = pattern.stats()
    assert stats.received == 1
    assert stats.received + stats.waiting + stats.missed == 20
    everything(pattern)
    gone.close()
    eventually(lambda: pattern.topics == ("t/stays",))
    stats = pattern.stats()
    assert list(stats.topics) == ["t/stays"]
    assert stats.received + stats.missed == 20
    assert stats.bytes == 2 * stats.received
    assert stats.latency.count == stats.received


# Proves G44.
def test_a_handler_of_a_signal_that_takes_during_a_take_spoils_nothing(spawn: Spawn) -> None:
    """The core runs handlers while it passes over messages that nobody gets; here a method stands for the handler."""
    child = spawn(
        """
import rtmw
from rtmw.many import pattern_subscriber

class Interrupted(rtmw.Subscriber):
    def take(self):
        if handlers:
            handlers.pop()()
        return super().take()

handlers = []
pattern_subscriber.Subscriber = Interrupted
publishers = [rtmw.Publisher(f"t/{number}") for number in range(64)]
pattern = rtmw.PatternSubscriber("t/*")
for publisher in publishers:
    for _ in range(3):
        publisher.publish(b"x")
found = []
handlers.append(lambda: found.append(pattern.take()))
print(len(pattern.take_many(1000)) + len(found))
"""
    )
    assert child.line() == str(64 * 3)


# Proves G44.
def test_threads_that_take_at_once_get_each_message_once() -> None:
    publishers = [rtmw.Publisher(f"t/{number}", depth=200) for number in range(20)]
    pattern = rtmw.PatternSubscriber("t/*", depth=200)
    for number in range(4000):
        publishers[number % 20].publish(b"%d" % number)
    found: list[list[int]] = [[] for _ in range(4)]

    def take(mine: list[int]) -> None:
        while (sample := pattern.take()) is not None:
            mine.append(int(bytes(sample.data)))

    threads = [threading.Thread(target=take, args=[mine]) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for mine in found for number in mine) == list(range(4000))


def test_a_child_of_fork_is_told_so(domain: rtmw.Domain) -> None:
    publishers = [rtmw.Publisher(f"t/{number}", domain=domain) for number in range(2)]
    pattern = rtmw.PatternSubscriber("t/+", domain=domain)
    for publisher in publishers:
        publisher.publish(b"x")
    assert pattern.take() is not None
    child = os.fork()
    if child == 0:
        uses: tuple[Callable[[], object], ...] = (pattern.take, lambda: pattern.receive(0), lambda: pattern.topics)
        forked = 0
        for use in uses:
            with suppress(BaseException):
                try:
                    use()
                except rtmw.ForkedError:
                    forked += 1
        os._exit(0 if forked == len(uses) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(everything(pattern)) == 1


def test_it_is_closed_with_its_domain_and_leaves_nothing_when_it_is_collected(domain_id: int) -> None:
    with rtmw.Domain(domain_id) as mine:
        publisher = rtmw.Publisher("t/1", domain=mine)
        pattern = rtmw.PatternSubscriber("t/+", domain=mine)
        publisher.publish(b"x")
        assert publisher.subscribers == 1
        del pattern
        assert publisher.subscribers == 0
        pattern = rtmw.PatternSubscriber("t/+", domain=mine)
    assert pattern.closed


def test_one_that_is_killed_leaves_nothing_and_stops_nobody(spawn: Spawn) -> None:
    publisher = rtmw.Publisher("t/1", reliability=rtmw.Reliability.RELIABLE, max_blocking=LONG)
    child = spawn(
        """
import rtmw
pattern = rtmw.PatternSubscriber("t/+", reliability=rtmw.Reliability.RELIABLE, depth=4)
print("ready", flush=True)
pattern.receive()
print("took", flush=True)
pattern.receive(); import time; time.sleep(1000)
"""
    )
    assert child.line() == "ready"
    assert publisher.wait_for_subscribers(timeout=LONG)
    for _ in range(4):
        assert publisher.publish(b"x")
    assert child.line() == "took"
    child.kill()
    for _ in range(20):
        assert publisher.publish(b"x")
    assert publisher.subscribers == 0


def test_at_rest_publishers_wake_nobody_for_a_pattern_that_is_polled() -> None:
    """A take looks at the ends of queues, and arms no topic: a publisher pays nothing for one that polls."""
    publisher = rtmw.Publisher("t/1")
    pattern = rtmw.PatternSubscriber("t/+")
    for _ in range(10):
        assert pattern.take() is None
        publisher.publish(b"x")
        assert pattern.take() is not None
    assert not select.select([rtmw.Domain().region.fileno()], [], [], 0)[0]


def test_what_is_no_pattern_and_no_function_is_refused_in_words(domain: rtmw.Domain) -> None:
    for wrong in cast("tuple[Any, ...]", (None, 5)):
        with pytest.raises(TypeError, match="is no pattern of topics"):
            rtmw.PatternSubscriber(wrong, domain=domain)
        with pytest.raises(TypeError, match="is no pattern of topics"):
            rtmw.PatternSubscriber("a/*", exclude=wrong, domain=domain)
    not_callable: Any = 5
    with pytest.raises(TypeError, match="on_topic=5 is not possible"):
        rtmw.PatternSubscriber("a/*", on_topic=not_callable, domain=domain)
