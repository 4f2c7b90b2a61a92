"""How many messages a second: one way between two processes, and to many. `python bench/throughput.py [--quick]`.

`one call a message`: publish in a loop, take in a loop, RELIABLE with a depth of 4096, so that nothing is lost: the
subscriber counts. `many`: publish_many and take_many. `idle subscribers`: what one call of publish costs while 1, 8 and
64 subscribers of the topic exist that take nothing.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time

import bus

import rtmw

BODY = bytes(64)
DEPTH = 4096
BATCH = 100
PATIENCE = 60.0


def other(way: str, count: int) -> None:
    """Takes `count` messages and prints how many it saw in order."""
    gc.disable()
    subscriber = rtmw.Subscriber("flow", reliability=rtmw.Reliability.RELIABLE, depth=DEPTH)
    seen, last, end = 0, 0, time.monotonic() + PATIENCE
    while seen < count and time.monotonic() < end:
        if way == "many":
            samples = subscriber.take_many(BATCH)
        else:
            samples = [sample for _ in range(BATCH) if (sample := subscriber.take()) is not None]
        for sample in samples:
            seen += sample.sequence == last + 1
            last = sample.sequence
    print(seen, flush=True)


def flow(way: str, count: int) -> float:
    """Messages a second, all of which arrived."""
    with bus.domain(), bus.other_process(__file__, way, str(count)) as process:
        publisher = rtmw.Publisher("flow", reliability=rtmw.Reliability.RELIABLE, max_blocking=PATIENCE)
        bus.meet(publisher)
        bodies = [BODY] * BATCH
        start = time.perf_counter()
        for _ in range(count // BATCH):
            if way == "many":
                publisher.publish_many(bodies)
            else:
                for body in bodies:
                    publisher.publish(body)
        assert process.stdout is not None
        seen = int(process.stdout.readline())
        elapsed = time.perf_counter() - start
    if seen != count:
        raise SystemExit(f"{count} messages were published and {seen} arrived in order: that is a bug")
    return count / elapsed


def publish_cost(idle: int, calls: int) -> float:
    """Nanoseconds of a publish call while `idle` subscribers exist and take nothing."""
    with bus.domain() as domain:
        subscribers = [rtmw.Subscriber("idle", domain=domain) for _ in range(idle)]
        publisher = rtmw.Publisher("idle", domain=domain)
        for _ in range(1000):
            publisher.publish(BODY)
        start = time.perf_counter_ns()
        for _ in range(calls):
            publisher.publish(BODY)
        cost = (time.perf_counter_ns() - start) / calls
        for subscriber in subscribers:
            subscriber.close()
    return cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    gc.disable()
    count = 100_000 if arguments.quick else 1_000_000
    rates = {way: max(flow(way, count) for _ in range(3)) for way in ("one call a message", "many")}
    costs = {idle: min(publish_cost(idle, count // 10) for _ in range(3)) for idle in (1, 8, 64)}
    rows = [(f"64 B one way, {way}", f"{rate / 1e6:.2f} M messages/s") for way, rate in rates.items()]
    rows += [(f"publish, {idle} idle subscribers", f"{cost:.0f} ns") for idle, cost in costs.items()]
    bus.show("Throughput, best of three", ("what", "figure"), rows)
    bus.write_json(arguments.json, {"rates": rates, "publish_ns": costs})


if __name__ == "__main__":
    if sys.argv[1:2] == ["other"]:
        other(sys.argv[2], int(sys.argv[3]))
    else:
        main()
