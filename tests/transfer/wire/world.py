"""Two cores and a stream between them that splits at any byte and is lost; restarts, full disks, changed sources.

A session gives each byte once and in order, or the stream is lost; so that is what this one does. Everything is drawn
from one seed, and time is a number.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

from rtmw.transfer.records import ENDED, TransferId
from rtmw.transfer.wire import events as e
from tests.transfer.wire.stores import CONSUMED, REFUSED, TERMS, Receiver, Sender, Sent

PRIORITIES = (0, 0, 1)
QUIET = 600
"""Turns at the end in which no program does anything."""


class World:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.met: Counter[str] = Counter()
        self.now = 0.0
        self.sender, self.receiver = Sender(self.dice, self.met), Receiver(self.dice, self.met)
        self.there, self.back = bytearray(), bytearray()
        self.is_open = False
        self.timer: float | None = None
        self.number = 0
        self.receiver.comes = self.check_order

    # ---- the cores ----

    def send(self, event: e.SendingEvent) -> None:
        events = [event]
        while events:
            for effect in self.sender.machine.step(events.pop(0), self.now):
                if isinstance(effect, e.Write):
                    self.there += effect.data if self.is_open else b""
                elif isinstance(effect, e.SetTimer):
                    self.timer = effect.at
                else:
                    events += self.sender.effect(effect)

    def receive(self, event: e.ReceivingEvent) -> None:
        events = [event]
        while events:
            for effect in self.receiver.machine.step(events.pop(0), self.now):
                if isinstance(effect, e.Write):
                    self.back += effect.data if self.is_open else b""
                else:
                    events += self.receiver.effect(effect)

    def open(self) -> None:
        self.is_open = True
        self.there.clear()
        self.back.clear()
        self.receive(e.Opened())
        self.send(e.Opened())
        self.send(e.Room(TERMS.piece))

    def lose(self) -> None:
        """Some of what is on its way still arrives."""
        self.is_open = False
        self.there, self.back = self.there[: self.cut(self.there)], self.back[: self.cut(self.back)]
        self.receive(e.Heard([bytes(self.there)]))
        self.send(e.Heard([bytes(self.back)]))
        for first, second in (self.dice.choice(((self.send, self.receive), (self.receive, self.send))),):
            first(e.Lost())
            second(e.Lost())
        self.met["lost"] += 1

    def cut(self, data: bytearray) -> int:
        return self.dice.randrange(len(data) + 1)

    def restart(self) -> None:
        """Of one core. What its disk was doing is done, or not."""
        node = self.dice.choice((self.sender, self.receiver))
        for _ in range(self.dice.randrange(len(node.later) + 1)):
            node.answer()
        if self.is_open:
            self.lose()
        node.restart()
        for id in self.receiver.lose() if node is self.receiver else ():
            self.sender.most_sent.pop(id, None)
        if node is self.sender:
            self.timer = None
            self.hide_a_change()
            self.send(e.AddRun(tuple(self.sender.adds())))
        self.met["restart"] += 1

    def hide_a_change(self) -> None:
        """While the core was away, two bits of the source have turned, and the times of the file are as before."""
        able = [sent for sent in self.sender.log.values() if sent.source == sent.original != b""]
        able = [sent for sent in able if self.sender.is_open(sent) and not sent.is_letter]
        if able and self.dice.random() < 0.5:
            sent = self.dice.choice(able)
            first = max(0, sent.mark.position - TERMS.block)
            at = min(first + self.dice.randrange(2 * TERMS.block), len(sent.source) - 1)
            for turned in {at, len(sent.source) - 1}:
                sent.source = sent.source[:turned] + bytes([sent.source[turned] ^ 1]) + sent.source[turned + 1 :]
            sent.hidden, sent.is_hidden, sent.is_below_mark = sent.source, True, at < sent.mark.position
            self.met["hidden change"] += 1

    # ---- what happens ----

    def begin(self) -> None:
        """A program sends something."""
        if self.dice.random() < 0.3:
            self.begin_letters(self.dice.randint(1, 4))
            return
        self.number += 1
        id = TransferId("a", 1, self.number)
        size = self.dice.choice((0, 1, 20, 24, 25, 64, 100, 128, 300, 700))
        size = max(size, 1 - self.number % 2)
        data = self.dice.randbytes(size)
        self.sender.log[id] = Sent(id, data, data, priority=self.dice.choice(PRIORITIES))
        self.send(e.AddRun((self.sender.add_of(self.sender.log[id], in_doubt=False),)))

    def begin_letters(self, count: int) -> None:
        """Several, of which some go together."""
        adds: list[e.Add] = []
        priority = self.dice.choice(PRIORITIES)
        for _ in range(count):
            self.number += 1
            id, data = TransferId("a", 1, self.number), self.dice.randbytes(self.dice.choice((20, 20, 700)))
            sent = self.sender.log[id] = Sent(id, data, data, is_letter=True, priority=priority)
            adds.append(self.sender.add_of(sent, in_doubt=False))
        self.send(e.AddRun(tuple(adds)))

    def turn(self, faults: float) -> None:
        self.now += self.dice.choice((0.001, 0.01, 0.1))
        if not self.is_open and self.dice.random() < 0.2:
            self.open()
        self.move()
        what = self.dice.random()
        if what < 0.1 and self.number < 12:
            self.begin()
        elif what < 0.25:
            for event in self.receiver.program():
                self.receive(event)
        elif what < 0.25 + faults:
            self.fault()

    def move(self) -> None:
        """Bytes arrive, disks answer, timers fire."""
        for data, hear in ((self.there, self.hear_there), (self.back, self.hear_back)):
            if data and self.is_open:
                size = min(self.dice.choice((1, 5, 30, 200)), len(data))
                part = bytes(data[:size])
                del data[:size]
                hear(part)
        for _ in range(self.dice.randrange(4)):
            if self.sender.later:
                for event in self.sender.answer():
                    self.send(event)
            if self.receiver.later:
                for answer in self.receiver.answer():
                    self.receive(answer)
        if self.is_open and len(self.there) < 100:
            self.send(e.Room(TERMS.piece))
        if self.timer is not None and self.timer <= self.now:
            self.timer = None
            self.send(e.Timer())

    def hear_there(self, data: bytes) -> None:
        self.receive(e.Heard([data]))

    def hear_back(self, data: bytes) -> None:
        self.send(e.Heard([data]))

    def fault(self) -> None:
        what = self.dice.random()
        ids = [sent for sent in self.sender.log.values() if self.sender.is_open(sent)]
        files = [sent for sent in ids if not sent.is_letter]
        if what < 0.45:
            if self.is_open:
                self.lose()
        elif what < 0.7:
            self.restart()
        elif what < 0.8:
            self.receiver.is_full = not self.receiver.is_full
            if not self.receiver.is_full:
                self.receive(e.TryAgain())
        elif what < 0.87 and files:
            come = [sent for sent in files if sent.id in self.receiver.disk.seen]
            sent = self.dice.choice(come if come and self.dice.random() < 0.5 else files)
            sent.source, sent.is_hidden = sent.original + b"more", False
            self.met["changed"] += 1
        elif what < 0.95 and ids:
            sent = self.dice.choice(ids)
            sent.is_withdrawn = True
            self.send(e.Withdraw(sent.id))
            self.met["withdrawn"] += 1
        else:
            self.rot()

    def rot(self) -> None:
        """A bit of what has come turns on the receiver's disk, in the last block."""
        for partial in self.receiver.disk.partial.values():
            if partial.mark.position and not partial.is_placed and not self.is_open:
                at = partial.mark.position - 1 - self.dice.randrange(TERMS.block)
                partial.data[at] ^= 1
                self.receiver.restart()
                return

    # ---- order ----

    def check_order(self, id: TransferId) -> None:
        """A transfer comes: all that were sent before it in its lane have come, or cannot come now."""
        for before in self.sender.log.values():
            if before.id.sequence >= id.sequence or before.priority != self.sender.log[id].priority:
                continue
            has_come = before.id in self.receiver.disk.bodies or before.state in ENDED
            cannot = before.is_withdrawn or before.has_failed or before.source != before.original or before.is_hidden
            is_passed = before.id in self.receiver.put_off or cannot
            assert has_come or is_passed, f"{id} comes before {before.id}"
            self.met["in order"] += has_come
            self.met["passed over"] += not has_come

    # ---- the end ----

    def run_to_rest(self) -> None:
        """No more faults: each transfer ends, on both sides in the same way, and nothing is left of it."""
        if self.is_open:
            self.lose()
        for number in range(4000):
            if number == 100 and self.receiver.is_full:
                self.receiver.is_full = False
                self.receive(e.TryAgain())
            if not self.is_open:
                self.open()
            self.now += 0.05
            self.move()
            if number < QUIET:
                continue
            if number == QUIET:
                self.check_levels()
            for event in self.receiver.program():
                self.receive(event)
            if self.is_at_rest():
                self.check()
                return
        raise AssertionError(
            f"it does not come to rest: {self.sender.machine.transfers} {self.receiver.machine.arriving}"
        )

    def check_levels(self) -> None:
        """Nothing has happened for a while, so both say the same."""
        if not (self.there or self.back or self.sender.later or self.receiver.later):
            for id, state in self.receiver.disk.items.items():
                assert self.sender.log[id].state is state, f"{id} is {state.name}"
            self.met["levels"] += 1

    def is_at_rest(self) -> bool:
        disk = self.receiver.disk
        rest = self.there or self.back or self.sender.later or self.receiver.later
        left = disk.items or disk.owed or disk.partial
        return not (rest or left or self.sender.machine.transfers or self.receiver.machine.arriving)

    def check(self) -> None:
        disk = self.receiver.disk
        for id, body in disk.bodies.items():
            sent = self.sender.log[id]
            assert body == sent.original or (body == sent.hidden and not sent.is_below_mark), "it is what was sent"
        for id, sent in self.sender.log.items():
            if sent.has_failed:
                assert id not in disk.bodies, "a changed source gives nothing"
            else:
                assert sent.state in ENDED
                is_refused = sent.state is REFUSED and sent.hidden != b""
                assert (sent.state in (CONSUMED, REFUSED)) == (id in disk.taken) or is_refused, (
                    f"{sent.state.name} {id}"
                )
        assert not disk.partial, "nothing is left"


def run(seed: int, turns: int = 300, faults: float = 0.05) -> Counter[str]:
    """One seed, whole. Raises AssertionError. Returns what was met."""
    world = World(seed)
    for _ in range(turns):
        world.turn(faults)
    world.run_to_rest()
    return world.met


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        run(number)
    print(f"{sys.argv[1]} worlds: each transfer came once and whole")
