"""How much of a RELIABLE flood reaches several hosts at once over one line, by DDS and by links. Needs root.

`python -m tests.net.fan_out [HOSTS [SECONDS]]`. All that the sending host sends leaves through that line. DDS
multicasts, and a link is a connection to one host.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

import rtmw
from rtmw import Reliability
from rtmw.cli.terminal import Table, show
from tests.conftest import free_number
from tests.net.hosts import Host, wait_until
from tests.net.link.hosts import LinkHost
from tests.net.namespaces import Network

RATE = 100_000_000
SIZE = 64 << 10
SETTLED_S = 3.0
"""Of the flood, before it is measured: the line has been learned by then."""
RELIABLE = Reliability.RELIABLE
PORT = 7447


def measure(network: Network, hosts: list[Host], seconds: float) -> tuple[float, float]:
    """MiB a second that all subscribers got together, and that left the sending host."""
    with ExitStack() as kept:
        for host in hosts:
            kept.callback(host.end)
            host.start()
        source, *sinks = hosts
        subscribers = [
            kept.enter_context(rtmw.Subscriber("flood", domain=sink.domain, reliability=RELIABLE)) for sink in sinks
        ]
        publisher = kept.enter_context(
            rtmw.Publisher("flood", domain=source.domain, reliability=RELIABLE, max_blocking=0.01)
        )
        got = [0] * len(sinks)

        def flood(until: float) -> None:
            while time.monotonic() < until:
                publisher.publish(bytes(SIZE))
                for at, subscriber in enumerate(subscribers):
                    got[at] += len(subscriber.take_many(1000))

        def reaches_all() -> bool:
            flood(time.monotonic() + 0.1)
            return all(got)

        wait_until(reaches_all, "no flood")
        flood(time.monotonic() + SETTLED_S)
        before, sent, begun = sum(got), network.sent(0), time.monotonic()
        flood(begun + seconds)
        took = (time.monotonic() - begun) * 2**20
        return (sum(got) - before) * SIZE / took, (network.sent(0) - sent) / took


def main(count: int, seconds: float) -> None:
    rows = list[tuple[str, str, str]]()
    for way in ("DDS", "links"):
        with closing(Network(count + 1)) as network, tempfile.TemporaryDirectory() as name:
            network.narrow(0, RATE)
            places, folder, dds_domain = [network.place(at) for at in range(count + 1)], Path(name), free_number()
            if way == "DDS":
                hosts = [Host(free_number(), dds_domain, folder, place, "32M") for place in places]
            else:
                ends = ['listen = "0.0.0.0:{1}"', *['connect = ["{0}:{1}"]'] * count]
                ends = [f"{end.format(network.address(0), PORT)}\ninsecure = true" for end in ends]
                hosts = [LinkHost(folder, end, place, "32M") for end, place in zip(ends, places, strict=True)]
            arrived, left = measure(network, hosts, seconds)
            rows.append((way, f"{arrived:.1f}", f"{left:.1f}"))
    columns = ("way", f"MiB/s that reached {count} hosts together", "MiB/s that left")
    show(Table(f"A line of {RATE // 10**6} Mbit/s", columns, rows))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8, float(sys.argv[2]) if len(sys.argv) > 2 else 10.0)
