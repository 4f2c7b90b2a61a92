"""Who only looks on takes no place in the domain, and can write nothing."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

import pytest

import rtmw
from rtmw import observe, shm
from tests import warm
from tests.books import assert_whole
from tests.child import Spawn

PLACES = 127


@pytest.fixture
def full(domain: rtmw.Domain) -> Iterator[rtmw.Domain]:
    """A domain without a free place, with a message that is held and one that is not yet taken."""
    with (
        rtmw.Publisher("pump/speed", domain=domain, history=2) as publisher,
        rtmw.Subscriber("pump/speed", domain=domain) as subscriber,
    ):
        publisher.publish(b"first")
        sample = subscriber.receive(10)
        publisher.publish(b"second" * 100)
        others = [shm.Region(domain.id) for _ in range(PLACES - 1)]
        yield domain
        sample.release()
        del others


COMMANDS = (
    ("topic", "list"),
    ("topic", "info", "pump/speed"),
    ("topic", "hz", "--count", "1", "--window", "0.1"),
    ("topic", "bw", "--count", "1", "--window", "0.1"),
    ("topic", "delay", "pump/speed", "--count", "1", "--window", "0.1"),
    ("topic", "queue", "pump/speed"),
    ("top", "--once", "--window", "0.1"),
    ("graph",),
    ("doctor",),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
# Proves G111.
def test_commands_that_look_on_work_in_a_domain_without_a_free_place(
    command: tuple[str, ...], full: rtmw.Domain
) -> None:
    done = warm.run(*command)
    assert (done.returncode, done.stderr) == (0, "")
    if command != ("doctor",):
        assert "pump/speed" in done.stdout or command[1:2] == ("delay",)
    else:
        assert f"{PLACES} participants" in done.stdout
        assert "The books balance." in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ("topic", "echo", "pump/speed", "--history", "1", "--count", "1", "--timeout", "20"),
        ("topic", "echo", "pump/speed", "--wait", "--history", "1", "--count", "1", "--timeout", "20"),
        ("trace", "pump/speed", "--for", "0.1"),
        ("doctor", "--fix"),
    ],
    ids=" ".join,
)
# Proves G110.
def test_commands_for_which_looking_is_not_enough_work_without_a_free_place_too(
    command: tuple[str, ...], full: rtmw.Domain
) -> None:
    done = warm.run(*command)
    assert (done.returncode, done.stderr) == (0, "")
    assert "secondsecond" in done.stdout or command[1] != "echo"
    assert len(observe.examine(full).participants) == PLACES


# Proves G110.
def test_a_tool_in_the_last_place_lets_nobody_else_in_and_cleans_up_for_those_who_come_later(
    domain: rtmw.Domain, spawn: Spawn
) -> None:
    child = spawn("import rtmw; kept = rtmw.Subscriber('pump/speed'); print(); input()")
    child.line()
    others = [shm.Region(domain.id) for _ in range(PLACES - 2)]
    tool = shm.Region(domain.id, False, True)
    for is_tool in (False, True):
        with pytest.raises(rtmw.LimitReached):
            shm.Region(domain.id, False, is_tool)
    (uses,) = (table for table in observe.tables(domain, observe.examine(domain)) if table.name == "participants")
    assert (uses.used, uses.size) == (PLACES, PLACES)
    child.kill()
    until, later = time.monotonic() + 20, None
    while later is None:
        assert time.monotonic() < until
        tool.sweep_from_last_slot()
        with contextlib.suppress(rtmw.LimitReached):
            later = shm.Region(domain.id)
    assert child.pid not in {view.pid for view in observe.examine(domain).participants}
    del tool, later, others


def test_a_program_that_finds_no_place_is_told_what_needs_none(full: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        """
        import os, rtmw
        number = int(os.environ["RTMW_DOMAIN"])
        try:
            rtmw.Domain(number)
        except rtmw.LimitReached as error:
            print(error)
        print(rtmw.Domain(number, observe=True).pool)
        """
    )
    assert f"rtmw.Domain({full.id}, observe=True)" in child.line()
    assert int(child.line()) == full.pool


def test_clean_sees_who_lives_in_a_domain_without_a_free_place(full: rtmw.Domain) -> None:
    done = warm.run("clean", "--yes")
    assert done.returncode != 0
    assert f"(pid {os.getpid()})" in done.stderr
    assert full.id in shm.domains()


ALL_VIEWS = """
    import os, sys
    import rtmw
    from rtmw import observe
    domain = rtmw.Domain(int(os.environ["RTMW_DOMAIN"]), observe=True)
    topic, = observe.topics(domain)
    books = observe.examine(domain)
    queued = observe.queue(domain, "pump/speed")
    (reader,) = topic.subscribers
    print(topic.published, reader.received, len(books.participants), books.problems)
    print([(m.sequence, m.preview[:12], m.to_be_sent) for m in queued])
    print(queued[0].holders == (int(sys.stdin.readline()),))
    def told(use):
        try:
            return repr(use())
        except rtmw.DomainError as error:
            return "told" if "observe=True" in str(error) else str(error)
    print(*(told(use) for use in (
        lambda: rtmw.Publisher("pump/speed", domain=domain),
        lambda: rtmw.Subscriber("pump/speed", domain=domain),
        lambda: observe.examine(domain, fix=True),
        lambda: observe.Trace(domain, ["pump/speed"]),
        lambda: domain.lock_memory(),
        lambda: domain.region.sweep(),
        lambda: domain.region.fileno(),
    )))
    with rtmw.Publisher("other") as publisher:
        print(publisher.publish(b"takes part beside"), len(observe.examine(domain).participants))
"""


# Proves G111.
def test_who_looks_on_sees_all_and_is_told_that_it_may_not_change_anything(domain: rtmw.Domain, spawn: Spawn) -> None:
    with (
        rtmw.Publisher("pump/speed", domain=domain) as publisher,
        rtmw.Subscriber("pump/speed", domain=domain) as subscriber,
    ):
        publisher.publish(b"first")
        sample = subscriber.receive(10)
        publisher.publish(b"second" * 100)
        child = spawn(ALL_VIEWS)
        child.send(str(os.getpid()))
        assert child.line() == "2 1 1 ()"
        assert child.line() == "[(1, b'first', False), (2, b'secondsecond', True)]"
        assert child.line() == "True"
        assert child.line() == " ".join(["told"] * 7)
        assert child.line() == "True 2"
        assert child.wait() == 0
        sample.release()
    assert_whole(domain)


def test_a_process_that_takes_part_looks_on_through_that(domain: rtmw.Domain) -> None:
    with rtmw.Domain(domain.id, observe=True) as looking, rtmw.Publisher("t", domain=looking) as publisher:
        assert publisher.publish(b"x")
        assert len(observe.examine(looking).participants) == 1


def test_a_domain_that_nobody_created_cannot_be_looked_at(domain_id: int) -> None:
    with pytest.raises(rtmw.DomainNotFound):
        rtmw.Domain(domain_id, observe=True)
    assert domain_id not in shm.domains()


def test_a_queue_is_read_whole_while_messages_come_and_go(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        """
        import os, rtmw, threading
        publisher = rtmw.Publisher("t", depth=16, reliability=rtmw.Reliability.TIMELY)
        sizes = (8, 100, 700, 5000)
        print("in", flush=True)
        number = 0
        while os.getppid() > 1:
            number += 1
            publisher.publish(number.to_bytes(8, "little") * (sizes[number % 4] // 8))
        """
    )
    assert child.line() == "in"
    seen = 0
    while seen < 20_000:
        messages = observe.queue(domain, "t")
        seen += len(messages)
        numbers = [int.from_bytes(message.preview[:8], "little") for message in messages]
        assert numbers == sorted(set(numbers))
        assert [message.sequence for message in messages] == numbers
        for message, number in zip(messages, numbers, strict=True):
            assert message.size == (8, 100, 700, 5000)[number % 4] // 8 * 8
            assert message.preview == (number.to_bytes(8, "little") * 8)[: min(64, message.size)]
    child.kill()
