"""How much of a TIMELY burst arrives on the other host? `python -m tests.net.bursts`: over a veth pair, so as root.

A burst is published in one call, much faster than any line carries it.
"""

from __future__ import annotations

from statistics import median

import rtmw
from bench.cable import cable
from bench.nodes import hosts
from bench.stage import environment
from rtmw import Reliability

CASES = ((64, 64, 1000), (64, 64, 4000), (4000, 64, 4000), (64, 1024, 1000), (1000, 1024, 1000))
"""The publisher's depth, bytes of a message, and messages of a burst."""
ROUNDS = 5
SILENCE_S = 1.0
PATIENCE_S = 20.0


def shares(here: int, there: int, depth: int, size: int, count: int) -> list[float]:
    """Of each burst, what part arrives."""
    timely, found = Reliability.TIMELY, list[float]()
    with (
        rtmw.Domain(here) as near,
        rtmw.Domain(there) as far,
        rtmw.Subscriber("burst", domain=far, reliability=timely, depth=2 * count) as subscriber,
        rtmw.Publisher("burst", domain=near, reliability=timely, depth=depth) as publisher,
    ):
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE_S)
        publisher.publish(bytes(size))  # from now on the node knows how large they are
        subscriber.receive(timeout=PATIENCE_S)
        for _ in range(ROUNDS):
            publisher.publish_many([bytes(size)] * count)
            found.append(arrived(subscriber) / count)
    return found


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
            part = median(shares(here, there, depth, size, count))
        print(f"depth {depth}, {count} messages of {size} bytes: {100 * part:.0f} % arrive")


if __name__ == "__main__":
    main()
