"""How many messages a second go one way? 64 bytes, one process sends flat out for a fixed time, one polls and reads.

Nothing may be lost where the system has a setting for that, and the sender waits instead; elsewhere the loss is stated.
The rate is of what arrived, from the first call to the last arrival. `one call a message`: publish, and take, one by
one. `many`: publish_many and take_many, 100 at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.cases import RTMW, Case, Figures
from bench.peers import ALL, STAMP, Channel, peer
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "64 B one way"
UNIT = "M messages/s"
BATCH = 100
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
    (sent, began), (seen, ended) = stage.play("one_way", system, parts)
    lost = sent - seen
    note = f"{100 * lost / sent:.1f} % lost" if lost else ""
    return {system: Figures(seen * 1000 / (ended - began), note=note)}


def body(stamp: int) -> bytes:
    return STAMP.pack(stamp) + bytes(SIZE - STAMP.size)


def channel(role: Role, listens: bool) -> Channel:
    return Channel(role.name, SIZE, role.place, role.domain, listens, reliable=True)


def source(role: Role) -> tuple[int, int]:
    """How many were sent, and when the first one was."""
    sender = peer(role.peer).sender(channel(role, listens=True))
    role.pin()
    role.tell("open")
    while role.hear() != "found":
        sender.send(body(HELLO))
        role.tell("hello")
    began, end = clock(), clock() + int(role.options["seconds"] * 1e9)
    if role.options["many"]:
        assert sender.send_many is not None
        sent = send_many(sender.send_many, [body(FLOW)] * BATCH, end)
    else:
        sent = send_each(sender.send, body(FLOW), end)
    role.hear()  # what is still on its way would be lost if this process ended
    return sent, began


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


def sink(role: Role) -> tuple[int, int]:
    """How many arrived, and when the last one did."""
    role.hear()
    receiver = peer(role.peer).receiver(channel(role, listens=False))
    role.pin()
    take, read = receiver.take, receiver.read
    greeted(role, take)
    role.tell("found")
    if role.options["many"]:
        assert receiver.take_many is not None
        found = drain_many(receiver.take_many, read)
    else:
        found = drain_each(take, read)
    role.tell("over")
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


def drain_each(take: Callable[[], Any], read: Callable[[Any], object]) -> tuple[int, int]:
    seen = 0
    while True:
        if (message := take()) is None:
            since = clock()
            while (message := take()) is None:
                if clock() - since > SILENCE:
                    return seen, since
        read(message)
        seen += 1


def drain_many(take_many: Callable[[int], list[Any]], read: Callable[[Any], object]) -> tuple[int, int]:
    seen = 0
    while True:
        if not (messages := take_many(BATCH)):
            since = clock()
            while not (messages := take_many(BATCH)):
                if clock() - since > SILENCE:
                    return seen, since
        for message in messages:
            read(message)
        seen += len(messages)
