"""Lines beside nodes over DDS, in turn and in one run: `python -m tests.net.link.speed [SECONDS]`. Only ratios say
something. Each has two processes that carry, and two programs: one here, and one that echoes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import rtmw
from rtmw import Reliability
from rtmw.net.neighbours import origin
from tests.conftest import free_number
from tests.net.hosts import Host
from tests.net.link.ends import tcp_pair

LARGE = 1 << 20
SMALL = 64
POOL = "256M"
WINDOW = 32 << 20
TOPICS = ("forth", "back", "small")

CARRY = """
import sys
from rtmw.net.link.library import Bus, Connection, Line
bus = Bus(int(sys.argv[1]))
line = Line(bus, 64 << 20)
first = sys.argv[2] == "0"
for number, topic in enumerate(("forth", "back", "small"), 1):
    if first == (topic != "back"):
        keep = line.outbound(number, topic, None, 2, 1000, 0, 0, 0)
        globals()[topic] = keep
line.carry(Connection(int(sys.argv[3])), Connection(int(sys.argv[4])))
print("ready", flush=True)
sys.stdin.readline()
for number, topic in enumerate(("forth", "back", "small"), 1):
    if first == (topic == "back"):
        globals()[topic] = line.inbound(number, topic, None, 2, 0, 1000, 0, sys.argv[5], True, int(sys.argv[6]))
sys.stdin.read()
"""

ECHO = """
import sys, rtmw
domain = rtmw.Domain(int(sys.argv[1]))
kind = rtmw.Reliability.RELIABLE
back = rtmw.Publisher("back", domain=domain, reliability=kind, max_blocking=60)
forth = rtmw.Subscriber("forth", domain=domain, reliability=kind, depth=1000)
print("ready", flush=True)
for sample in iter(lambda: forth.receive(), None):
    back.publish(sample.data)
"""


def start(source: str, *arguments: object, keep: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", source, *map(str, arguments)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=keep)
    assert child.stdout
    assert child.stdout.readline() == b"ready\n"
    return child


def end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.communicate()


@contextmanager
def over_line(here: rtmw.Domain, there: rtmw.Domain) -> Generator[None]:
    (one, other), (third, fourth) = tcp_pair(), tcp_pair()
    mine, theirs = (one.fileno(), third.fileno()), (other.fileno(), fourth.fileno())
    children = [
        start(CARRY, here.id, 0, *mine, origin(there), WINDOW, keep=mine),
        start(CARRY, there.id, 1, *theirs, origin(here), WINDOW, keep=theirs),
    ]
    for child in children:
        assert child.stdin
        child.stdin.write(b"go\n")
        child.stdin.flush()
    yield
    for child in children:
        end(child)
    for one_end in (one, other, third, fourth):
        one_end.close()


def measured(here: rtmw.Domain, there: rtmw.Domain, seconds: float) -> tuple[float, float]:
    """Half a round trip of 1 MiB in µs, and messages of 64 B a second, one way."""
    kind = Reliability.RELIABLE
    echo = start(ECHO, there.id)
    try:
        with (
            rtmw.Publisher("forth", domain=here, reliability=kind, max_blocking=60) as forth,
            rtmw.Subscriber("back", domain=here, reliability=kind, depth=1000) as back,
            rtmw.Publisher("small", domain=here, reliability=kind, max_blocking=60) as small,
            rtmw.Subscriber("small", domain=there, reliability=kind, depth=4000, lease=60) as heard,
        ):
            assert forth.wait_for_subscribers(1, timeout=60)
            assert small.wait_for_subscribers(1, timeout=60)
            return round_trip(forth, back, seconds), rate(small, heard, seconds)
    finally:
        end(echo)


def answers(back: rtmw.Subscriber[bytes]) -> bool:
    try:
        back.receive(timeout=0.5)
    except TimeoutError:
        return False
    return True


def round_trip(forth: rtmw.Publisher[bytes], back: rtmw.Subscriber[bytes], seconds: float) -> float:
    payload = bytes(LARGE)
    times = list[float]()
    while not (forth.publish(payload) and answers(back)):  # until all have found each other
        pass
    while answers(back):
        pass
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begin = time.perf_counter()
        forth.publish(payload)
        back.receive(timeout=60)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) / 2 * 1e6


def rate(small: rtmw.Publisher[bytes], heard: rtmw.Subscriber[bytes], seconds: float) -> float:
    values = [bytes(SMALL)] * 500
    sent = got = 0
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        sent += small.publish_many(values)
        got += len(heard.take_many(4000))
    while got < sent:
        got += len(heard.take_many(4000))
    return got / (time.monotonic() - begin)


def main(seconds: float) -> None:
    numbers = [free_number() for _ in range(4)]
    dds = free_number()
    rows: dict[str, list[tuple[float, float]]] = {"DDS": [], "line": []}
    try:
        with tempfile.TemporaryDirectory() as folder:
            hosts = [Host(number, dds, Path(folder), pool=POOL) for number in numbers[:2]]
            mine = [rtmw.Domain(number, pool=POOL) for number in numbers[2:]]
            for host in hosts:
                host.start()
            with over_line(*mine):
                for _ in range(2):
                    rows["DDS"].append(measured(hosts[0].domain, hosts[1].domain, seconds))
                    rows["line"].append(measured(mine[0], mine[1], seconds))
            for host in hosts:
                host.stop()
    finally:
        for number in numbers:
            rtmw.Domain.unlink(number)
    medians = {name: [statistics.median(one) for one in zip(*found, strict=True)] for name, found in rows.items()}
    for name, (trip, small) in medians.items():
        print(f"{name:5} half a round trip of 1 MiB {trip:7.0f} µs, 64 B {small / 1e6:.3f} M/s")
    trip, small = (line / dds for line, dds in zip(medians["line"], medians["DDS"], strict=True))
    print(f"line / DDS: half a round trip {trip:.2f} x, rate of 64 B {small:.2f} x")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0)
