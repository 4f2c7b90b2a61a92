"""fork after attach: the child is told, can make objects of its own, and never disturbs its parent."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

import rtmw
from tests.books import assert_whole, examine
from tests.child import Child, Spawn


@pytest.fixture
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """Whole again after each test."""
    with rtmw.Domain(domain_id, pool="1M", reserve=0) as attached:
        yield attached
        assert_whole(attached)


SETUP = """
    import json, multiprocessing, os, signal, sys
    import rtmw
    from rtmw import observe

    signal.alarm(60)
    number = int(os.environ["RTMW_DOMAIN"])
    domain = rtmw.Domain(number)
    publisher, subscriber = rtmw.Publisher("a", domain=domain), rtmw.Subscriber("a", domain=domain)
    reliable = rtmw.Publisher("r", domain=domain, reliability=rtmw.Reliability.RELIABLE)
    by_number = rtmw.Publisher("b", domain=number)
    publisher.publish(bytes(500)); publisher.publish(b"second"); publisher.publish(b"third")
    sample, loan = subscriber.receive(10.0), publisher.loan(700)

    def in_child(function):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(writing, json.dumps(function()).encode())
            except BaseException as error:
                os.write(writing, json.dumps(repr(error)).encode())
            finally:
                os._exit(0)
        os.close(writing)
        said = b""
        while chunk := os.read(reading, 65536):
            said += chunk
        os.waitpid(pid, 0)
        return json.loads(said)

    def parent_is_unharmed():
        assert subscriber.receive(10.0).value == b"second"
        assert sample.data == bytes(500)
        with loan.data as view:
            view[:] = b"L" * 700
        assert loan.publish() and publisher.publish(b"last") and by_number.publish(b"x") and reliable.publish(b"x")
        assert [s.value for s in subscriber.take_many(9)] == [b"third", b"L" * 700, b"last"]
        books = observe.examine(domain)
        (held,) = (view.held for view in books.participants if view.pid == os.getpid())
        return books.problems == () and held == 2  # the sample, and the last message by the cursor
"""


def parent(spawn: Spawn, source: str) -> Child:
    return spawn(SETUP + source)


def test_what_was_made_before_fork_says_so_in_the_child(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = parent(
        spawn,
        """
    def uses():
        told = {}
        for name, use in {
            "publish": lambda: publisher.publish(b"x"),
            "publish_many": lambda: publisher.publish_many([b"x"]),
            "publish reliably": lambda: reliable.publish(b"x"),
            "loan": lambda: publisher.loan(5),
            "publish a loan": lambda: loan.publish(),
            "take": lambda: subscriber.take(),
            "take_many": lambda: subscriber.take_many(2),
            "receive": lambda: subscriber.receive(0.1),
            "next": lambda: next(subscriber),
            "fileno": lambda: subscriber.fileno(),
            "wait set": lambda: rtmw.WaitSet(subscriber).wait(0.1),
            "publisher": lambda: rtmw.Publisher("a", domain=domain),
            "subscriber": lambda: rtmw.Subscriber("a", domain=domain),
            "examine": lambda: observe.examine(domain, fix=True),
            "topics": lambda: observe.topics(domain),
            "queue": lambda: observe.queue(domain, "a"),
        }.items():
            try:
                told[name] = repr(use())
            except rtmw.ForkedError as error:
                told[name] = "told" if "child" in str(error) and "its own" in str(error) else str(error)
            except BaseException as error:
                told[name] = repr(error)
        return told
    print(json.dumps(in_child(uses)))
    print(json.dumps(parent_is_unharmed()))
        """,
    )
    told = json.loads(child.line())
    assert told == dict.fromkeys(told, "told")
    assert child.line() == "true"
    assert child.wait() == 0


def test_a_forked_child_can_make_its_own_objects(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = parent(
        spawn,
        """
    def own():
        mine = rtmw.Domain(number)
        with rtmw.Subscriber("c", domain=number) as s, rtmw.Publisher("c", domain=mine) as p:
            pids = [view.pid for view in observe.examine(mine).participants]
            return [p.publish(b"own"), s.receive(10.0).value.decode(), os.getpid() in pids, os.getppid() in pids]
    print(json.dumps(in_child(own)))
    print(json.dumps(parent_is_unharmed()))
        """,
    )
    assert json.loads(child.line()) == [True, "own", True, True]
    assert child.line() == "true"
    assert child.wait() == 0


ENDINGS = {
    "it exits at once": "os._exit(0)",
    "it closes everything": "publisher.close(); subscriber.close(); domain.close(); os._exit(0)",
    "it drops everything": "del publisher, subscriber, reliable, by_number, sample, loan, domain; os._exit(0)",
    "it releases and drops": "sample.release(); loan.drop(); os._exit(0)",
    "it ends as a program does": "sys.exit(0)",
    "it is killed": "os.kill(os.getpid(), signal.SIGKILL)",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_end_of_a_forked_child_does_not_disturb_its_parent(ending: str, domain: rtmw.Domain, spawn: Spawn) -> None:
    child = parent(
        spawn,
        f"""
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            {ENDINGS[ending]}
        os.waitpid(pid, 0)
    print(json.dumps(parent_is_unharmed()))
        """,
    )
    assert child.line() == "true"
    assert child.wait() == 0


def test_multiprocessing_by_fork_attaches_anew_and_leaves_the_parent_alone(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = parent(
        spawn,
        """
    def job(name):
        with rtmw.Publisher(name, domain=number) as own:
            try:
                publisher.publish(b"inherited")
                return "published"
            except rtmw.ForkedError:
                return own.publish(b"from a pool")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map(job, ["m/1", "m/2", "m/3", "m/4"])
    print(json.dumps(results))
    print(json.dumps(parent_is_unharmed()))
        """,
    )
    assert json.loads(child.line()) == [True] * 4
    assert child.line() == "true"
    assert child.wait() == 0


def test_a_parent_that_dies_is_swept_though_its_forked_child_lives(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = parent(
        spawn,
        """
    pid = os.fork()
    if pid == 0:
        sys.stdin.close()
        signal.pause()
        os._exit(0)
    print(pid); input()
        """,
    )
    grandchild = int(child.line())
    try:
        assert child.pid in {view.pid for view in examine(domain).participants}
        child.kill()
        assert child.pid not in {view.pid for view in examine(domain).participants}
        assert_whole(domain)
    finally:
        os.kill(grandchild, signal.SIGKILL)
