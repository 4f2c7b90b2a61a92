"""How many messages a second go one way? 64 bytes, one process sends flat out for a fixed time, one polls and reads.

Nothing may be lost where the system has a setting for that, and the sender waits instead; elsewhere the loss is stated.
The rate is of what arrived: the median over windows of 10 ms, so that a process that is preempted for a moment does not
count. `one call a message`: publish, and take, one by one. `many`: publish_many and take_many, 100 at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from bench.cases import RTMW, Case, Figures
from bench.peers import ALL, STAMP, Channel, peer
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "64 B one way"
UNIT = "M messages/s"
BATCH = 100
WINDOW = int(0.01e9)
"""Nanoseconds over which a rate is taken."""
SIZE = 64
HELLO, FLOW = 1, 0
MEET = 10.0
SILENCE = int(0.4e9)
"""Nanoseconds without a message after which the flow is over."""

clock = time.monotonic_ns
"""The same clock in both processes."""


def cases(quick: bool) -> Sequence[Case]:
    seconds = {"seconds": 0.3 if quick else 0.4}
    return [
        Case("one call a message", ALL, {**seconds, "many": False}),
        Case("many", (RTMW,), {**seconds, "many": True}),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    parts = [Part(name, case.options, cpu) for name, cpu in zip(("source", "sink"), stage.processors, strict=True)]
    sent, (seen, rates) = stage.play("one_way", system, parts)
    lost = sent - seen
    note = f"{100 * lost / sent:.1f} % lost" if lost else ""
    return {system: Figures(median(rates) if rates else 0.0, note=note)}


def body(stamp: int, size: int = SIZE) -> bytes:
    return STAMP.pack(stamp) + bytes(size - STAMP.size)


def channel(role: Role, listens: bool, size: int = SIZE) -> Channel:
    return Channel(role.name, size, role.place, role.domain, listens, reliable=True)


def source(role: Role) -> int:
    """How many were sent."""
    size = role.options.get("size", SIZE)
    sender = peer(role.peer).sender(channel(role, listens=True, size=size))
    role.pin()
    role.tell("open")
    while role.hear() != "found":
        sender.send(body(HELLO, size))
        role.tell("hello")
    end = clock() + int(role.options["seconds"] * 1e9)
    if role.options["many"]:
        assert sender.send_many is not None
        sent = send_many(sender.send_many, [body(FLOW, size)] * BATCH, end)
    else:
        sent = send_each(sender.send, body(FLOW, size), end)
    role.hear()  # what is still on its way would be lost if this process ended
    return sent


def send_each(send: Callable[[Any], object], message: bytes, end: int) -> int:
    sent = 0
    while clock() < end:
        for _ in range(BATCH):
            send(message)
        sent += BATCH
    return sent


def send_many(send: Callable[[list[bytes]], object], messages: list[bytes], end: int) -> int:
    sent = 0
    while clock() < end:
        send(messages)
        sent += BATCH
    return sent


def sink(role: Role) -> tuple[int, list[float]]:
    """How many arrived, and millions a second by window."""
    role.hear()
    receiver = peer(role.peer).receiver(channel(role, listens=False, size=role.options.get("size", SIZE)))
    role.pin()
    take, read = receiver.take, receiver.read
    greeted(role, take)
    role.tell("found")
    if role.options["many"]:
        assert receiver.take_many is not None
        seen, marks = drain_many(receiver.take_many, read)
    else:
        seen, marks = drain_each(take, read)
    role.tell("over")
    return seen, rates(marks)


def rates(marks: list[int]) -> list[float]:
    """Millions a second in windows of WINDOW; there is a mark after each BATCH messages."""
    found: list[float] = []
    first = 0
    for at, mark in enumerate(marks):
        if mark - marks[first] >= WINDOW:
            found.append((at - first) * BATCH * 1000 / (mark - marks[first]))
            first = at
    return found


def greeted(role: Role, take: Callable[[], Any]) -> None:
    """Ask for greetings until one arrives, then until it is quiet."""
    end = time.monotonic() + MEET
    while True:
        role.tell("greet")
        role.hear()
        until = clock() + int(0.05e9)
        while clock() < until:
            if take() is not None:
                while clock() < until:
                    take()
                return
        if time.monotonic() > end:
            raise RuntimeError(f"nothing arrived within {MEET:.0f} s")


def drain_each(take: Callable[[], Any], read: Callable[[Any], object]) -> tuple[int, list[int]]:
    """How many arrived until it was silent, and the clock after each BATCH of them."""
    marks: list[int] = []
    while True:
        for seen in range(BATCH):
            if (message := take()) is None and (message := awaited(take)) is None:
                return len(marks) * BATCH + seen, marks
            read(message)
        marks.append(clock())


def drain_many(take_many: Callable[[int], list[Any]], read: Callable[[Any], object]) -> tuple[int, list[int]]:
    """The same with many at a time; a mark is due when at least BATCH more have come."""
    seen, marks = 0, list[int]()
    while True:
        messages = take_many(BATCH) or awaited(lambda: take_many(BATCH) or None)
        if messages is None:
            return seen, marks
        for message in messages:
            read(message)
        seen += len(messages)
        while len(marks) < seen // BATCH:
            marks.append(clock())


def awaited(take: Callable[[], Any]) -> Any:
    """What comes next; None after SILENCE without anything."""
    since = clock()
    while (message := take()) is None:
        if clock() - since > SILENCE:
            return None
    return message
