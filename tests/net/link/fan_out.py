"""What a flood to many hosts costs over links, beside DDS: how long an alarm waits, and processor time. Needs root.

`python -m tests.net.link.fan_out [--hosts 8] [--seconds 6] [--sizes 1024,65536] [--ways dds,tcp,tls] [--no-offload]
[--rate BITS]`, `python -m tests.net.link.fan_out --idle` for nodes that are all linked and have nothing to carry.
Figures of one run may be compared with each other, and with no others.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import rtmw
from rtmw import Reliability
from rtmw.cli.terminal import Table, show
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host
from tests.net.link.nodes import ALL
from tests.net.namespaces import INTERFACE, Network
from tests.net.security.site import Site

MIB = 1 << 20
PORT = 7447
PERIOD_S = 0.02
"""Of the alarms."""
SETTLED_S = 2.0
"""Of the flood, before the first alarm."""
_SIOCETHTOOL = 0x8946
_OFFLOADS = (0x1F, 0x24, 0x2C)
"""ETHTOOL_STSO, SGSO, SGRO."""


# ---- programs of their own ----


def flood(domain: int, size: int) -> None:
    """Publish as fast as RELIABLE subscribers allow."""
    with rtmw.Publisher(
        "flood", domain=domain, reliability=Reliability.RELIABLE, max_blocking=0.2, priority=0
    ) as publisher:
        payload = bytes(size)
        while True:
            publisher.publish(payload)


def alarm(domain: int, seconds: float) -> None:
    """Say the time again and again."""
    with rtmw.Publisher("alarm", domain=domain, reliability=Reliability.RELIABLE, priority=7) as publisher:
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            publisher.publish(struct.pack("d", time.monotonic()) + bytes(56))
            time.sleep(PERIOD_S)


def hear(domain: int) -> None:
    """Print how late each alarm is, in milliseconds."""
    with rtmw.Subscriber("alarm", domain=domain, reliability=Reliability.RELIABLE) as subscriber:
        print("ready", flush=True)
        while True:
            sample = subscriber.receive(timeout=PATIENCE)
            said = struct.unpack_from("d", sample.data)[0]
            print(f"{1e3 * (time.monotonic() - said):.3f}", flush=True)


def sink(seconds: float, *domains: int) -> None:
    """Take what the flood brings to all hosts; print how many bytes each had after `seconds`, and go on."""
    with ExitStack() as stack:
        subscribers = [
            stack.enter_context(rtmw.Subscriber("flood", domain=domain, reliability=Reliability.RELIABLE))
            for domain in domains
        ]
        got = [0] * len(domains)
        print("ready", flush=True)

        def take(until: float) -> None:
            while time.monotonic() < until:
                for at, subscriber in enumerate(subscribers):
                    for sample in subscriber.take_many(1000):
                        got[at] += len(sample.data)
                time.sleep(0.001)

        while not all(got):
            take(time.monotonic() + 0.1)
        print("flows", flush=True)
        take(time.monotonic() + SETTLED_S)
        before, begun = [*got], time.monotonic()
        print("begun", flush=True)
        take(begun + seconds)
        took = time.monotonic() - begun
        print(*((one - other) / took for one, other in zip(got, before, strict=True)), flush=True)
        take(time.monotonic() + PATIENCE)


# ---- what measures ----


@contextmanager
def program(name: str, *words: object) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.net.link.fan_out", f":{name}", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as one:
        try:
            yield one
        finally:
            one.kill()


def switch_off_offload() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in _OFFLOADS:
            value = bytearray(struct.pack("II", command, 0))
            buffer = (bytes(value), INTERFACE.encode())
            data = ctypes.create_string_buffer(buffer[0], len(buffer[0]))
            request = struct.pack("16sP8x", buffer[1], ctypes.addressof(data))
            fcntl.ioctl(any_socket, _SIOCETHTOOL, request)


def settings(way: str, at: int, source: str, site: Site | None, folder: Path, more: str) -> tuple[str, ...]:
    where = f'connect = ["{source}:{PORT}"]' if at else f'listen = "{source}:{PORT}"'
    who = f'keys = "{site.keys(f"rtmw://plant/h{at}")}"' if site else "insecure = true"
    path = folder / f"{at}.toml"
    path.write_text(f"[link]\n{where}\n{who}\n{more}{ALL}")
    return "--config", str(path)


@contextmanager
def hosts(way: str, count: int, offload: bool, rate: int, more: str = "") -> Generator[tuple[list[Host], Network]]:
    """The first one is the source; the nodes of the others are linked with it."""
    with closing(Network(count)) as network, tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, dds = Path(name), free_number()
        site = Site(folder / "site") if way == "tls" else None
        made: list[Host] = []
        for at in range(count):
            number = free_number()
            made.append(Host(number, dds if way == "dds" else number, folder, network.place(at), "64M"))
            stack.callback(made[-1].end)
            enter = network.place(at).enter
            if not offload:
                subprocess.run([*enter, sys.executable, "-m", "tests.net.link.fan_out", ":plain"], check=True)
        if rate:
            network.narrow(0, rate)
        for at, host in enumerate(made):
            host.start(*(() if way == "dds" else settings(way, at, network.address(0), site, folder, more)))
        yield made, network


def pid_of(host: Host) -> int:
    """Of the node, which may be run by `ip netns exec`: that one becomes it."""
    return host.node.pid


def spent(host: Host) -> float:
    """Seconds of processor time of a node so far."""
    words = Path(f"/proc/{pid_of(host)}/stat").read_text().rpartition(") ")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def quantile(delays: list[float], q: float) -> float:
    return sorted(delays)[min(len(delays) - 1, int(q * len(delays)))] if delays else float("nan")


def machine_s() -> float:
    """Seconds that the machine was not idle."""
    words = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(words) - words[3] - words[4]) / os.sysconf("SC_CLK_TCK")


def measure(way: str, size: int, given: argparse.Namespace) -> tuple[str, ...]:
    with (
        hosts(way, given.hosts + 1, not given.no_offload, given.rate, given.more) as (made, network),
        ExitStack() as stack,
    ):
        source, sinks = made[0], made[1:]
        listener = stack.enter_context(program("hear", sinks[0].number))
        assert listener.stdout is not None
        assert listener.stdout.readline() == "ready\n"
        taker = stack.enter_context(program("sink", given.seconds, *(host.number for host in sinks)))
        assert taker.stdout is not None
        assert taker.stdout.readline() == "ready\n"
        if size:
            stack.enter_context(program("flood", source.number, size))
        assert taker.stdout.readline() == "flows\n"
        assert taker.stdout.readline() == "begun\n"
        before, others, all_before = spent(source), sum(map(spent, sinks)), machine_s()
        sent = network.sent(0)
        with program("alarm", source.number, given.seconds) as alarms:
            rates = [float(word) for word in taker.stdout.readline().split()]
            used, used_elsewhere = spent(source) - before, sum(map(spent, sinks)) - others
            machine = machine_s() - all_before
            sent = network.sent(0) - sent
            alarms.wait(PATIENCE)
        time.sleep(0.5)
        listener.kill()
        delays = [float(line) for line in listener.stdout.read().split()]
    delivered = sum(rates) * given.seconds / MIB
    costs = (1e3 * one / delivered for one in (used, used + used_elsewhere, machine))
    times = (quantile(delays, 0.5), quantile(delays, 0.99), max(delays, default=0.0))
    shown = (sum(rates) / MIB, *costs, min(rates) / max(rates), sent / given.seconds / MIB)
    return (way, str(size), *(f"{one:.2f}" for one in (*times, *shown)), str(len(delays)))


COLUMNS = (
    "way", "bytes", "p50, ms", "p99", "most", "MiB/s, all", "ms a MiB, source", "all nodes", "machine", "fairness",
    "MiB/s, sent", "alarms",
)  # fmt: skip


def idle(way: str, given: argparse.Namespace) -> tuple[str, ...]:
    """Nodes that are all linked with each other."""
    count = given.hosts
    with closing(Network(count)) as network, tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, dds = Path(name), free_number()
        site = Site(folder / "site") if way == "tls" else None
        made: list[Host] = []
        for at in range(count):
            number = free_number()
            made.append(Host(number, dds if way == "dds" else number, folder, network.place(at), "8M"))
            stack.callback(made[-1].end)
        for at, host in enumerate(made):
            if way == "dds":
                host.start()
                continue
            who = f'keys = "{site.keys(f"rtmw://plant/h{at}")}"' if site else "insecure = true"
            dials = ", ".join(f'"{network.address(other)}:{PORT}"' for other in range(at))
            path = folder / f"{at}.toml"
            path.write_text(
                f'[link]\nlisten = "{network.address(at)}:{PORT}"\nconnect = [{dials}]\n{who}\n{given.more}{ALL}'
            )
            host.start("--config", str(path))
        time.sleep(8)
        before, sent = sum(map(spent, made)), sum(map(network.sent, range(count)))
        time.sleep(given.seconds)
        used = sum(map(spent, made)) - before
        bytes_ = sum(map(network.sent, range(count))) - sent
        links = 0 if way == "dds" else sum(peer["up"] for host in made for peer in host.info()["links"]["peers"])
        threads = sum(len(os.listdir(f"/proc/{pid_of(host)}/task")) for host in made)
    return (way, str(links), f"{bytes_ / given.seconds:.0f}", f"{1e3 * used / given.seconds:.1f}", str(threads))


def main(given: argparse.Namespace) -> None:
    ways = given.ways.split(",")
    if given.idle:
        rows = [idle(way, given) for way in ways]
        show(Table("Idle", ("way", "links, both ends", "bytes a second", "ms a second", "threads"), rows))
        return
    rows = []
    for size in map(int, given.sizes.split(",")):
        for way in ways:
            rows.append(measure(way, size, given))
            print(rows[-1], file=sys.stderr, flush=True)
    show(Table("Alarms behind a flood", COLUMNS, rows))


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1].startswith(":"):
        name, *words = sys.argv[1:]
        if name == ":plain":
            switch_off_offload()
        elif name == ":flood":
            flood(int(words[0]), int(words[1]))
        elif name == ":alarm":
            alarm(int(words[0]), float(words[1]))
        elif name == ":hear":
            hear(int(words[0]))
        else:
            sink(float(words[0]), *map(int, words[1:]))
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("--hosts", type=int, default=8)
        parser.add_argument("--seconds", type=float, default=6.0)
        parser.add_argument("--sizes", default="65536")
        parser.add_argument("--ways", default="dds,tcp")
        parser.add_argument("--rate", type=int, default=0)
        parser.add_argument("--more", default="")
        parser.add_argument("--no-offload", action="store_true")
        parser.add_argument("--idle", action="store_true")
        main(parser.parse_args())
