"""What the processes of the soak do. Survivors are stopped now and then and never killed; victims are killed."""

from __future__ import annotations

import json
import os
import random
import select
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

import rtmw
from rtmw import Reliability
from tests.bus import lease_of
from tests.torture.soak.board import BANDS, DRAIN, RUN, Board, message, origin

TOPIC = "soak"
USED_BANDS = (0, 3, 6)
LARGEST = 60_000
KEPT = 4


@dataclass
class Life:
    """A process of the soak."""

    board: Board
    domain: int
    place: int
    instance: int
    survivor: bool
    parent: int
    chance: random.Random
    got: dict[tuple[int, int], int] = field(default_factory=dict)

    def goes_on(self) -> bool:
        """Until the end of the run."""
        return self.board.phase == RUN and not self.is_orphan()

    def is_orphan(self) -> bool:
        """Without the parent nobody goes on."""
        return os.getppid() != self.parent

    def progressed(self) -> None:
        if self.survivor:
            self.board.progress[self.place] += 1


def some_size(chance: random.Random) -> int:
    return chance.choice((0, 40, 40, 40, 300, 3000, chance.randrange(LARGEST)))


def publish(life: Life, reliability: Reliability, turns: int) -> None:
    """In three bands, of all sizes; some as loans, some of which are dropped; what is not RELIABLE may expire."""
    numbers, chance = [0] * BANDS, life.chance
    lifetime = None if reliability is Reliability.RELIABLE else 0.05
    with (
        rtmw.Domain(life.domain) as domain,
        rtmw.Publisher(TOPIC, domain=domain, reliability=reliability, lifetime=lifetime, max_blocking=1.0) as publisher,
    ):
        while turns > 0 and life.goes_on():
            turns -= 1
            band = chance.choice(USED_BANDS)
            data = message(life.instance, band, numbers[band] + 1, some_size(chance))
            if chance.random() < 0.1:
                with suppress(rtmw.PoolExhausted):
                    publisher.loan(len(data)).drop()
            if not publisher.publish(data, priority=band):
                continue
            numbers[band] += 1
            if reliability is Reliability.RELIABLE:
                life.board.tell(life.instance, band, numbers[band])
            life.progressed()
            time.sleep(0.002)


def judge(life: Life, sample: rtmw.Sample[bytes], last: list[int], complete: bool) -> None:
    """It is whole and in order; of a complete stream, the one after the last of its publisher and band."""
    instance, band, number = origin(sample.data)
    assert sample.priority == band
    assert sample.sequence > last[band], f"sequence {sample.sequence} came after {last[band]}"
    last[band] = sample.sequence
    before = life.got.get((instance, band), 0)
    if complete:
        assert number == before + 1, f"of {instance} in band {band}, message {number} came after {before}"
    life.got[instance, band] = number


def wait(life: Life, subscriber: rtmw.Subscriber[bytes]) -> rtmw.Sample[bytes] | None:
    """A message, or None; in one of the ways in which one can wait."""
    way = life.chance.randrange(3)
    if way == 0 and life.place % 2:
        select.select([subscriber.fileno()], [], [], 0.05)
        return subscriber.take()
    if way == 1:
        time.sleep(0.001)
        return subscriber.take()
    try:
        return subscriber.receive(timeout=0.05)
    except TimeoutError:
        return None


def take(life: Life, subscriber: rtmw.Subscriber[bytes], complete: bool, turns: int) -> None:
    """Takes, keeps a few samples, and, if it is to survive, takes all that is left when nobody publishes any more."""
    kept: deque[rtmw.Sample[bytes]] = deque(maxlen=KEPT)
    last = [0] * BANDS
    while turns > 0:
        turns -= 1
        over = life.board.phase == DRAIN  # before the look: what is not there then does not come
        sample = wait(life, subscriber)
        if sample is not None:
            judge(life, sample, last, complete)
            life.progressed()
            if life.chance.random() < 0.5:
                kept.append(sample)
            else:
                sample.release()
        elif over or (not life.survivor and not life.goes_on()) or life.is_orphan():
            break
    for sample in kept:
        sample.release()


def subscribe(life: Life, reliability: Reliability, depth: int, min_interval: float, turns: int) -> None:
    """A survivor reports: what it got, and what it counted as not got, by its cause."""
    lease = None if life.survivor else lease_of(reliability, 0.2)
    with (
        rtmw.Domain(life.domain) as domain,
        rtmw.Subscriber(
            TOPIC, domain=domain, reliability=reliability, depth=depth, min_interval=min_interval, lease=lease
        ) as subscriber,
    ):
        life.progressed()
        take(life, subscriber, reliability is Reliability.RELIABLE and life.survivor, turns)
        if not life.survivor:
            return
        stats = subscriber.stats()
        report = {
            "reliability": reliability.name,
            "received": stats.received,
            "missed": stats.missed,
            "expired": stats.expired,
            "thinned": stats.thinned,
            "unmatched": stats.unmatched,
            "got": [[instance, band, number] for (instance, band), number in life.got.items()],
        }
    with open(os.environ["SOAK_REPORT"], "w") as file:
        json.dump(report, file)


def live_dangerously(life: Life) -> None:
    """Comes and goes as everything that there is, until it is killed."""
    first = True
    while life.goes_on():
        reliability, turns = life.chance.choice(list(Reliability)), life.chance.randrange(1, 200)
        try:
            if first and life.chance.random() < 0.6:
                publish(life, reliability, turns)
            else:
                subscribe(life, reliability, life.chance.randrange(1, 50), 0.0, turns)
        except rtmw.LeaseExpired:
            continue
        first = False  # numbers of an instance are those of its first publisher
