"""Runs an operation in one process after another, and kills or stops each at the next atomic operation of the core.

`run` is called in a child of the test whose core was built with steps.c. What holds afterwards is checked after every
single step: others publish and take, nobody waits, the books balance, and everything has come back.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
from collections.abc import Callable

import rtmw
from rtmw import Reliability, observe
from rtmw.shm import _core

Operation = Callable[[], object]
PATIENCE = 10.0
POOL = "1M"
MOST = 60
"""Of a longer operation so many steps are tried, evenly spread."""


def publishing(size: int, reliability: Reliability, depth: int = 64, priority: int = 0) -> Callable[[], Operation]:
    def prepare() -> Operation:
        publisher = rtmw.Publisher("a", reliability=reliability, depth=depth)
        return lambda: publisher.publish(b"c" * size, priority=priority)

    return prepare


def dropping() -> Operation:
    publisher = rtmw.Publisher("a")
    loans = [publisher.loan(size) for size in (10, 700, 20_000)]
    return lambda: [loan.drop() for loan in loans]


def taking(reliability: Reliability) -> Callable[[], Operation]:
    def prepare() -> Operation:
        subscriber = rtmw.Subscriber("a", history=3, depth=2, reliability=reliability)
        kept: list[rtmw.Sample[bytes]] = []
        return lambda: (kept.extend(subscriber.take_many(2)), [sample.release() for sample in kept])

    return prepare


def first_of_a_topic() -> Operation:
    publisher = rtmw.Publisher(f"first/{os.getpid() % 128}")
    return lambda: publisher.publish(b"c")


def closing() -> Operation:
    subscriber, publisher = rtmw.Subscriber("a", history=2), rtmw.Publisher("a")
    subscriber.take()
    publisher.publish(b"c")
    return lambda: (subscriber.close(), publisher.close())


OPERATIONS: dict[str, Callable[[], Operation]] = {
    "publish in place": publishing(8, Reliability.ADAPTIVE),
    "publish granules": publishing(700, Reliability.ADAPTIVE),
    "publish pages": publishing(20_000, Reliability.ADAPTIVE),
    "publish and evict": publishing(300, Reliability.TIMELY, depth=1),
    "publish reliably": publishing(8, Reliability.RELIABLE),
    "publish to another band": publishing(8, Reliability.ADAPTIVE, priority=5),
    "publish the first of a topic": first_of_a_topic,
    "drop loans": dropping,
    "take and release": taking(Reliability.ADAPTIVE),
    "take the newest": taking(Reliability.TIMELY),
    "open a subscriber": lambda: lambda: rtmw.Subscriber("a", history=2),
    "open a publisher of a new topic": lambda: lambda: rtmw.Publisher(f"new/{os.getpid() % 64}"),
    "close": closing,
    "attach": lambda: lambda: rtmw.Domain(int(os.environ["RTMW_DOMAIN"])),
}


class Steps:
    """The counter of steps.c in this process."""

    def __init__(self) -> None:
        library = ctypes.CDLL(_core.__file__)
        self._taken = ctypes.c_long.in_dll(library, "rtmw_steps")
        self._last = ctypes.c_long.in_dll(library, "rtmw_last_step")
        self._signal = ctypes.c_int.in_dll(library, "rtmw_last_signal")

    def run(self, operation: Operation, last: int, number: int) -> int:
        """How many steps it took; the signal comes before step `last`, 0: never."""
        self._taken.value, self._last.value, self._signal.value = 0, last, number
        operation()
        self._last.value = 0
        return self._taken.value


def in_another_process(prepare: Callable[[], Operation], last: int, number: int) -> tuple[int, int]:
    """Its pid, and its status: killed, stopped, or ended. Without `last`, the status is the number of steps."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        taken = Steps().run(prepare(), last, number)
        os.write(writing, str(taken).encode())
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(pid, os.WUNTRACED)
    taken = int(os.read(reading, 20)) if last == 0 else 0
    os.close(reading)
    return pid, status if last else taken


class Witness:
    """Who goes on: publishes and takes on the same topic and band, and keeps the books."""

    def __init__(self, domain: rtmw.Domain) -> None:
        self.domain = domain
        self.publisher = rtmw.Publisher("a", domain=domain)
        self.subscriber = rtmw.Subscriber("a", domain=domain, depth=200)

    def goes_on(self) -> None:
        for _ in range(3):
            assert self.publisher.publish(b"mine"), "a publish was refused"
            while (data := bytes(self.subscriber.receive(PATIENCE).data)) != b"mine":
                assert set(data) == set(b"c"), f"a message was damaged: {data[:20]!r}"
        problems = observe.examine(self.domain).problems
        assert problems == (), problems[0]

    def finds_nothing_left(self) -> None:
        books = observe.examine(self.domain, fix=True)
        assert books.problems == (), books.problems[0]
        assert (books.descriptors_loaned, books.descriptors_held, len(books.participants)) == (0, 0, 1)
        assert books.descriptors_free + books.descriptors_queued == books.descriptors


def run(name: str, number: int) -> None:
    """Kill or stop at every step; prints how many steps there are and at how many the signal came."""
    prepare, reached = OPERATIONS[name], 0
    with rtmw.Domain(int(os.environ["RTMW_DOMAIN"]), pool=POOL) as domain:
        witness = Witness(domain)
        witness.goes_on()
        _, steps = in_another_process(prepare, 0, 0)
        for step in range(1, steps + 1, -(-steps // MOST)):
            pid, status = in_another_process(prepare, step, number)
            reached += not os.WIFEXITED(status)
            try:
                witness.goes_on()
                if os.WIFSTOPPED(status):
                    os.kill(pid, signal.SIGCONT)
                    _, status = os.waitpid(pid, 0)
                    assert status == 0, f"it did not go on: {status}"
                    witness.goes_on()
                witness.finds_nothing_left()
            except (AssertionError, TimeoutError) as error:
                os.kill(pid, signal.SIGKILL) if os.WIFSTOPPED(status) else None
                raise AssertionError(f"{name}, step {step} of {steps}: {error}") from error
    print(json.dumps([steps, reached]))
