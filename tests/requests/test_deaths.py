"""A server or a client that is killed or stopped, at each step of a call."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import rtmw
from rtmw.requests import wire
from tests.bus import LONG, balanced, eventually
from tests.child import Spawn
from tests.requests.common import Goal, Step, client, double, server, service, steps

pytestmark = pytest.mark.usefixtures("domain")


def at_step(caller: rtmw.Client[Goal, Step], child: Any, step: str) -> rtmw.Stream[Step] | None:
    """A stream of which the server has come so far."""
    if step == "before":
        return None
    stream = caller.stream(Goal(3), timeout=LONG)
    if step == "handler":
        got = asyncio.run(begun(caller, child))
        assert got
        return None
    child.send()
    assert next(stream) == Step(0)
    assert child.line() == "begun"
    assert child.line() == "sent"
    return stream


async def begun(caller: rtmw.Client[Goal, Step], child: Any) -> bool:
    task = asyncio.create_task(caller.call_async(Goal(3), timeout=LONG))
    assert await asyncio.to_thread(child.line) == "begun"
    child.kill()
    began = time.monotonic()
    with pytest.raises(rtmw.NoServer, match="has ended since the call began"):
        await task
    return time.monotonic() - began < LONG / 2


@pytest.mark.parametrize("step", ["before", "handler", "replies"])
# Proves G82.
def test_a_server_that_is_killed_at_any_step_is_noserver_at_once(spawn: Spawn, domain: rtmw.Domain, step: str) -> None:
    child = server(spawn)
    with client() as caller:
        assert caller.wait(LONG)
        stream = at_step(caller, child, step)
        child.kill()
        began = time.monotonic()
        if stream is not None:
            with pytest.raises(rtmw.NoServer):
                list(stream)
        with pytest.raises(rtmw.NoServer):
            caller.call(Goal(1), timeout=LONG)
        assert time.monotonic() - began < LONG / 2
        assert caller.stats().waiting == 0
        with service(double):  # the name is free, and the client goes on
            assert caller.wait(LONG)
            assert caller.call(Goal(2), timeout=LONG) == Step(4)
    balanced(domain)


# Proves G82.
def test_a_server_that_is_killed_and_comes_back_at_once_does_not_leave_old_calls_waiting(spawn: Spawn) -> None:
    child = server(spawn)

    async def main() -> None:
        task = asyncio.create_task(caller.call_async(Goal(1), timeout=None))
        assert await asyncio.to_thread(child.line) == "begun"
        child.kill()
        with service(double):
            with pytest.raises(rtmw.NoServer):
                await task
            assert await caller.call_async(Goal(2), timeout=LONG) == Step(4)

    with client() as caller:
        assert caller.wait(LONG)
        asyncio.run(main())


@pytest.mark.parametrize("step", ["before", "replies"])
# Proves G83.
def test_a_stopped_server_is_a_timeouterror_and_serves_no_call_that_is_over_when_it_goes_on(
    spawn: Spawn, step: str
) -> None:
    child = server(spawn)
    with client() as caller:
        assert caller.wait(LONG)
        stream = at_step(caller, child, step)
        child.stop()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                caller.call(Goal(1), timeout=0.05)
        child.cont()
        if stream is None:
            stream = caller.stream(Goal(1), timeout=LONG)
            child.send()
            assert next(stream) == Step(0)
            assert [child.line(), child.line()] == ["begun", "sent"]
            child.send()
            assert [*stream] == []
        else:
            for number in (1, 2):
                child.send()
                assert next(stream) == Step(number)
                assert child.line() == "sent"
            child.send()
            assert [*stream] == []


CALLER = """
import time
import rtmw
from tests.requests.common import Goal, client

with client() as caller:
    assert caller.wait(10)
    print("ready", flush=True)
    input()
    for step in caller.stream(Goal({count}, {pause})):
        print(step.number, flush=True)
        {then}
"""


@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("step", ["before", "handler", "replies"])
# Proves G84.
def test_a_client_that_is_killed_or_stopped_makes_neither_server_nor_clients_wait(
    spawn: Spawn, domain: rtmw.Domain, how: str, step: str
) -> None:
    def either(goal: Goal) -> Any:
        return double(goal) if goal.pause == 0 else steps(goal)

    with service(either, workers=2) as serves, client() as caller:
        child = spawn(CALLER.format(count=1 << 30, pause=0.2 if step == "handler" else 1e-6, then=""))
        assert child.line() == "ready"
        if step != "before":
            child.send()
        if step == "replies":
            assert child.line() == "0"
        elif step == "handler":
            eventually(lambda: serves.stats().running == 1)
        getattr(child, how)()
        for number in range(20):
            assert caller.call(Goal(number), timeout=LONG) == Step(2 * number)
        if how == "kill" or step == "replies":
            eventually(lambda: serves.stats().running == 0)
        child.kill()
        eventually(lambda: serves.stats().running == 0)
        eventually(lambda: serves.stats().clients == 1)
    balanced(domain)


# Proves G84.
def test_with_one_worker_a_stopped_client_of_a_quick_stream_is_given_up_and_told_when_it_goes_on(spawn: Spawn) -> None:
    with service(lambda goal: steps(goal) if goal.count > 1 else double(goal)) as serves, client() as caller:
        child = spawn(
            """
            import rtmw
            from tests.requests.common import Goal, client
            with client() as caller:
                assert caller.wait(10)
                stream = caller.stream(Goal(1 << 30))
                next(stream)
                print("ready", flush=True)
                input()
                try:
                    for step in stream: pass
                except rtmw.CallFailed as error:
                    print(error, flush=True)
            """
        )
        assert child.line() == "ready"
        child.stop()
        assert caller.call(Goal(1), timeout=LONG) == Step(2)
        assert serves.stats().unread == 1
        child.cont()
        child.send()
        assert "replies unread" in child.line()


@pytest.mark.parametrize("is_heard", [False, True], ids=["alone", "heard by others"])
# Proves G84.
def test_killed_clients_are_let_go_with_their_topics(spawn: Spawn, domain: rtmw.Domain, is_heard: bool) -> None:
    count = 1 if is_heard else 3
    with service(double) as serves, ExitStack() as others:
        hears = others.enter_context(rtmw.PatternSubscriber("arm/#")) if is_heard else None
        children = [
            spawn(
                """
                import time
                from tests.requests.common import Goal, client
                caller = client()
                assert caller.call(Goal(1), timeout=10).number == 2
                print("ready", flush=True)
                time.sleep(600)
                """
            )
            for _ in range(count)
        ]
        for child in children:
            assert child.line() == "ready"
        assert serves.stats().clients == count
        if hears is not None:
            eventually(lambda: bool(hears.take_many(99)) or len(hears.topics) == 2 + count)
        for child in children:
            child.kill()
        eventually(lambda: serves.stats().clients == 0)
    balanced(domain)


@pytest.mark.parametrize("kind", ["thread", "task"])
# Proves G84.
def test_a_stream_whose_client_is_killed_is_closed_though_others_hear_its_replies(spawn: Spawn, kind: str) -> None:
    closed = threading.Event()

    def in_thread(goal: Goal) -> Iterator[Step]:
        try:
            yield from steps(goal)
        finally:
            closed.set()

    async def in_task(goal: Goal) -> AsyncIterator[Step]:
        try:
            for number in range(goal.count):
                await asyncio.sleep(goal.pause)
                yield Step(number)
        finally:
            closed.set()

    async def main() -> None:
        with service(in_thread if kind == "thread" else in_task) as serves, rtmw.PatternSubscriber("arm/#") as hears:
            child = spawn(CALLER.format(count=1 << 30, pause=0.01, then=""))
            assert await asyncio.to_thread(child.line) == "ready"
            child.send()
            assert await asyncio.to_thread(child.line) == "0"
            while len(hears.topics) < 3:
                hears.take()
                await asyncio.sleep(0.001)
            child.kill()
            assert await asyncio.to_thread(closed.wait, LONG)
            while serves.stats().running:
                await asyncio.sleep(0.01)
            assert serves.stats().served == 0

    asyncio.run(main())


# Proves G84.
def test_the_first_reply_waits_for_the_client_and_not_for_who_hears_what_others_get() -> None:
    request = wire.envelope("Request", bytes)
    answers: Any = wire.envelope("Reply", bytes).kind
    with (
        rtmw.Service("far", bytes) as serves,
        wire.publisher("far/request", request, rtmw.Domain(), **wire.PUBLISHES) as far,
        rtmw.Subscriber(wire.reply_topic("far", far.identity), rtmw.ANY) as recorder,
    ):
        far.publish((far.identity, 1, 0, "", bytes(1000)))  # larger than what stays for late subscribers
        eventually(lambda: serves.stats().running == 1)
        with pytest.raises(TimeoutError):
            recorder.receive(0.1)
        with rtmw.Subscriber(recorder.topic, answers, **rtmw.profiles.REQUEST.subscriber) as reader:
            answer: Any = reader.receive(LONG)
            assert answer.value[-1] == bytes(1000)
        eventually(lambda: serves.stats().served == 1)


# Proves G84.
def test_an_async_service_cancels_the_task_of_a_client_that_is_killed(spawn: Spawn) -> None:
    ended = list[str]()

    async def handler(goal: Goal) -> Step:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return Step(0)

    async def main() -> None:
        with service(handler) as serves:
            child = spawn(CALLER.format(count=1, pause=0, then=""))
            assert await asyncio.to_thread(child.line) == "ready"
            child.send()
            while not serves.stats().running:
                await asyncio.sleep(0.01)
            child.kill()
            while not ended:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 20))
