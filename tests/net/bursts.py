"""How much of a TIMELY burst arrives on the other host? `python -m tests.net.bursts`: over a veth pair, so as root.

A burst is published in one call, much faster than any line carries it. What the line carries is measured in the same
run, by a RELIABLE flow of the same messages: in the time of the burst so many can leave, and `depth` more can wait.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

import rtmw
from bench.cable import cable
from bench.nodes import hosts
from bench.stage import environment
from rtmw import Reliability

CASES = ((64, 64, 1000), (64, 64, 4000), (4000, 64, 4000), (64, 1024, 1000), (1000, 1024, 1000))
"""The publisher's depth, bytes of a message, and messages of a burst."""
ROUNDS = 5
FLOW = 20_000
"""Messages of the RELIABLE flow."""
SILENCE_S = 1.0
PATIENCE_S = 20.0


@dataclass(frozen=True)
class Found:
    """Of one case, in the middle of its rounds."""

    arrived: float
    burst_s: float
    """How long the call took that published it."""
    rate: float
    """Messages a second of the RELIABLE flow."""

    def least(self, depth: int, count: int) -> float:
        """What leaves in the time of the burst, and what waits."""
        return min(count, depth + self.rate * self.burst_s)


def find(here: int, there: int, depth: int, size: int, count: int) -> Found:
    with rtmw.Domain(here) as near, rtmw.Domain(there) as far:
        rates = [rate(near, far, size)]
        rounds = bursts(near, far, depth, size, count)
        rates.append(rate(near, far, size))
    return Found(median(one for one, _ in rounds), median(took for _, took in rounds), median(rates))


def bursts(near: rtmw.Domain, far: rtmw.Domain, depth: int, size: int, count: int) -> list[tuple[int, float]]:
    """Of each burst, how many arrive, and how long its call took."""
    timely, found = Reliability.TIMELY, list[tuple[int, float]]()
    with (
        rtmw.Subscriber("burst", domain=far, reliability=timely, depth=2 * count) as subscriber,
        rtmw.Publisher("burst", domain=near, reliability=timely, depth=depth) as publisher,
    ):
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE_S)
        publisher.publish(bytes(size))  # from now on the node knows how large they are
        subscriber.receive(timeout=PATIENCE_S)
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            publisher.publish_many([bytes(size)] * count)
            took = time.perf_counter() - begun
            found.append((arrived(subscriber), took))
    return found


def rate(near: rtmw.Domain, far: rtmw.Domain, size: int) -> float:
    """Messages a second that the line carries, when nothing is dropped."""
    reliable, came, sent = Reliability.RELIABLE, 0, 0
    with (
        rtmw.Subscriber("flow", domain=far, reliability=reliable, depth=1000) as subscriber,
        rtmw.Publisher("flow", domain=near, reliability=reliable, depth=1000, max_blocking=0) as publisher,
    ):
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE_S)
        begun = time.perf_counter()
        while came < FLOW:
            sent += publisher.publish_many([bytes(size)] * min(64, FLOW - sent))
            came += len(subscriber.take_many(1000))
        return FLOW / (time.perf_counter() - begun)


def arrived(subscriber: rtmw.Subscriber[bytes]) -> int:
    count = 0
    while True:
        try:
            subscriber.receive(timeout=SILENCE_S)
        except TimeoutError:
            return count
        count += 1


def main() -> None:
    for depth, size, count in CASES:
        with cable() as places, hosts("64M", environment(), places) as (here, there):
            found = find(here, there, depth, size, count)
        least = found.least(depth, count)
        print(
            f"depth {depth}, {count} messages of {size} bytes: {100 * found.arrived / count:.0f} % arrive, "
            f"{found.arrived / least:.2f} × the {least:.0f} that wait or leave in its {1000 * found.burst_s:.2f} ms "
            f"at {found.rate:,.0f} messages/s",
            flush=True,
        )


if __name__ == "__main__":
    main()
