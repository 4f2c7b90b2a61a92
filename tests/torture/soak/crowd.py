"""The sixteen processes: begun, killed, stopped and continued, and brought to an end."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rtmw import Reliability
from tests.torture.soak.board import DRAIN, INSTANCES, STOP, Board
from tests.torture.soak.roles import Life, live_dangerously, publish, subscribe

ALWAYS = sys.maxsize
HANGS = 60.0
"""Seconds without progress of a survivor, though nobody is stopped for longer than half a second."""
VICTIMS = 4

Role = Callable[[Life], None]
SURVIVORS: dict[str, Role] = {
    "reliable subscriber 1": lambda life: subscribe(life, Reliability.RELIABLE, 64, 0.0, ALWAYS),
    "reliable subscriber 2": lambda life: subscribe(life, Reliability.RELIABLE, 8, 0.0, ALWAYS),
    "reliable subscriber 3": lambda life: subscribe(life, Reliability.RELIABLE, 500, 0.0, ALWAYS),
    "adaptive subscriber": lambda life: subscribe(life, Reliability.ADAPTIVE, 16, 0.0, ALWAYS),
    "adaptive subscriber, thinned": lambda life: subscribe(life, Reliability.ADAPTIVE, 64, 0.01, ALWAYS),
    "timely subscriber": lambda life: subscribe(life, Reliability.TIMELY, 4, 0.0, ALWAYS),
    "timely subscriber, thinned": lambda life: subscribe(life, Reliability.TIMELY, 1, 0.005, ALWAYS),
    "reliable publisher 1": lambda life: publish(life, Reliability.RELIABLE, ALWAYS),
    "reliable publisher 2": lambda life: publish(life, Reliability.RELIABLE, ALWAYS),
    "reliable publisher 3": lambda life: publish(life, Reliability.RELIABLE, ALWAYS),
    "adaptive publisher": lambda life: publish(life, Reliability.ADAPTIVE, ALWAYS),
    "timely publisher": lambda life: publish(life, Reliability.TIMELY, ALWAYS),
}
SUBSCRIBERS = [name for name in SURVIVORS if "subscriber" in name]
PUBLISHERS = [name for name in SURVIVORS if "publisher" in name]
"""A survivor's place is its number among all; the subscribers come first."""


@dataclass
class Crowd:
    """The parent of all: it never attaches, so that its children start as fresh processes do."""

    domain: int
    folder: Path
    board: Board = field(default_factory=Board)
    chance: random.Random = field(default_factory=random.Random)
    survivors: dict[str, int] = field(default_factory=dict)
    victims: list[int] = field(default_factory=list)
    stopped: dict[int, float] = field(default_factory=dict)
    seen: dict[str, tuple[int, float]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    instances: int = 0
    kills: int = 0
    stops: int = 0

    def begin(self, role: Role, place: int, survivor: bool) -> int:
        """A process in this role."""
        assert self.instances < INSTANCES, "more victims than were planned for"
        life = Life(
            self.board, self.domain, place, self.instances, survivor, os.getpid(), random.Random(self.chance.random())
        )
        self.instances += 1
        os.environ["SOAK_REPORT"] = str(self.folder / str(place))
        pid = os.fork()
        if pid == 0:
            try:
                role(life)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        return pid

    def begin_all(self) -> None:
        """Subscribers first: they count from the first message on."""
        for place, (name, role) in enumerate(SURVIVORS.items()):
            if name == PUBLISHERS[0]:
                self.wait_for_progress(len(SUBSCRIBERS), "to subscribe")
            self.survivors[name] = self.begin(role, place, True)
        self.victims = [self.begin(live_dangerously, len(SURVIVORS), False) for _ in range(VICTIMS)]
        self.wait_for_progress(len(SURVIVORS), "to begin")

    def wait_for_progress(self, places: int, what: str) -> None:
        until = time.monotonic() + HANGS
        while not all(self.board.progress[:places]):
            self.see_to_it_that_all_live()
            assert time.monotonic() < until, f"somebody took more than {HANGS} s {what}"
            time.sleep(0.01)

    def see_to_it_that_all_live(self) -> None:
        for name, pid in self.survivors.items():
            ended, status = os.waitpid(pid, os.WNOHANG)
            assert not ended, f"{name} ended: status {status:#x}"

    def see_progress(self) -> None:
        now = time.monotonic()
        for place, name in enumerate(SURVIVORS):
            count = self.board.progress[place]
            before, since = self.seen.get(name, (-1, now))
            if count != before:
                self.seen[name] = (count, now)
            assert now - since < HANGS, f"{name} got nowhere for {HANGS} s"

    def kill_one(self) -> None:
        at = self.chance.randrange(VICTIMS)
        pid = self.victims[at]
        self.stopped.pop(pid, None)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), f"a victim ended: {status:#x}"
        self.victims[at] = self.begin(live_dangerously, len(SURVIVORS), False)
        self.kills += 1

    def stop_one(self) -> None:
        pid = self.chance.choice([*self.survivors.values(), *self.victims])
        if pid not in self.stopped:
            os.kill(pid, signal.SIGSTOP)
            self.stopped[pid] = time.monotonic() + self.chance.uniform(0.001, 0.5)
            self.stops += 1

    def continue_due(self, now: float) -> None:
        for pid in [pid for pid, until in self.stopped.items() if until <= now]:
            del self.stopped[pid]
            os.kill(pid, signal.SIGCONT)

    def run(self, seconds: float) -> None:
        """Kill, stop and continue."""
        said = time.monotonic()
        until = said + seconds
        while (now := time.monotonic()) < until:
            time.sleep(self.chance.uniform(0.0, 0.1))
            self.continue_due(now)
            (self.kill_one if self.chance.random() < 0.4 else self.stop_one)()
            self.see_to_it_that_all_live()
            self.see_progress()
            if now - said >= 10:
                said = now
                self.say(now - self.began)

    def say(self, seconds: float) -> None:
        taken = sum(self.board.progress[: len(SUBSCRIBERS)])
        published = sum(self.board.progress[len(SUBSCRIBERS) :])
        print(f"{seconds:5.0f} s: {published:,} published, {taken:,} taken, {self.kills} killed, {self.stops} stopped",
              flush=True)  # fmt: skip

    def end(self) -> None:
        """No more publishing, then all is taken that is left."""
        self.continue_due(ALWAYS)
        for pid in self.victims:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.board.phase = STOP
        for name in PUBLISHERS:
            self.must_end_well(name)
        self.board.phase = DRAIN
        for name in SUBSCRIBERS:
            self.must_end_well(name)

    def must_end_well(self, name: str) -> None:
        pid, until = self.survivors.pop(name), time.monotonic() + HANGS
        while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
            assert time.monotonic() < until, f"{name} does not end"
            time.sleep(0.01)
        assert ended[1] == 0, f"{name} ended: status {ended[1]:#x}"

    def kill_all(self) -> None:
        for pid in [*self.survivors.values(), *self.victims]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
