"""Half round trips between two processes: `near` sends and waits for what `far` sends back.

Both go through batches of round trips. Before each, one exchange of a control stamp says whether there is another one,
so that the loops that are timed hold nothing but the calls themselves, and one look at the clock a round trip: some
20 ns of what is shown, with every system alike. Stamps of the batches are 0.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.numbers import spread
from bench.peers import STAMP, Channel, Receiver, Sender, peer
from bench.role import Role

HELLO, START, MORE, STOP = 1, 2, 3, 4
MEET = 10.0
"""Seconds in which two processes have to find each other."""
QUIET = 0.2
"""Seconds of silence after which nothing of the greeting is on its way any more."""

clock = time.perf_counter_ns

Send = Callable[[Any], object]
Get = Callable[[], Any]
Read = Callable[[Any], object]


def ping_poll(send: Send, body: Any, take: Get, read: Read, count: int) -> list[float]:
    times: list[float] = []
    last = clock()
    for _ in range(count):
        send(body)
        while (message := take()) is None:
            pass
        read(message)
        now = clock()
        times.append((now - last) / 2000)
        last = now
    return times


def ping_wait(send: Send, body: Any, receive: Get, read: Read, count: int) -> list[float]:
    times: list[float] = []
    last = clock()
    for _ in range(count):
        send(body)
        read(receive())
        now = clock()
        times.append((now - last) / 2000)
        last = now
    return times


def pong_poll(send: Send, body: Any, take: Get, read: Read, count: int) -> None:
    for _ in range(count):
        while (message := take()) is None:
            pass
        read(message)
        send(body)


def pong_wait(send: Send, body: Any, receive: Get, read: Read, count: int) -> None:
    for _ in range(count):
        read(receive())
        send(body)


@dataclass(frozen=True)
class Line:
    """One side's two directions."""

    out: Sender
    back: Receiver
    size: int
    loans: bool
    waits: bool
    whole: bool

    def body(self, stamp: int) -> Any:
        return stamp if self.loans else STAMP.pack(stamp) + bytes(self.size - STAMP.size)

    @property
    def send(self) -> Callable[[Any], object]:
        return self.out.loan if self.loans and self.out.loan is not None else self.out.send

    @property
    def read(self) -> Read:
        """The stamp; or the whole message, copied out."""
        copy = self.back.copy
        if not self.whole or copy is None:
            return self.back.read
        to = memoryview(bytearray(self.size))
        return lambda message: copy(message, to)

    def say(self, stamp: int) -> None:
        self.send(self.body(stamp))

    def hear(self, seconds: float) -> int | None:
        """The stamp of the next message; None if none comes in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(100):
                if (message := self.back.take()) is not None:
                    return self.back.read(message)[0]
            os.sched_yield()  # the other one may have to run on this processor
        return None

    def expect(self, *stamps: int) -> int:
        heard = self.hear(MEET)
        if heard not in stamps:
            raise RuntimeError(f"expected {stamps} from the other process within {MEET:.0f} s, and heard {heard}")
        return heard


def open_line(role: Role, near: bool) -> Line:
    """Pinned before it is opened if it will sleep: all threads of a process on its processor. A process that polls is
    pinned when it is open, so that threads that its system has started may run wherever there is room.
    """
    options = role.options
    if options.get("waits", False):
        role.pin()
    system = peer(role.peer)
    ends = [
        Channel(
            f"{role.name}{direction}",
            options["size"],
            role.place,
            role.domain,
            listens=near,
            reliable=options.get("reliable", False),
            waits=options.get("waits", False),
            spin=options.get("spin", 0.0),
        )
        for direction in ("out", "back")
    ]
    there, here = ends if near else reversed(ends)
    loans, whole = options.get("loans", False), options.get("whole", False)
    line = Line(system.sender(there), system.receiver(here), options["size"], loans, options.get("waits", False), whole)
    role.pin()
    return line


def greet(line: Line) -> None:
    """Until the other side has answered once, anything may be lost; then nothing."""
    end = time.monotonic() + MEET
    line.say(HELLO)
    while line.hear(0.05) is None:
        if time.monotonic() > end:
            raise RuntimeError(f"the two processes did not find each other within {MEET:.0f} s")
        line.say(HELLO)
    while line.hear(QUIET) is not None:
        pass
    line.say(START)
    line.expect(START)


def next_batch(line: Line) -> None:
    line.say(MORE)
    line.expect(MORE)


def close_line(line: Line) -> None:
    line.say(STOP)
    line.expect(STOP)


def met(line: Line) -> None:
    """The far side of `greet`."""
    while line.expect(HELLO, START) == HELLO:
        line.say(HELLO)
    line.say(START)


def follow(line: Line) -> bool:
    """The far side of `next_batch`, and of `close_line`: is there another batch?"""
    said = line.expect(MORE, STOP)
    line.say(said)
    return said == MORE


def near(role: Role) -> dict[str, float]:
    """Percentiles of half round trips, in µs."""
    line, count = open_line(role, near=True), role.options["batch"]
    greet(line)
    ping = ping_wait if line.waits else ping_poll
    arguments = (line.send, line.body(0), line.back.receive if line.waits else line.back.take, line.read)
    times: list[float] = []
    next_batch(line)
    ping(*arguments, count)  # warm-up
    end = time.monotonic() + role.options["seconds"]
    while not times or time.monotonic() < end:
        next_batch(line)
        times += ping(*arguments, count)
    close_line(line)
    role.tell("over")
    return spread(times)


def far(role: Role) -> None:
    line, count = open_line(role, near=False), role.options["batch"]
    run = pong_wait if line.waits else pong_poll
    arguments = (line.send, line.body(0), line.back.receive if line.waits else line.back.take, line.read)
    met(line)
    while follow(line):
        run(*arguments, count)
    role.hear()  # what is still on its way would be lost if this process ended
