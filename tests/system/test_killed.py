"""SIGKILL: nobody else waits for the dead, and all that they had comes back."""

from __future__ import annotations

import random
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability, observe
from tests.books import assert_usable, assert_whole, examine
from tests.child import Child, Spawn
from tests.system.crowd import TOPICS, Crowd, message

PATIENCE = 20.0
KILLS = 30


@pytest.fixture
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """A small pool, so that what is lost is missed; whole again after each test."""
    with rtmw.Domain(domain_id, pool="2M", reserve=0) as attached:
        yield attached
        assert_whole(attached)


def wait_until_asleep(child: Child) -> None:
    """Until all of its threads sleep in the kernel."""
    until = time.monotonic() + PATIENCE
    while True:
        stats = [(task / "stat").read_text() for task in Path(f"/proc/{child.pid}/task").iterdir()]
        if all(stat.rpartition(")")[2].split()[0] == "S" for stat in stats):
            return
        assert time.monotonic() < until, "it never slept"
        time.sleep(0.005)


def test_loans_of_a_killed_publisher_come_back(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        """
        import rtmw
        publisher = rtmw.Publisher("a")
        loans = [publisher.loan(size) for size in (0, 100, 129, 700, 4096, 5000, 300_000, 1_000_000)]
        views = [loan.data for loan in loans]
        views[-1][:] = b"x" * 1_000_000
        publisher.publish(b"published")
        print("holds"); input()
        """
    )
    assert child.line() == "holds"
    books = examine(domain)
    assert books.descriptors_loaned == 8
    assert books.pages_used > (1_300_000 // 4096)
    child.kill()
    books = examine(domain)
    assert "1 process that had died" in books.repaired[0]
    assert books.descriptors_loaned == 0
    assert [message.preview for message in observe.queue(domain, "a")] == [b"published"]


# Proves G17.
def test_loans_of_a_killed_publisher_come_back_to_who_runs_short_without_repair(
    domain: rtmw.Domain, spawn: Spawn
) -> None:
    child = spawn(
        """
        import rtmw
        publisher = rtmw.Publisher("a")
        loan = publisher.loan(1_500_000)
        print("holds"); input()
        """
    )
    assert child.line() == "holds"
    with rtmw.Publisher("b", domain=domain) as publisher:
        with pytest.raises(rtmw.PoolExhausted):
            publisher.loan(1_500_000)
        child.kill()
        time.sleep(0.02)  # who runs short looks for the dead at most every 10 ms
        publisher.loan(1_500_000).drop()


def test_samples_of_a_killed_subscriber_come_back(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        """
        import rtmw
        subscriber = rtmw.Subscriber("a", depth=1000)
        print("ready")
        kept = [subscriber.receive(20.0) for _ in range(30)]
        views = [sample.data for sample in kept]
        print("holds"); input()
        """
    )
    with rtmw.Publisher("a", domain=domain) as publisher:
        assert child.line() == "ready"
        for _ in range(30):
            assert publisher.publish(bytes(30_000))
        assert child.line() == "holds"
        (holder,) = [p for p in examine(domain).participants if p.pid == child.pid]
        assert holder.held == 30
        with pytest.raises(rtmw.PoolExhausted):
            publisher.loan(domain.pool)
        child.kill()
        assert examine(domain).descriptors_held == 0
        assert publisher.publish(b"goes on")
        assert publisher.subscribers == 0


WAITS = {
    "receive": "print('waits'); rtmw.Subscriber('a').receive()",
    "receive without a spin": "print('waits'); rtmw.Subscriber('a', spin=0).receive()",
    "iteration": "print('waits'); list(rtmw.Subscriber('a'))",
    "wait set": "print('waits'); rtmw.WaitSet(rtmw.Subscriber('a'), rtmw.Subscriber('b')).wait()",
    "listener": """
        listener = rtmw.Subscriber('a').listen(print)
        print('waits'); input()
        """,
    "asyncio": """
        import asyncio
        async def main():
            subscriber = rtmw.Subscriber('a')
            print('waits')
            async for sample in subscriber:
                pass
        asyncio.run(main())
        """,
    "select": """
        import select
        subscriber = rtmw.Subscriber('a')
        print('waits')
        select.select([subscriber], [], [])
        """,
    "publish": """
        publisher = rtmw.Publisher('a', reliability=rtmw.Reliability.RELIABLE, max_blocking=None)
        while publisher.publish(b'fill', priority=0):
            print('waits') if publisher.stats().published == 4 else None
        """,
    "publish without memory": """
        publisher = rtmw.Publisher('b', reliability=rtmw.Reliability.RELIABLE, max_blocking=None)
        loans = [publisher.loan(1_000_000)]
        print('waits')
        publisher.publish(bytes(1_500_000))
        """,
}


@pytest.mark.parametrize("wait", WAITS)
# Proves G18.
def test_a_process_killed_in_the_middle_of_a_wait_leaves_nothing_and_nobody_hanging(
    wait: str, domain: rtmw.Domain, spawn: Spawn
) -> None:
    full = rtmw.Subscriber("a", domain=domain, reliability=Reliability.RELIABLE, depth=4)
    survivor = spawn("import rtmw; s = rtmw.Subscriber('a'); print('waits'); print(s.receive(20.0).value)")
    assert survivor.line() == "waits"
    victim = spawn("import rtmw\n" + textwrap.dedent(WAITS[wait]))
    assert victim.line() == "waits"
    wait_until_asleep(victim)
    if wait == "publish":
        assert survivor.line() == repr(b"fill")
    victim.kill()
    for sample in full.take_many(100):
        sample.release()
    with rtmw.Publisher("a", domain=domain, reliability=Reliability.RELIABLE, max_blocking=PATIENCE) as publisher:
        assert publisher.publish(b"news")
        assert full.receive(PATIENCE).value == b"news"
        if wait != "publish":
            assert survivor.line() == repr(b"news")
    assert survivor.wait() == 0
    full.close()


RELIABLE_SUBSCRIBER = """
    import rtmw
    subscriber = rtmw.Subscriber("a", reliability=rtmw.Reliability.RELIABLE, depth=4)
    print("ready"); input()
"""


def test_a_killed_reliable_subscriber_stops_counting_at_once(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(RELIABLE_SUBSCRIBER)
    assert child.line() == "ready"
    with rtmw.Publisher("a", domain=domain, reliability=Reliability.RELIABLE, max_blocking=PATIENCE) as publisher:
        assert publisher.publish_many([b"x"] * 4) == 4
        child.kill()
        begin = time.monotonic()
        assert publisher.publish(b"goes on")
        assert publisher.publish_many([b"x"] * 100) == 100
        assert time.monotonic() - begin < PATIENCE / 2
        assert publisher.stats().timed_out == 0


# Proves G20.
def test_a_publisher_that_waits_for_a_reliable_subscriber_goes_on_when_that_is_killed(
    domain: rtmw.Domain, spawn: Spawn
) -> None:
    child = spawn(RELIABLE_SUBSCRIBER)
    assert child.line() == "ready"
    with rtmw.Publisher("a", domain=domain, reliability=Reliability.RELIABLE, max_blocking=PATIENCE) as publisher:
        assert publisher.publish_many([b"x"] * 4) == 4
        said: list[bool] = []
        waiter = threading.Thread(target=lambda: said.append(publisher.publish(b"waits")))
        waiter.start()
        time.sleep(0.1)
        assert said == []
        child.kill()
        waiter.join(PATIENCE / 2)
        assert said == [True]


def publish_loan(publisher: rtmw.Publisher[bytes], priority: int) -> bool:
    with publisher.loan(1, priority=priority) as loan:
        return loan.publish()


def publish_copy(publisher: rtmw.Publisher[bytes], priority: int) -> bool:
    return publisher.publish(b"x", priority=priority)


@pytest.mark.parametrize("publish", [publish_copy, publish_loan])
@pytest.mark.parametrize("priority", [0, 7])
# Proves G21.
def test_a_publisher_that_only_tries_goes_on_when_reliable_subscribers_are_killed(
    publish: Callable[[rtmw.Publisher[bytes], int], bool], priority: int, domain: rtmw.Domain, spawn: Spawn
) -> None:
    children = [spawn(RELIABLE_SUBSCRIBER) for _ in range(3)]
    assert [child.line() for child in children] == ["ready"] * 3
    with rtmw.Publisher("a", domain=domain, reliability=Reliability.RELIABLE, max_blocking=0) as publisher:
        while publish(publisher, priority):
            pass
        for child in children:
            child.kill()
        assert any(publish(publisher, priority) for _ in children), "each try may find one of them"
        assert publisher.subscribers == 0


def test_processes_killed_at_any_instruction_harm_nobody(domain: rtmw.Domain, spawn: Spawn) -> None:
    crowd, choice = Crowd(spawn), random.Random(2)
    for _ in range(6):
        crowd.start()
    with rtmw.Publisher(TOPICS[0], domain=domain) as publisher, rtmw.Subscriber(TOPICS[0], domain=domain) as subscriber:
        for kill in range(KILLS):
            time.sleep(choice.random() * 0.05)
            crowd.kill(choice.choice(crowd.pids))
            mine = message(8)
            until = time.monotonic() + PATIENCE
            while not publisher.publish(mine, priority=7):
                assert time.monotonic() < until, "the pool was never free again"
            while subscriber.receive(PATIENCE).data != mine:
                assert time.monotonic() < until, "the message never came"
            crowd.start()
            if kill % 5 == 0:
                assert observe.examine(domain, fix=True).problems == ()
    crowd.end()
    assert_usable(domain)
