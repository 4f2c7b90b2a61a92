"""Requests and replies between two hosts."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import rtmw
from tests.bus import eventually
from tests.child import Spawn
from tests.net.hosts import PATIENCE, Host, go_on, halt
from tests.net.ways import BOTH_WAYS, DDS, LINK
from tests.requests.common import Goal, Step, client, double, service, steps
from tests.whole import sample

Pair = tuple[Host, Host]


@BOTH_WAYS
def test_calls_and_streams_cross_and_a_cancelled_one_closes_the_generator_on_the_other_host(pair: Pair) -> None:
    here, there = pair
    closed = threading.Event()

    def endless(goal: Goal) -> Iterator[Step]:
        try:
            for number in range(1 << 40):
                threading.Event().wait(goal.pause)
                yield Step(number)
        finally:
            closed.set()

    def either(goal: Goal) -> Any:
        return double(goal) if goal.count else endless(goal)

    with service(either, domain=there.domain) as serves, client(domain=here.domain) as caller:
        assert caller.wait(PATIENCE)
        assert caller.call(Goal(3), timeout=PATIENCE) == Step(6)
        assert asyncio.run(caller.call_async(Goal(4), timeout=PATIENCE)) == Step(8)
        for number in range(20):
            assert caller.call(Goal(1 + number), timeout=PATIENCE) == Step(2 + 2 * number)
        for step in caller.stream(Goal(0, 0.01), timeout=PATIENCE):
            if step.number == 3:
                break
        eventually(closed.is_set, PATIENCE)
        eventually(lambda: serves.stats().cancelled == 1, PATIENCE)
        with pytest.raises(rtmw.ServiceTaken, match=f"pid {os.getpid()}.* on {socket.gethostname()}"):
            service(double, domain=here.domain)
    with client(domain=here.domain) as caller:
        eventually(lambda: not caller.wait(timeout=0), PATIENCE)
        with service(steps, domain=there.domain):
            assert caller.wait(PATIENCE)
            got = [*caller.stream(Goal(50), timeout=PATIENCE)]
            assert got == [Step(number) for number in range(50)]


SERVER = """
import time
from tests.requests.common import Goal, Step, service
import rtmw

def handler(goal):
    if goal.count == 0:
        print("begun", flush=True)
        time.sleep(600)
    return Step(2 * goal.count)

with service(handler, domain=rtmw.Domain({number})):
    print("ready", flush=True)
    time.sleep(600)
"""


def in_a_call(caller: rtmw.Client[Goal, Step], kill: Any) -> BaseException:
    """What a call without a limit ends with, during which something dies."""

    async def main() -> BaseException:
        task = asyncio.create_task(caller.call_async(Goal(0), timeout=None))
        await asyncio.to_thread(kill)
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(outcome, BaseException)
        return outcome

    return asyncio.run(asyncio.wait_for(main(), PATIENCE))


@pytest.mark.parametrize("hosts", sample([DDS, LINK], 1), indirect=True)
# Proves G89.
def test_a_server_on_another_host_that_is_killed_is_noserver(pair: Pair, spawn: Spawn) -> None:
    here, there = pair
    child = spawn(SERVER.format(number=there.number))
    assert child.line() == "ready"
    with client(domain=here.domain) as caller:
        assert caller.wait(PATIENCE)
        assert caller.call(Goal(1), timeout=PATIENCE) == Step(2)

        def kill() -> None:
            assert child.line(PATIENCE) == "begun"
            child.kill()

        assert isinstance(in_a_call(caller, kill), rtmw.NoServer)
        with service(double, domain=there.domain):
            eventually(lambda: caller.wait(PATIENCE) and caller.call(Goal(3), timeout=PATIENCE) == Step(6), PATIENCE)


FAULTS = [(way, whose, how) for way in (DDS, LINK) for whose, how in ((0, "kill"), (1, "kill"), (1, "halt"))]


@pytest.mark.parametrize(("hosts", "whose", "how"), sample(FAULTS, 2), indirect=["hosts"])
# Proves G89.
def test_when_a_node_is_killed_or_stopped_a_call_ends_with_noserver_and_calls_go_on_behind_it(
    hosts: Pair, spawn: Spawn, whose: int, how: str
) -> None:
    for host in hosts:
        host.start("--lease", "2", "--handover", "0")
    here, there = hosts
    child = spawn(SERVER.format(number=there.number))
    assert child.line() == "ready"
    with client(domain=here.domain) as caller:
        assert caller.wait(PATIENCE)

        def end() -> None:
            assert child.line(PATIENCE) == "begun"
            hosts[whose].kill() if how == "kill" else halt(hosts[whose])

        assert isinstance(in_a_call(caller, end), rtmw.NoServer)
        child.kill()
        if how == "kill":
            hosts[whose].start("--lease", "2", "--handover", "0")
        else:
            go_on(hosts[whose])
        with service(double, domain=there.domain):
            assert caller.wait(PATIENCE)
            assert caller.call(Goal(3), timeout=PATIENCE) == Step(6)


@pytest.mark.parametrize("hosts", sample([LINK, DDS], 1), indirect=True)
def test_while_the_node_of_the_caller_is_stopped_a_call_is_a_timeouterror(pair: Pair) -> None:
    here, there = pair
    with service(double, domain=there.domain), client(domain=here.domain) as caller:
        assert caller.wait(PATIENCE)
        halt(here)
        with pytest.raises(TimeoutError):
            caller.call(Goal(1), timeout=0.3)
        go_on(here)
        assert caller.call(Goal(3), timeout=PATIENCE) == Step(6)


@pytest.mark.parametrize("hosts", sample([LINK, DDS], 1), indirect=True)
# Proves G89.
def test_a_client_on_another_host_that_is_killed_has_its_generator_closed(pair: Pair, spawn: Spawn) -> None:
    here, there = pair
    closed = threading.Event()

    def endless(goal: Goal) -> Iterator[Step]:
        try:
            for number in range(1 << 40):
                threading.Event().wait(0.01)
                yield Step(number)
        finally:
            closed.set()

    with service(endless, domain=there.domain) as serves:
        child = spawn(f"""
            import rtmw
            from tests.requests.common import Goal, client
            with client(domain=rtmw.Domain({here.number})) as caller:
                assert caller.wait({PATIENCE})
                for step in caller.stream(Goal(1)):
                    print(step.number, flush=True)
        """)
        assert child.line(PATIENCE) == "0"
        child.kill()
        eventually(closed.is_set, PATIENCE)
        eventually(lambda: serves.stats().clients == 0, PATIENCE)
