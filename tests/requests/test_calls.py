"""Calls on one host: what comes back, and each way in which nothing does."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import msgspec
import numpy as np
import pytest

import rtmw
from rtmw import observe
from rtmw.requests import service as serving
from rtmw.requests import wire
from tests.bus import LONG, eventually
from tests.child import Spawn
from tests.requests.common import Goal, Step, client, double, server, service, steps
from tests.whole import IS_WHOLE

pytestmark = pytest.mark.usefixtures("domain")


def test_a_call_gives_what_the_handler_returns() -> None:
    with service(double), client() as caller:
        assert caller.wait(LONG)
        assert caller.call(Goal(3), timeout=LONG) == Step(6)
        assert asyncio.run(caller.call_async(Goal(4), timeout=LONG)) == Step(8)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (bytes, b"\0x"),
        (str, "grüße"),
        (dict, {"a": [1, None]}),
        (dict, None),
        (np.dtype("f4"), np.arange(3, dtype="f4")),
    ],
    ids=["bytes", "str", "dict", "null", "numpy"],
)
def test_requests_and_replies_may_be_of_any_type_of_a_publisher(kind: Any, value: Any) -> None:
    with (
        rtmw.Service("echo", lambda asked: asked, request=kind, reply=kind),
        rtmw.Client("echo", request=kind, reply=kind) as caller,
    ):
        answer = caller.call(value, timeout=LONG)
        assert np.array_equal(answer, value) if kind is not dict else answer == value


def test_a_type_that_cannot_travel_is_refused_when_a_side_is_opened() -> None:
    kinds: tuple[Any, ...] = rtmw.ANY, int, [], np.dtype((np.float32, (2, 2))), np.dtype("S3")
    for kind in kinds:
        with pytest.raises(rtmw.UnsupportedType):
            rtmw.Client("t", request=kind)
        with pytest.raises(rtmw.UnsupportedType):
            rtmw.Service("t", double, reply=kind)
    assert observe.topics(rtmw.Domain()) == []


def test_a_handler_may_be_async_and_runs_in_tasks_of_the_loop() -> None:
    async def slow(goal: Goal) -> Step:
        await asyncio.sleep(goal.pause)
        return Step(goal.count)

    async def main() -> list[Step]:
        with service(slow, workers=8), client() as caller:
            return await asyncio.gather(*(caller.call_async(Goal(n, 0.001 * n), timeout=LONG) for n in range(20)))

    assert asyncio.run(main()) == [Step(number) for number in range(20)]


def test_an_async_handler_needs_a_running_loop_however_it_is_wrapped() -> None:
    class Called:
        async def __call__(self, goal: Goal) -> Step:
            return Step(goal.count)

    for handler in (Called(), partial(Called().__call__)):
        with pytest.raises(TypeError, match="event loop"):
            service(handler)
    with service(double):  # the name is free
        pass


def test_what_a_handler_raises_is_callfailed_with_type_and_text_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(goal: Goal) -> Step:
        raise SystemExit(3) if goal.count == 3 else OSError(28, "no space")

    with service(broken) as serves, client() as caller:
        with pytest.raises(rtmw.CallFailed, match=r"OSError: \[Errno 28\] no space"):
            caller.call(Goal(1), timeout=LONG)
        with pytest.raises(rtmw.CallFailed, match="SystemExit: 3"):
            caller.call(Goal(3), timeout=LONG)
        eventually(lambda: serves.stats().failed == 2)
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(logged) == 2
    assert all(record.exc_info for record in logged)


@pytest.mark.parametrize("answer", [None, 3, Goal(1)], ids=repr)
def test_a_handlers_bad_value_is_an_error_of_the_server_and_callfailed_for_the_client(answer: Any) -> None:
    with service(lambda _: answer) as serves, client() as caller:
        with pytest.raises(rtmw.CallFailed, match="TypeMismatch: "):
            caller.call(Goal(1), timeout=LONG)
        eventually(lambda: serves.stats().failed == 1)


def test_a_value_that_cannot_travel_is_refused_at_the_client_and_nothing_is_sent() -> None:
    wrong: Any
    with service(double) as serves, client() as caller:
        for wrong in (3, None, Step(1), Goal("three")):  # type: ignore[arg-type]
            with pytest.raises(rtmw.MessageError):
                caller.call(wrong, timeout=LONG)
            with pytest.raises(rtmw.MessageError):
                next(caller.stream(wrong))
        with pytest.raises(rtmw.ValueMismatch):
            caller.call(Goal(1 << 70), timeout=LONG)
        assert caller.call(Goal(1), timeout=LONG) == Step(2)
        assert (serves.stats().served, serves.stats().refused, caller.stats().waiting) == (1, 0, 0)


def test_what_the_class_of_a_value_refuses_is_said_on_the_side_that_got_it() -> None:
    class Small(msgspec.Struct):
        number: int

        def __post_init__(self) -> None:
            if self.number > limit[0]:
                raise ValueError("too large")

    limit = [10]
    with (
        rtmw.Service("s", lambda one: one, request=Small, reply=Small),
        rtmw.Client("s", request=Small, reply=Small) as caller,
    ):
        value = Small(5)
        limit[0] = 3
        with pytest.raises(rtmw.CallFailed, match=r"ValueMismatch: .*too large"):
            caller.call(value, timeout=LONG)
        with (
            rtmw.Service("t", lambda _: value, request=bytes, reply=Small),
            rtmw.Client("t", reply=Small) as other,
            pytest.raises(rtmw.ValueMismatch, match="too large"),
        ):
            other.call(b"", timeout=LONG)


def test_without_a_server_a_call_fails_at_once_and_says_who_is_not_matched() -> None:
    with client() as caller:
        with pytest.raises(rtmw.NoServer, match="nobody serves 'arm'"):
            caller.call(Goal(1))
        with pytest.raises(rtmw.NoServer):
            asyncio.run(caller.call_async(Goal(1)))
        assert not caller.wait(timeout=0.0)
        with rtmw.Subscriber("arm/request", rtmw.ANY, **rtmw.profiles.REQUEST.subscriber):  # a recorder, say
            assert not caller.wait(timeout=0.02)
        with rtmw.Service("arm", double, request=Step, reply=Step), pytest.raises(rtmw.NoServer, match="Request_Goal"):
            caller.call(Goal(1))
        with service(double):
            assert caller.wait(LONG)


def test_wait_without_a_limit_logs_why_it_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with client() as caller:
        thread = threading.Thread(target=caller.wait)
        thread.start()
        eventually(lambda: "nobody serves" in caplog.text)
        with service(double):
            thread.join()


def test_a_call_that_takes_too_long_is_a_timeouterror_and_its_request_is_not_served_afterwards() -> None:
    go, seen = threading.Event(), list[int]()

    def slow(goal: Goal) -> Step:
        seen.append(goal.count)
        go.wait(LONG)
        return Step(goal.count)

    with service(slow) as serves, client() as caller:
        for number in range(3):
            with pytest.raises(TimeoutError, match="no answer of service 'arm'"):
                caller.call(Goal(number), timeout=0.05)
        go.set()
        assert caller.call(Goal(9), timeout=LONG) == Step(9)
        assert seen == [0, 9]
        stats = serves.stats()
        assert stats.expired + stats.cancelled + stats.served + stats.unread == 4
        assert caller.stats().waiting == 0


def test_a_reply_to_a_call_that_is_over_is_dropped_and_counted() -> None:
    go = threading.Event()

    def late(goal: Goal) -> Step:
        go.wait(LONG)
        return Step(goal.count)

    async def main() -> None:
        task = asyncio.create_task(caller.call_async(Goal(1), timeout=LONG))
        await asyncio.sleep(0)
        eventually(lambda: serves.stats().running == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with service(late) as serves, client() as caller:
        asyncio.run(main())
        go.set()
        assert caller.call(Goal(2), timeout=LONG) == Step(2)
        assert caller.stats().late == 1


# Proves G87.
def test_one_program_serves_a_name_and_the_second_is_told_which(spawn: Spawn, caplog: pytest.LogCaptureFixture) -> None:
    child = server(spawn)
    with pytest.raises(rtmw.ServiceTaken, match=rf"served by child_0.py \(pid {child.pid}\)"):
        service(double)
    child.kill()
    with service(double), pytest.raises(rtmw.ServiceTaken, match=rf"\(pid {os.getpid()}\)"):
        rtmw.Service("arm", double)  # of other types
    assert "another server" not in caplog.text


# Proves G87.
def test_of_two_servers_that_start_at_once_one_serves(spawn: Spawn) -> None:
    source = """
        import rtmw
        from tests.requests.common import double, service
        print("ready", flush=True)
        input()
        try:
            with service(double):
                print("serves", flush=True)
                input()
        except rtmw.ServiceTaken:
            print("taken", flush=True)
    """
    children = [server(spawn, source) for _ in range(4)]
    for child in children:
        child.send()
    assert sorted(child.line() for child in children) == ["serves", "taken", "taken", "taken"]


# Proves G87.
def test_a_child_of_fork_keeps_neither_the_name_nor_the_calls(spawn: Spawn) -> None:
    source = """
        import os, time
        import rtmw
        from tests.requests.common import Goal, client, double, service
        serves, caller = service(double), client()
        assert caller.call(Goal(1), timeout=10).number == 2
        if os.fork() == 0:
            with client() as own:
                assert own.call(Goal(2), timeout=10).number == 4
            print("ready", flush=True)
            print(os.getpid(), flush=True)
        time.sleep(600)
    """
    child = server(spawn, source)
    forked = int(child.line())
    child.kill()
    with service(double), client() as caller:
        assert caller.call(Goal(4), timeout=LONG) == Step(8)
    os.kill(forked, signal.SIGKILL)


def test_a_handler_may_call_other_services_and_its_own() -> None:
    def outer(goal: Goal) -> Step:
        if goal.count == 0:
            return Step(0)
        return Step(1 + caller.call(Goal(goal.count - 1), timeout=LONG).number)

    with service(outer, workers=4), client() as caller:
        assert caller.call(Goal(3), timeout=LONG) == Step(3)


@pytest.mark.parametrize("timeout", [0.2, None])
# Proves G88.
def test_with_one_worker_a_handler_that_calls_itself_gets_a_timeouterror_and_not_never(
    timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(rtmw.profiles.REQUEST.publisher, "lifetime", 0.2)
    caught = list[Exception]()

    def itself(goal: Goal) -> Step:
        try:
            return caller.call(goal, timeout=timeout)
        except TimeoutError as error:
            caught.append(error)
            raise

    with service(itself), client() as caller:
        with pytest.raises(rtmw.CallFailed, match="TimeoutError"):
            caller.call(Goal(1), timeout=None if timeout is None else LONG)
        assert len(caught) == 1


def test_a_call_within_a_handler_is_waited_for_no_longer_than_the_call_that_is_served() -> None:
    took = list[float]()

    def itself(goal: Goal) -> Step:
        began = time.monotonic()
        try:
            return caller.call(goal, timeout=600)
        finally:
            took.append(time.monotonic() - began)

    with service(itself), client() as caller:
        with pytest.raises((TimeoutError, rtmw.CallFailed)):
            caller.call(Goal(1), timeout=0.1)
        eventually(lambda: len(took) == 1)
        assert took[0] < 300


def test_workers_bound_how_many_are_served_at_a_time_and_the_rest_is_counted() -> None:
    go, most, now = threading.Event(), [0], list[int]()

    def busy(goal: Goal) -> Step:
        now.append(goal.count)
        most[0] = max(most[0], len(now))
        go.wait(LONG)
        now.remove(goal.count)
        return Step(goal.count)

    with service(busy, workers=3) as serves, client() as caller:
        threads = [threading.Thread(target=caller.call, args=(Goal(n), LONG)) for n in range(8)]
        for thread in threads:
            thread.start()
        eventually(lambda: (serves.stats().running, serves.stats().waiting) == (3, 5))
        go.set()
        for thread in threads:
            thread.join()
        eventually(lambda: serves.stats().served == 8)
        assert (most[0], serves.stats().running, serves.stats().waiting) == (3, 0, 0)


@pytest.mark.parametrize("name", ["", 3, None, "a/*", "rtmw/x", "a/#", "a" * 169], ids=repr)
def test_a_name_of_which_no_topics_can_be_made_is_refused_on_both_sides(name: Any, domain: rtmw.Domain) -> None:
    with pytest.raises(rtmw.TopicNameError, match=r"cannot be (?:the name of a service|published on)"):
        service(double, name)
    with pytest.raises(rtmw.TopicNameError):
        client(name)
    with service(double, "a" * 168), client("a" * 168) as caller:
        assert caller.call(Goal(1), timeout=LONG) == Step(2)


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, 5000])
def test_workers_are_a_whole_number(workers: Any) -> None:
    with pytest.raises(ValueError, match="workers"):
        service(double, workers=workers)


# Proves G81.
def test_each_of_ten_thousand_calls_has_just_one_outcome() -> None:
    count = 10_000 if IS_WHOLE else 1_000
    chance = random.Random(17)

    async def moody(goal: Goal) -> Step:
        luck = chance.random()
        if luck < 0.2:
            raise RuntimeError(str(goal.count))
        if luck < 0.25:
            await asyncio.sleep(LONG)  # until the caller has given up
        return Step(goal.count)

    async def task(numbers: Iterator[int], outcomes: dict[int, list[str]]) -> None:
        for number in numbers:
            try:
                step = await caller.call_async(Goal(number), timeout=0.2)
                outcomes.setdefault(number, []).append("right" if step == Step(number) else "wrong")
            except rtmw.CallFailed as error:
                outcomes.setdefault(number, []).append("raised" if f": {number}" in str(error) else "wrong")
            except TimeoutError:
                outcomes.setdefault(number, []).append("late")

    async def main() -> dict[int, list[str]]:
        outcomes = dict[int, list[str]]()
        with service(moody, workers=50) as serves:
            await asyncio.gather(*(task(iter(range(first, count, 50)), outcomes) for first in range(50)))
            while serves.stats().running or serves.stats().waiting:
                await asyncio.sleep(0.01)
            stats = serves.stats()
            assert stats.served + stats.failed + stats.cancelled + stats.expired + stats.unread == count
            assert stats.refused == 0
        return outcomes

    logging.getLogger("rtmw").setLevel(logging.CRITICAL)
    try:
        with client() as caller:
            outcomes = asyncio.run(main())
            assert caller.stats().waiting == 0
    finally:
        logging.getLogger("rtmw").setLevel(logging.NOTSET)
    assert sorted(outcomes) == [*range(count)]
    assert {len(one) for one in outcomes.values()} == {1}
    assert {one for ones in outcomes.values() for one in ones} == {"right", "raised", "late"}


def test_threads_that_call_at_once_each_get_their_own_answer() -> None:
    wrong = list[int]()

    def many(first: int) -> None:
        for number in range(first, first + 50):
            if caller.call(Goal(number), timeout=LONG) != Step(2 * number):
                wrong.append(number)

    with service(double, workers=3), client() as caller:
        threads = [threading.Thread(target=many, args=(1000 * first,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_task_whose_replies_come_at_once_leaves_the_others_of_its_loop_their_turn(
    spawn: Spawn,
) -> None:
    async def call(number: int) -> None:
        while counts[number] < 400:
            await calls.call_async(Goal(number), timeout=LONG)
            counts[number] += 1
        fewest.append(min(counts))

    async def run() -> None:
        await asyncio.gather(*map(call, range(len(counts))))

    counts, fewest = [0] * 16, list[int]()
    quick = """
import time
from tests.requests.common import double, service

with service(double):
    print("ready", flush=True)
    time.sleep(600)
"""
    server(spawn, quick)
    with client() as calls:
        assert calls.wait(LONG)
        asyncio.run(run())
    assert fewest[0] > 200


def test_clients_of_a_process_share_one_topic_for_replies_and_the_last_one_gives_it_back(domain: rtmw.Domain) -> None:
    def topics() -> list[str]:
        return [topic.name for topic in observe.topics(domain) if topic.subscribers]

    with service(double):
        one, two = client(), client()
        replies = [name for name in topics() if name.startswith("arm/reply/") and name != "arm/reply/server"]
        assert len(replies) == 1
        one.close()
        assert two.call(Goal(1), timeout=LONG) == Step(2)
        two.close()
        assert replies[0] not in topics()
        with pytest.raises(rtmw.ClosedError):
            two.call(Goal(1))


def test_a_full_topic_table_is_limitreached_that_says_how_many_a_service_needs(domain_id: int) -> None:
    taken = list[rtmw.Publisher[bytes]]()
    with service(double), client():
        with pytest.raises(rtmw.LimitReached):
            taken.extend(rtmw.Publisher(f"t{number}") for number in range(5000))
        for side in (lambda: service(double, "other"), lambda: client("other")):
            with pytest.raises(rtmw.LimitReached, match="needs 2 topics, and one more for each process"):
                side()
        for publisher in taken[:8]:
            publisher.close()
        with service(double, "other"), client("other") as caller:
            assert caller.call(Goal(1), timeout=LONG) == Step(2)


def test_idle_clients_leave_no_thread_and_are_let_go_when_they_close() -> None:
    before = threading.active_count()
    with service(double) as serves:
        for _ in range(5):
            with client() as caller:
                caller.call(Goal(1), timeout=LONG)
                assert threading.active_count() == before + 1
        eventually(lambda: serves.stats().clients == 0)
    assert threading.active_count() == before


def test_what_is_no_request_is_refused_and_counted_and_the_service_goes_on() -> None:
    with service(double) as serves, client() as caller:
        request = wire.envelope("Request", Goal)
        with wire.publisher("arm/request", request, rtmw.Domain(), **wire.PUBLISHES) as stranger:
            stranger.publish((1, 1, 0, "", None))
            stranger.publish((7, 7, wire.CANCEL, "", None))
        assert caller.call(Goal(1), timeout=LONG) == Step(2)
        assert serves.stats().refused == 1


def test_a_request_of_nobody_who_listens_is_counted_as_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MEET_S", 0.02)
    with service(double) as serves:
        request = wire.envelope("Request", Goal)
        with wire.publisher("arm/request", request, rtmw.Domain(), **wire.PUBLISHES) as replayed:
            replayed.publish((12345, 1, 0, "", Goal(1)))
            eventually(lambda: serves.stats().unread == 1)
            eventually(lambda: serves.stats().clients == 0)


# Proves G82.
def test_closing_a_service_waits_for_its_handler_and_a_client_gets_noserver_at_once() -> None:
    began, go = threading.Event(), threading.Event()
    outcome = list[BaseException]()

    def slow(goal: Goal) -> Step:
        began.set()
        go.wait(LONG)
        return Step(goal.count)

    def call() -> None:
        try:
            caller.call(Goal(1), timeout=LONG)
        except rtmw.NoServer as error:
            outcome.append(error)
            go.set()

    serves = service(slow)
    with client() as caller:
        thread = threading.Thread(target=call)
        thread.start()
        assert began.wait(LONG)
        serves.close()
        thread.join()
        serves.close()
        assert "has ended since the call began" in str(outcome[0])


def test_a_handler_may_close_its_own_service() -> None:
    with client() as caller:

        def last(goal: Goal) -> Step:
            serves.close()
            return Step(goal.count)

        serves = service(last)
        with pytest.raises(rtmw.NoServer):
            caller.call(Goal(1), timeout=LONG)
        with service(double):
            assert caller.wait(LONG)
            assert caller.call(Goal(1), timeout=LONG) == Step(2)


def test_a_client_that_is_closed_in_a_call_ends_it() -> None:
    went = threading.Event()
    with service(lambda _: went.wait(LONG) and Step(1)):
        caller, ended = client(), list[Exception]()

        def call() -> None:
            try:
                caller.call(Goal(1), timeout=LONG)
            except rtmw.ClosedError as error:
                ended.append(error)

        threads = [threading.Thread(target=call) for _ in range(3)]
        for thread in threads:
            thread.start()
        eventually(lambda: caller.stats().waiting == 3)
        caller.close()
        for thread in threads:
            thread.join()
        went.set()
    assert len(ended) == 3


def test_a_client_that_is_closed_ends_its_own_calls_and_streams_and_no_others() -> None:
    went = threading.Event()
    with service(lambda goal: went.wait(LONG) and Step(goal.count), workers=3) as serves, client() as other:
        caller, ended = client(), list[BaseException | Step]()

        def note(call: Callable[[], Step]) -> None:
            try:
                ended.append(call())
            except rtmw.ClosedError as error:
                ended.append(error)

        works = [
            lambda: caller.call(Goal(1), timeout=LONG),
            lambda: next(caller.stream(Goal(1), timeout=LONG)),
            lambda: other.call(Goal(2), timeout=LONG),
        ]
        threads = [threading.Thread(target=note, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        eventually(lambda: serves.stats().running == 3)
        caller.close()
        eventually(lambda: len(ended) == 2)
        assert {str(error) for error in ended} == {"service 'arm': the Client was closed"}
        went.set()
        for thread in threads:
            thread.join()
        assert ended[2] == Step(2)


def test_a_call_of_other_types_says_so_and_does_not_advise_to_start_the_server() -> None:
    with service(double), rtmw.Client("arm", request=Step, reply=Goal) as caller:
        with pytest.raises(rtmw.NoServer, match="service 'arm' has no server of these types: ") as caught:
            caller.call(Step(1), timeout=LONG)
        assert "start" not in str(caught.value)


def test_an_idle_service_closes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "TICK_S", 6 * LONG)
    serves = service(double, workers=2)
    time.sleep(0.05)  # one of its threads waits
    began = time.monotonic()
    serves.close()
    assert time.monotonic() - began < LONG


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_service_that_is_dropped_is_closed_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    before = threading.active_count()
    serves = service(double, workers=3)
    with client() as caller:
        assert caller.call(Goal(1), timeout=LONG) == Step(2)
        del serves
        eventually(lambda: "service 'arm' is served no more" in caplog.text)
        eventually(lambda: threading.active_count() == before)
        with service(double):
            assert caller.wait(LONG)
            assert caller.call(Goal(2), timeout=LONG) == Step(4)


def test_an_async_handler_whose_client_is_closed_in_the_call_has_not_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def handler(_: Goal) -> Step:
            await asyncio.sleep(600)
            return Step(0)

        with service(handler) as serves:
            caller = client()
            task = asyncio.create_task(caller.call_async(Goal(1), timeout=LONG))
            while not serves.stats().running:
                await asyncio.sleep(0.001)
            caller.close()
            with pytest.raises(rtmw.ClosedError):
                await task
            while serves.stats().running:
                await asyncio.sleep(0.001)
            assert serves.stats().failed == 0

    asyncio.run(asyncio.wait_for(main(), LONG))
    assert caplog.records == []


def test_a_handler_can_be_called() -> None:
    with pytest.raises(TypeError, match="None cannot be the handler"):
        rtmw.Service("arm", cast("Any", None))


def test_closing_the_domain_closes_both_sides(domain_id: int) -> None:
    own = rtmw.Domain(domain_id)
    serves = service(double, domain=own)
    caller = client(domain=own)
    assert caller.call(Goal(1), timeout=LONG) == Step(2)
    own.close()
    assert "closed" in repr(serves)
    with pytest.raises(rtmw.ClosedError):
        caller.call(Goal(1))
    with service(double), client() as other:
        assert other.call(Goal(1), timeout=LONG) == Step(2)


def test_a_service_records_and_echoes_as_any_topic_does() -> None:
    with rtmw.Subscriber("arm/request", rtmw.ANY) as requests, service(double), client() as caller:
        assert caller.call(Goal(3), timeout=LONG) == Step(6)
        message = requests.receive(timeout=LONG).value
        assert (message.call, message.flags, message.value.count) == (1, 0, 3)
        with rtmw.Subscriber(f"arm/reply/{message.client:x}", rtmw.ANY) as replies:
            caller.call(Goal(4), timeout=LONG)
            reply = replies.receive(timeout=LONG).value
            assert (reply.call, reply.flags, reply.error, reply.value.number) == (2, wire.LAST, "", 8)


def test_a_generator_is_called_for_its_last_value_and_without_any_the_call_has_failed() -> None:
    with service(steps), client() as caller:
        assert caller.call(Goal(5), timeout=LONG) == Step(4)
        with pytest.raises(rtmw.CallFailed, match="without a value"):
            caller.call(Goal(0), timeout=LONG)
