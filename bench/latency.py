"""How long a message takes: half round trips between two processes. `python bench/latency.py [--quick] [--json FILE]`.

This process publishes a ping and waits for the pong of the other one. `poll`: both spin on take(). `spin`: receive()
with its adaptive spin. `sleep`: receive() with spin=0, a futex. `asyncio`: `async for` on uvloop. `copy`: the body
comes out of a bytes object; `loan`: only a stamp is written into a loaned block. The C lines are the machine itself.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time

import bus
import uvloop

import rtmw

SIZES = (64, 4096, 65536, 1 << 20, 4 << 20)
WAYS = ("poll", "spin", "sleep", "asyncio")


def rounds(size: int, quick: bool) -> int:
    most = 20000 if size <= 4096 else 4000 if size <= 65536 else 600
    return most // 10 if quick else most


def endpoints(out: str, back: str, way: str) -> tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]]:
    return rtmw.Publisher(out), rtmw.Subscriber(back, spin=0 if way == "sleep" else None)


def send(publisher: rtmw.Publisher[bytes], body: bytes, loan: bool) -> None:
    if not loan:
        publisher.publish(body)
        return
    block = publisher.loan(len(body))
    block.data[:8] = body[:8]
    block.publish()


def take(subscriber: rtmw.Subscriber[bytes], way: str) -> rtmw.Sample[bytes]:
    if way != "poll":
        return subscriber.receive(bus.PATIENCE)
    while True:
        sample = subscriber.take()
        if sample is not None:
            return sample


def ping(way: str, body: bytes, loan: bool, count: int) -> list[float]:
    publisher, subscriber = endpoints("ping", "pong", way)
    bus.meet(publisher)
    times: list[float] = []
    for _ in range(count):
        start = time.perf_counter_ns()
        send(publisher, body, loan)
        take(subscriber, way).data[:8]
        times.append((time.perf_counter_ns() - start) / 2)
    publisher.close()
    subscriber.close()
    return times


def pong(way: str, size: int, loan: bool, count: int) -> None:
    publisher, subscriber = endpoints("pong", "ping", way)
    body = bytes(size)
    bus.meet(publisher)
    for _ in range(count):
        take(subscriber, way).data[:8]
        send(publisher, body, loan)


async def ping_async(body: bytes, loan: bool, count: int) -> list[float]:
    publisher, subscriber = endpoints("ping", "pong", "asyncio")
    bus.meet(publisher)
    times: list[float] = []
    for _ in range(count):
        start = time.perf_counter_ns()
        send(publisher, body, loan)
        (await anext(subscriber)).data[:8]
        times.append((time.perf_counter_ns() - start) / 2)
    publisher.close()
    subscriber.close()
    return times


async def pong_async(size: int, loan: bool, count: int) -> None:
    publisher, subscriber = endpoints("pong", "ping", "asyncio")
    body = bytes(size)
    bus.meet(publisher)
    for _ in range(count):
        (await anext(subscriber)).data[:8]
        send(publisher, body, loan)


def other(way: str, size: int, loan: bool, count: int) -> None:
    gc.disable()
    if way == "asyncio":
        uvloop.run(pong_async(size, loan, count))
    else:
        pong(way, size, loan, count)


def measure(way: str, size: int, loan: bool, count: int) -> list[float]:
    with bus.domain(), bus.other_process(__file__, way, str(size), str(int(loan)), str(count)):
        body = bytes(size)
        if way == "asyncio":
            return sorted(uvloop.run(ping_async(body, loan, count)))
        return sorted(ping(way, body, loan, count))


def row(way: str, size: int, loan: bool, times: list[float]) -> tuple[str, ...]:
    shown = (f"{bus.percentile(times, share) / 1000:.2f}" for share in (0.5, 0.9, 0.99))
    return (f"{way}, {'loan' if loan else 'copy'}", f"{size:,}", *shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds")
    parser.add_argument("--json", metavar="FILE", help="write the percentiles there too")
    arguments = parser.parse_args()
    gc.disable()
    rows, result = list[tuple[str, ...]](), list[dict[str, object]]()
    for way in WAYS:
        for size in SIZES if way == "poll" else SIZES[:1]:
            for loan in (False, True) if size > 4096 else (False,):
                times = measure(way, size, loan, rounds(size, arguments.quick))
                rows.append(row(way, size, loan, times))
                p50, p99 = bus.percentile(times, 0.5), bus.percentile(times, 0.99)
                result.append({"way": way, "size": size, "loan": loan, "p50_ns": p50, "p99_ns": p99})
    machine = bus.baseline()
    rows += [(f"C {name}", "", f"{value / 1000:.2f}", "", "") for name, value in machine.items()]
    bus.show("Half round trip between two processes, µs", ("how", "bytes", "p50", "p90", "p99"), rows)
    bus.write_json(arguments.json, {"rtmw": result, "baseline_ns": machine})


if __name__ == "__main__":
    if sys.argv[1:2] == ["other"]:
        other(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1", int(sys.argv[5]))
    else:
        main()
