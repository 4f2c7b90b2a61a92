"""A pool that is full for minutes: nothing of a lower priority keeps an alarm out (requirements P2, P3, P5).

`python -m tests.torture.pressure SECONDS [RESERVE]`. Programs publish on random topics, of random size, priority and
reliability; others subscribe to them, half of which never take; all of them are stopped, killed and begun anew. One
publishes alarms of priority 7, and one takes these: each must be accepted, and come. Without a reserve that must fail.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rtmw
from rtmw import Reliability, observe
from rtmw.cli.terminal import Table, duration, show
from rtmw.latency import PERCENTILES, Latency
from tests.conftest import free_number
from tests.torture.soak.board import DRAIN, RUN, STOP, Board

POOL = "16M"
TOPICS = 64
ENDPOINTS = 12
SIZES = (0, 100, 300, 3000, 20_000, 60_000)
DEPTHS = (1, 16, 1000, 100_000)
KEPT = 8
URGENT = 7
ALARM_SIZES = (8, 200, 3000, 20_000)
ALARM_EVERY = 0.002
ENDS_WITHIN = 60.0


@dataclass
class Life:
    """A program of the crowd."""

    board: Board
    domain: int
    report: Path
    parent: int

    def goes_on(self, phase: int = RUN) -> bool:
        """In this phase, and not without the parent."""
        return self.board.phase <= phase and os.getppid() == self.parent

    def tell(self, **what: Any) -> None:
        """Leave a report for the judge."""
        self.report.write_text(json.dumps(what))


def flood(life: Life) -> None:
    """Publishes as much as it can, and keeps some loans."""
    chance, published, refused = random.Random(), Counter[int](), Counter[int]()
    with rtmw.Domain(life.domain) as domain:
        while life.goes_on():
            with ExitStack() as stack:
                publishers = [stack.enter_context(some_publisher(domain, chance)) for _ in range(ENDPOINTS)]
                loans: list[rtmw.Loan] = []
                for turn in range(500):
                    publisher, size, band = chance.choice(publishers), chance.choice(SIZES), chance.randrange(URGENT)
                    lifetime = chance.choice((None, None, 0.02))
                    accepted = publisher.publish(bytes(size), priority=band, lifetime=lifetime)
                    (published if accepted else refused)[band] += 1
                    if chance.random() < 0.01 and len(loans) < KEPT:
                        with suppress(rtmw.PoolExhausted):
                            loans.append(publisher.loan(size))
                    if turn % 50 == 0:
                        time.sleep(0.001)
                for loan in loans:
                    loan.drop()
    life.tell(published=published, refused=refused)


def some_publisher(domain: rtmw.Domain, chance: random.Random) -> rtmw.Publisher[bytes]:
    return rtmw.Publisher(
        f"t/{chance.randrange(TOPICS)}",
        domain=domain,
        priority=chance.randrange(URGENT),
        reliability=chance.choice(list(Reliability)),
        max_blocking=0,
    )


def read(life: Life) -> None:
    """Every other subscriber takes; the others hang. Some samples are kept."""
    chance = random.Random()
    with rtmw.Domain(life.domain) as domain:
        while life.goes_on():
            with ExitStack() as stack:
                subscribers = [
                    stack.enter_context(
                        rtmw.Subscriber(
                            f"t/{chance.randrange(TOPICS)}",
                            domain=domain,
                            reliability=chance.choice(list(Reliability)),
                            depth=chance.choice(DEPTHS),
                        )
                    )
                    for _ in range(ENDPOINTS)
                ]
                kept: list[rtmw.Sample[bytes]] = []
                until = time.monotonic() + chance.uniform(0.2, 5.0)
                while time.monotonic() < until and life.goes_on():
                    for sample in chance.choice(subscribers[::2]).take_many(20):
                        kept.append(sample)
                        if len(kept) > KEPT:
                            kept.pop(chance.randrange(KEPT)).release()
                    time.sleep(0.001)
                for sample in kept:
                    sample.release()


def hog(life: Life) -> None:
    """For a second or two, all that priority 6 may use is what a RELIABLE subscriber has not read."""
    chance = random.Random()
    with rtmw.Domain(life.domain) as domain:
        while life.goes_on():
            until = time.monotonic() + chance.uniform(0.5, 2)
            with (
                rtmw.Subscriber("hog", domain=domain, reliability=Reliability.RELIABLE, depth=1_000_000),
                rtmw.Publisher(
                    "hog", domain=domain, priority=URGENT - 1, reliability=Reliability.RELIABLE, max_blocking=0
                ) as publisher,
            ):
                while time.monotonic() < until and life.goes_on():
                    if not publisher.publish(bytes(chance.choice(SIZES))):
                        time.sleep(0.001)
            time.sleep(chance.uniform(0, 1))


def publish_alarms(life: Life) -> None:
    """One each two milliseconds, and how long the slowest call took."""
    number = refused = 0
    slowest, chance = 0.0, random.Random()
    with rtmw.Domain(life.domain) as domain, rtmw.Publisher("alarm", domain=domain, priority=URGENT) as publisher:
        while life.goes_on():
            alarm = number.to_bytes(8, "little") + bytes(chance.choice(ALARM_SIZES) - 8)
            began = time.perf_counter()
            accepted = publisher.publish(alarm)
            slowest = max(slowest, time.perf_counter() - began)
            number += accepted
            refused += not accepted
            time.sleep(ALARM_EVERY)
    life.tell(published=number, refused=refused, slowest=slowest)


def take_alarms(life: Life) -> None:
    """All of them, in order."""
    received, last = 0, -1
    with rtmw.Domain(life.domain) as domain, rtmw.Subscriber("alarm", domain=domain, depth=100_000) as subscriber:
        life.board.progress[0] = 1
        while True:
            over = not life.goes_on(STOP)  # before the look: what is not there then does not come
            try:
                sample = subscriber.receive(timeout=0.05)
            except TimeoutError:
                if over:
                    break
                continue
            number = int.from_bytes(sample.data[:8], "little")
            assert number > last, f"alarm {number} came after {last}"
            received, last = received + 1, number
            sample.release()
        life.tell(received=received, latency=subscriber.stats().latency.buckets)


def audit(life: Life) -> None:
    """The books balance, and no memory is missing."""
    with rtmw.Domain(life.domain) as domain:
        books = observe.examine(domain, fix=True)
        assert books.problems == (), books.problems
        with rtmw.Publisher("whole", domain=domain, priority=URGENT) as publisher:
            publisher.loan(domain.pool // 2).drop()


Role = Callable[[Life], None]
CROWD: dict[str, Role] = {
    "flood 1": flood,
    "flood 2": flood,
    "reader 1": read,
    "reader 2": read,
    "hog": hog,
}


class Rig:
    """The parent of all; it never attaches."""

    def __init__(self, domain: int, folder: Path) -> None:
        self.board, self.domain, self.folder = Board(), domain, folder
        self.pids: dict[str, int] = {}
        self.kills = self.stops = 0

    def begin(self, name: str, role: Role) -> None:
        life = Life(self.board, self.domain, self.folder / name, os.getpid())
        pid = os.fork()
        if pid == 0:
            try:
                role(life)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        self.pids[name] = pid

    def subscribe(self) -> None:
        """Who takes the alarms counts from the first one on."""
        self.begin("alarms taken", take_alarms)
        until = time.monotonic() + ENDS_WITHIN
        while not self.board.progress[0]:
            assert time.monotonic() < until, f"nobody subscribed to the alarms within {ENDS_WITHIN:.0f} s"
            time.sleep(0.01)

    def run(self, seconds: float) -> None:
        """Now and then one of the crowd is killed, or stopped for a while."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            time.sleep(random.uniform(0.05, 0.2))
            name = random.choice(list(CROWD))
            if name.startswith("reader") and random.random() < 0.2:
                os.kill(self.pids[name], signal.SIGKILL)
                os.waitpid(self.pids[name], 0)
                self.begin(name, read)
                self.kills += 1
                continue
            os.kill(self.pids[name], signal.SIGSTOP)
            time.sleep(min(random.uniform(0, 0.5), max(until - now, 0)))
            os.kill(self.pids[name], signal.SIGCONT)
            self.stops += 1

    def end(self, name: str) -> None:
        """Wait for one that ends by itself."""
        until = time.monotonic() + ENDS_WITHIN
        pid = self.pids.pop(name)
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                assert status == 0, f"{name} ended: status {status:#x}"
                return
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise AssertionError(f"{name} did not end within {ENDS_WITHIN:.0f} s")
            time.sleep(0.01)

    def kill_all(self) -> None:
        for pid in self.pids.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def report_of(self, name: str) -> dict[str, Any]:
        read: dict[str, Any] = json.loads((self.folder / name).read_text())
        return read


def judge(rig: Rig) -> None:
    """Each alarm was accepted and came, though the pool was so full that others were refused."""
    floods = [rig.report_of(name) for name in CROWD if name.startswith("flood")]
    published, taken = rig.report_of("alarms published"), rig.report_of("alarms taken")
    rows = [
        (band, *(sum(report[what].get(str(band), 0) for report in floods) for what in ("published", "refused")))
        for band in range(URGENT)
    ]
    show(
        Table("", ("priority", "published", "refused"), [*rows, (URGENT, published["published"], published["refused"])])
    )
    latency = Latency.of(tuple(bucket) for bucket in taken["latency"])
    times = ", ".join(f"p{percent:g} {duration(latency.percentile(percent))}" for percent in (*PERCENTILES, 100.0))
    print(f"\nalarms from publish to take: {times}; the slowest publish took {duration(published['slowest'])}")
    print(f"{rig.kills} readers killed, {rig.stops} programs stopped for up to half a second")
    assert sum(row[2] for row in rows), "nobody was refused: the pool was not full"
    refused, lost = published["refused"], published["published"] - taken["received"]
    assert (refused, lost) == (0, 0), f"of the alarms {refused} were refused, and {lost} accepted and lost"
    print("Each alarm was accepted, and came.")


def press(domain: int, seconds: float, reserve: float, folder: Path) -> None:
    rig = Rig(domain, folder)
    try:
        rig.begin("creator", lambda life: rtmw.Domain(life.domain, pool=POOL, reserve=reserve).close())
        rig.end("creator")
        rig.subscribe()
        for name, role in CROWD.items():
            rig.begin(name, role)
        rig.begin("alarms published", publish_alarms)
        rig.run(seconds)
        rig.board.phase = STOP
        for name in ("alarms published", *CROWD):
            rig.end(name)
        rig.board.phase = DRAIN
        rig.end("alarms taken")
        rig.begin("audit", audit)
        rig.end("audit")
        judge(rig)
    finally:
        rig.kill_all()
        with suppress(rtmw.DomainNotFound):
            rtmw.Domain.unlink(domain)


def main(seconds: str, reserve: str = "0.125") -> None:
    with tempfile.TemporaryDirectory() as folder:
        press(int(os.environ.get("RTMW_DOMAIN") or free_number()), float(seconds), float(reserve), Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
