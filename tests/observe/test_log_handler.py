"""LogHandler: each record of `logging` is a line on a topic, and nothing of that waits or raises into the program."""

from __future__ import annotations

import asyncio
import logging
import logging.config
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import rtmw
from tests.bus import LONG
from tests.child import Spawn

pytestmark = pytest.mark.usefixtures("domain")

Lines = rtmw.Subscriber[rtmw.LogLine]


@contextmanager
def logger(handler: logging.Handler, name: str = "plant.valve") -> Iterator[logging.Logger]:
    """A logger that has this handler alone."""
    made = logging.Logger(name)
    made.addHandler(handler)
    try:
        yield made
    finally:
        handler.close()


@pytest.fixture
def lines() -> Iterator[Lines]:
    with rtmw.Subscriber("log/pump", rtmw.LogLine, depth=1024) as subscriber:
        yield subscriber


def next_line(lines: Lines) -> rtmw.LogLine:
    return lines.receive(LONG).value


# Proves G388.
def test_a_record_is_a_line_with_its_members(lines: Lines) -> None:
    with logger(rtmw.LogHandler("log/pump")) as log:
        log.warning("valve %d sticks", 7)
    line = next_line(lines)
    assert (line.level, line.level_name, line.logger, line.message) == (30, "WARNING", "plant.valve", "valve 7 sticks")
    assert (line.exception, line.pid, line.file, line.dropped) == ("", os.getpid(), __file__, 0)
    assert line.program
    assert line.line > 0
    assert line.time > 1.7e9


def test_a_line_has_the_traceback_of_an_exception_and_the_stack_that_is_asked_for(lines: Lines) -> None:
    with logger(rtmw.LogHandler("log/pump")) as log:
        try:
            raise ValueError("stuck")
        except ValueError:
            log.exception("cannot", stack_info=True)
    told = next_line(lines).exception
    assert told.startswith("Traceback")
    assert "ValueError: stuck" in told
    assert "Stack (most recent call last)" in told


class Mute:
    """A value without a text."""

    def __str__(self) -> str:
        raise ZeroDivisionError("no text")

    __repr__ = __str__


class MuteError(Exception):
    __str__ = Mute.__str__


@pytest.mark.parametrize(
    ("message", "arguments", "shown"),
    [
        ("%d and %d", (1,), "%d and %d (with arguments that do not fit: TypeError)"),
        ("%d", ("x",), "%d (with arguments that do not fit: TypeError)"),
        ("%s", (Mute(),), "%s (with arguments that do not fit: ZeroDivisionError)"),
        (Mute(), (), "Mute (with arguments that do not fit: ZeroDivisionError)"),
    ],
)
# Proves G388.
def test_a_record_whose_message_cannot_be_made_is_a_line_that_says_so(
    lines: Lines, message: object, arguments: tuple[object, ...], shown: str
) -> None:
    handler = rtmw.LogHandler("log/pump")
    with logger(handler) as log:
        log.error(message, *arguments)
        assert (handler.stats().misfits, handler.stats().dropped) == (1, 0)
    assert next_line(lines).message == shown


def test_an_exception_that_has_no_text_raises_nothing_into_the_program(lines: Lines) -> None:
    with logger(rtmw.LogHandler("log/pump")) as log:
        log.error("cannot", exc_info=MuteError())
    assert "MuteError" in next_line(lines).exception


# Proves G388.
def test_a_line_is_bounded_and_can_travel_whatever_its_texts_are(lines: Lines) -> None:
    with logger(rtmw.LogHandler("log/pump"), "n" * 1000) as log:
        log.error("a" * 100_000, exc_info=ValueError("b" * 100_000 + "end"))
        log.error("\ud800 \0 é")
    line = next_line(lines)
    assert (len(line.logger), len(line.message), len(line.exception)) == (256, 8192, 32768)
    assert line.message.endswith(" … (100000 characters)")
    assert line.exception.endswith("end")
    assert next_line(lines).message == "? ? é"


# Proves G388.
def test_what_finds_no_room_is_dropped_at_once_and_the_next_line_says_how_many() -> None:
    reliable = rtmw.Reliability.RELIABLE
    handler = rtmw.LogHandler("log/pump", reliability=reliable, history=0)
    with rtmw.Subscriber("log/pump", rtmw.LogLine, reliability=reliable, depth=2) as slow, logger(handler) as log:
        for number in range(10):
            log.info("%d", number)
        dropped = handler.stats().dropped
        assert (handler.stats().published, dropped) == (10 - dropped, dropped)
        assert dropped >= 7
        assert handler.stats().why == "a RELIABLE subscriber's queue has no room"
        while slow.take() is not None:
            continue
        log.info("now")
        log.info("then")
        assert [(line.message, line.dropped) for line in (next_line(slow), next_line(slow))] == [
            ("now", dropped),
            ("then", 0),
        ]


def test_where_the_pool_is_full_the_reason_is_memory_and_no_subscriber(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("filler"), rtmw.Subscriber("filler")
    samples = list[rtmw.Sample[bytes]]()
    for size in (1 << 20, 1 << 12, 1 << 7):
        while publisher.publish(bytes(size)):
            samples.append(subscriber.receive(LONG))
    reliable = rtmw.Reliability.RELIABLE
    handler = rtmw.LogHandler("log/pump", reliability=reliable, history=0, depth=1)
    with logger(handler) as log:
        for _ in range(100):  # what the last free blocks take first
            log.info("x" * 8000)
        assert handler.stats().why.startswith("no memory could be had: the pool is full")
        samples.clear()
        with rtmw.Subscriber("log/pump", rtmw.LogLine, reliability=reliable, depth=1):
            log.info("fits")
            log.info("does not")
        assert handler.stats().why == "a RELIABLE subscriber's queue has no room"


# Proves G388.
def test_what_rtmw_logs_while_a_line_is_made_is_dropped_and_what_others_log_is_not(lines: Lines) -> None:
    class Talks:
        def __init__(self, name: str) -> None:
            self.name = name

        def __str__(self) -> str:
            with_it = logging.Logger(self.name)
            with_it.addHandler(handler)
            with_it.info("within")
            return "talks"

    handler = rtmw.LogHandler("log/pump")
    with logger(handler) as log:
        log.info("%s", Talks("rtmw.requests"))
        log.info("%s", Talks("plant"))
        assert handler.stats().dropped == 1
    assert [next_line(lines).message for _ in range(3)] == ["talks", "within", "talks"]


def test_an_error_that_is_told_for_ever_ends(lines: Lines) -> None:
    class Endless:
        def __str__(self) -> str:
            log.info("%s", self)
            return "ends"

    handler = rtmw.LogHandler("log/pump", history=0)
    with logger(handler) as log:
        log.info("%s", Endless())
        stats = handler.stats()
    assert stats.published > 0
    assert stats.dropped + stats.misfits > 0
    assert next_line(lines).message.startswith(("ends", "%s (with arguments that do not fit: RecursionError)"))


# Proves G388.
def test_a_closed_handler_counts_what_it_drops() -> None:
    handler = rtmw.LogHandler("log/pump")
    with logger(handler) as log:
        handler.close()
        handler.close()
        log.info("late")
    assert handler.stats() == rtmw.LogHandlerStats(0, 1, 0, handler.stats().why)
    assert "ClosedError" in handler.stats().why


def test_a_handler_outlives_the_domain_that_its_program_closes(lines: Lines, domain_id: int) -> None:
    with rtmw.Domain(domain_id) as domain:
        handler = rtmw.LogHandler("log/pump", domain=domain)
    with logger(handler) as log:
        log.info("end")
    assert next_line(lines).message == "end"


def test_a_handler_whose_process_was_taken_for_dead_attaches_anew(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = rtmw.LogHandler("log/pump")
    with logger(handler) as log:
        assert handler._domain is not None
        handler._domain.close()  # it is as little usable
        log.info("again")
        assert handler.stats().published == 1
        handler._domain.close()
        log.info("not before a second is over")
        assert handler.stats().dropped == 1
        monkeypatch.setattr(handler, "_retry_s", 0.0)
        log.info("and again")
    assert [(line.message, line.dropped) for line in (next_line(lines), next_line(lines))] == [
        ("again", 0),
        ("and again", 1),
    ]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: rtmw.LogHandler("a*"), rtmw.TopicNameError),
        (lambda: rtmw.LogHandler("a", priority=9), ValueError),
        (lambda: rtmw.LogHandler("a", level="LOUD"), ValueError),
        (lambda: rtmw.LogHandler("a", domain=999), ValueError),
    ],
)
def test_what_cannot_be_a_handler_is_refused_when_it_is_made(
    make: Callable[[], rtmw.LogHandler], error: type[Exception]
) -> None:
    with pytest.raises(error):
        make()


def test_dictconfig_makes_a_handler(lines: Lines) -> None:
    bus = {"class": "rtmw.LogHandler", "topic": "log/pump", "level": "INFO", "history": 8}
    of_test = {"handlers": ["bus"], "level": "DEBUG", "propagate": False}
    logging.config.dictConfig(
        {"version": 1, "disable_existing_loggers": False, "handlers": {"bus": bus}, "loggers": {"of.test": of_test}}
    )
    log = logging.getLogger("of.test")
    try:
        log.debug("not this")
        log.info("this")
        assert next_line(lines).message == "this"
    finally:
        handler = log.handlers.pop()
        handler.close()


def test_threads_and_tasks_log_at_once_and_each_line_comes_in_the_order_of_its_caller(lines: Lines) -> None:
    def in_thread(name: str) -> None:
        for number in range(50):
            log.info("%s %d", name, number)

    async def in_tasks() -> None:
        async def task(name: str) -> None:
            for number in range(50):
                log.info("%s %d", name, number)
                await asyncio.sleep(0)

        await asyncio.gather(*map(task, "cd"))

    with logger(rtmw.LogHandler("log/pump", history=0)) as log:
        threads = [threading.Thread(target=in_thread, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        asyncio.run(in_tasks())
        for thread in threads:
            thread.join()
    found = [next_line(lines).message for _ in range(200)]
    for name in "abcd":
        assert [one for one in found if one[0] == name] == [f"{name} {number}" for number in range(50)]


# Proves G388.
def test_a_child_of_fork_logs_as_itself(lines: Lines, spawn: Spawn) -> None:
    child = spawn(
        """
        import logging, os
        import rtmw

        logging.basicConfig(handlers=[rtmw.LogHandler("log/pump")])
        logging.warning("parent")
        if not (pid := os.fork()):
            logging.warning("child")
            logging.shutdown()
            os._exit(0)
        os.waitpid(pid, 0)
        logging.warning("again")
        print(pid, flush=True)
        """
    )
    pid = int(child.line())
    found = [next_line(lines) for _ in range(3)]
    assert [(line.message, line.pid) for line in found] == [
        ("parent", child.pid),
        ("child", pid),
        ("again", child.pid),
    ]


# Proves G388.
def test_a_handler_of_a_signal_may_log_while_a_child_of_fork_attaches(lines: Lines, spawn: Spawn) -> None:
    child = spawn(
        """
        import logging, os, signal
        import rtmw
        from rtmw import shm

        def attach(*given):
            shm.Region = region
            signal.raise_signal(signal.SIGUSR1)
            return region(*given)

        logging.basicConfig(handlers=[rtmw.LogHandler("log/pump")])
        signal.signal(signal.SIGUSR1, lambda *_: logging.warning("meanwhile"))
        region = shm.Region
        if not (pid := os.fork()):
            shm.Region = attach
            rtmw.Domain().close()
            logging.warning("behind it")
            logging.shutdown()
            os._exit(0)
        os.waitpid(pid, 0)
        """
    )
    assert [next_line(lines).message for _ in range(2)] == ["meanwhile", "behind it"]
    assert child.wait(LONG) == 0


# Proves G388.
def test_a_child_of_fork_tells_nothing_of_what_its_parent_has_dropped(lines: Lines, spawn: Spawn) -> None:
    child = spawn(
        """
        import logging, os, threading
        import rtmw

        handler = rtmw.LogHandler("log/pump")
        logging.basicConfig(handlers=[handler])
        handler._dropped = handler._untold = 3

        class Slow:
            def __str__(self):
                begun.set()
                ends.wait()
                return "slow"

        begun, ends = threading.Event(), threading.Event()
        slow = threading.Thread(target=logging.warning, args=("%s", Slow()))
        slow.start()
        begun.wait()
        if not (pid := os.fork()):
            logging.getLogger("rtmw").warning("child")
            logging.warning("more")
            logging.shutdown()
            os._exit(0)
        os.waitpid(pid, 0)
        ends.set()
        slow.join()
        """
    )
    assert child.wait(LONG) == 0
    found = [next_line(lines) for _ in range(3)]
    assert [(line.message, line.dropped) for line in found] == [("child", 0), ("more", 0), ("slow", 3)]


# Proves G388.
def test_lines_of_the_end_of_a_program_come_and_it_ends_in_order(
    lines: Lines, spawn: Spawn, domain: rtmw.Domain
) -> None:
    child = spawn(
        """
        import atexit
        import logging

        atexit.register(logging.warning, "last")
        import rtmw

        rtmw.Publisher("other").publish(b"x")
        logging.basicConfig(handlers=[rtmw.LogHandler("log/pump")])
        input()
        raise SystemExit
        """
    )
    child.send()
    assert child.wait(LONG) == 0
    assert child.stderr == ""
    assert next_line(lines).message == "last"
    assert child.pid not in domain.region.names()


def test_lines_are_recorded_and_flow_again_like_any_topic(tmp_path: Path, lines: Lines) -> None:
    with logger(rtmw.LogHandler("log/plant")) as log, rtmw.Recorder("*", tmp_path / "run"):
        log.error("broken")
    with rtmw.Replay(tmp_path / "run", remap={"log/plant": "log/pump"}) as replay:
        replay.run()
    assert next_line(lines).message == "broken"
