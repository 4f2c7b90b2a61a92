"""Room for the messages of many routes, in a world of chance: who sends, a wire, and who receives.

`Sending` does what out.c does, `Receiving` what in.c does: which messages are taken from the bus, which are sent, and
of how much room the sender is told. Subscribers stand still or take, and at some time the sender ends: it takes nothing
more and has to deliver what it has, though nobody takes anything any more. Sizes stand for KiB.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

HELD_MOST, HELD_TIMES = 2048, 4
"""What the receiver tells room for, and how many times as much it holds at the utmost: a pool of 8 MiB."""
WINDOW, PARTS_MOST = 512, 16
LOOKAHEAD, LOOKAHEAD_SIZE = 64, 1024
ON_WIRE = 512
"""What sockets hold."""
SIZES = (1, 1, 4, 16, 60)
STEPS = 6000


@dataclass
class Sending:
    bus: deque[int] = field(default_factory=deque[int])
    taken: deque[int] = field(default_factory=deque[int])
    in_flight: int = 0
    room: int = 0
    owed: int = 0
    """Messages that were taken and are not acknowledged."""


@dataclass
class Receiving:
    full: bool
    """Its subscriber takes nothing."""
    waits: deque[int] = field(default_factory=deque[int])
    came: int = 0
    """Cost of what has come since the last acknowledgement."""


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        count = self.random.choice((1, 3, 12, 100))
        self.out = [Sending() for _ in range(count)]
        self.into = [Receiving(self.random.random() < 0.9) for _ in range(count)]
        self.wire: deque[tuple[int, int]] = deque()
        self.acks: deque[tuple[int, int, int]] = deque()
        """Route, cost that is acknowledged, room."""
        self.dropped = self.most = 0
        self.is_ending = False

    # ---- the sender ----

    def may_take(self, one: Sending) -> bool:
        has_room = one.in_flight + sum(one.taken) < one.room
        return has_room and (not one.taken or self.ahead() < one.room)

    def ahead(self) -> int:
        return sum(sum(one.taken) for one in self.out)

    def may_send(self, one: Sending) -> bool:
        return bool(one.taken)

    def take(self, one: Sending) -> None:
        while one.bus and len(one.taken) < LOOKAHEAD and sum(one.taken) < LOOKAHEAD_SIZE and self.may_take(one):
            one.taken.append(one.bus.popleft())
            one.owed += 1

    def send(self) -> None:
        if sum(size for _, size in self.wire) >= ON_WIRE:
            return
        ready = [number for number, one in enumerate(self.out) if self.may_send(one)]
        if ready:
            number = self.random.choice(ready)
            size = self.out[number].taken.popleft()
            self.out[number].in_flight += size
            self.wire.append((number, size))

    def hear(self) -> None:
        number, cost, room = self.acks.popleft()
        self.out[number].in_flight -= cost
        self.out[number].room = room

    # ---- the receiver ----

    def held(self) -> int:
        return sum(sum(one.waits) for one in self.into)

    def room(self, one: Receiving) -> int:
        part = max(HELD_MOST - self.held(), 0) // min(len(self.into), PARTS_MOST)
        return min(WINDOW - sum(one.waits), part if part or one.waits else 1)

    def arrive(self) -> None:
        number, size = self.wire.popleft()
        one = self.into[number]
        assert sum(one.waits) < WINDOW, "more messages of a route than it has room for"
        one.came += size
        if one.full and self.held() + size > HELD_TIMES * HELD_MOST:
            self.dropped += 1
        elif one.full:
            one.waits.append(size)
        self.most = max(self.most, self.held())
        if one.came > WINDOW // 4 or self.random.random() < 0.3:
            self.acknowledge(number)

    def acknowledge(self, number: int) -> None:
        one = self.into[number]
        self.acks.append((number, one.came, self.room(one)))
        one.came = 0

    def wake(self) -> None:
        """A subscriber takes what waits, and then stands still again or goes on."""
        number = self.random.randrange(len(self.into))
        one = self.into[number]
        one.waits.clear()
        one.full = self.random.random() < 0.9
        self.acknowledge(number)

    # ---- time ----

    def run(self) -> None:
        for number in range(len(self.into)):
            self.acknowledge(number)
        slow = self.random.choice((0.1, 0.5, 0.9))
        for _ in range(STEPS):
            self.publish(self.random.choice(self.out))
            if self.random.random() > slow:
                self.move()
            if self.random.random() < 0.002:
                self.wake()
        self.end()

    def publish(self, one: Sending) -> None:
        if len(one.bus) < LOOKAHEAD:
            one.bus.append(self.random.choice(SIZES))
        self.take(one)

    def move(self) -> None:
        moves = [self.send, *[self.arrive] * bool(self.wire), *[self.hear] * bool(self.acks)]
        self.random.choice(moves)()

    def end(self) -> None:
        """Nothing more is taken. What was taken comes, though no subscriber takes anything."""
        before = -1
        while before != (before := self.left()):
            for number in range(len(self.out)):
                self.acknowledge(number)
            while self.wire or self.acks:
                self.move()
            while any(self.may_send(one) for one in self.out):
                self.send()
                self.arrive()
        assert not self.left(), "a node ends, and what it has taken is not delivered"
        assert not self.dropped, "a message was dropped"

    def left(self) -> int:
        return self.ahead() + sum(one.in_flight for one in self.out)


def run(seed: int) -> World:
    world = World(seed)
    world.run()
    return world
