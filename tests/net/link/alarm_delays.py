"""How long an alarm takes behind a RELIABLE flood over a link, beside DDS and `max_rate`. Needs root.

`python -m tests.net.link.alarm_delays [SECONDS [PICTURE.svg]]`, `python -m tests.net.link.alarm_delays far [SECONDS]`
for lines with a delay, of which one loses packets. The slow part of the way lies behind a switch, with a
queue of half a second, where no buffer of the sender shows it. The hosts use one congestion control and then another.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import rtmw
from rtmw import Reliability
from rtmw.cli.terminal import Table, show
from tests.conftest import free_number
from tests.net.cable import Cable, Faults
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.link.nodes import ALL
from tests.net.namespaces import Network, run
from tests.ports import free_port

QUEUE_S = 0.5
IMAGE = 256 << 10
PERIOD_S = 0.05
"""Of the alarms."""
SETTLED_S = 4.0
"""Of the flood, before the first alarm: the line has been learned by then."""
SHARE = 0.88
"""Of what the line carries, as max_rate."""


@dataclass(frozen=True)
class Way:
    name: str
    has_link: bool = True
    has_rate: bool = False
    congestion: str = "reno"


WAYS = (
    Way("DDS", has_link=False),
    Way("link, reno"),
    Way("link, cubic", congestion="cubic"),
    Way("link, bbr", congestion="bbr"),
    Way("link, reno, max_rate", has_rate=True),
)
RATES = (8_000_000, 100_000_000)
"""Bits a second."""


@dataclass(frozen=True)
class FarLine:
    """A line of which the slow place and the delay lie between the hosts, and that loses a share of all frames."""

    bits_per_second: int
    lost: float = 0.0
    one_way_s: float = 0.01
    queue_s: float = 0.08

    def cable(self) -> Cable:
        delays, queue = (self.one_way_s, self.one_way_s), int(self.queue_s * self.bits_per_second / 8)
        return Cable(Faults(delays, self.lost, bits_per_second=self.bits_per_second, queue=queue))

    def __str__(self) -> str:
        return f"{line(self.bits_per_second)}, {100 * self.lost:g} % lost"


@contextmanager
def pair(way: Way, bits_per_second: int) -> Generator[tuple[Host, Host]]:
    """Two hosts with nodes, whose way to the second one is slow behind the switch."""
    network = Network(2)
    with closing(network):
        for at in (0, 1):
            network.narrow_behind(at, bits_per_second, QUEUE_S)
        with nodes(way, network, bits_per_second) as hosts:
            yield hosts


@contextmanager
def far_pair(way: Way, far: FarLine) -> Generator[tuple[Host, Host]]:
    with closing(far.cable()) as cable, nodes(way, cable, far.bits_per_second) as hosts:
        yield hosts


@contextmanager
def nodes(way: Way, network: Network | Cable, bits_per_second: int) -> Generator[tuple[Host, Host]]:
    port, dds = free_port(), free_number()
    with tempfile.TemporaryDirectory() as folder:
        domains = (dds, free_number() if way.has_link else dds)
        hosts = [Host(free_number(), domains[at], Path(folder), network.place(at), "64M") for at in (0, 1)]
        try:
            for at, host in enumerate(hosts):
                choose_congestion(network.place(at).enter, way.congestion)
                host.start(*settings(way, Path(folder), at, f"{network.address(0)}:{port}", bits_per_second))
            yield hosts[0], hosts[1]
        finally:
            for host in hosts:
                host.end()


def choose_congestion(enter: tuple[str, ...], algorithm: str) -> None:
    """What TCP of a host uses, by its routes: as the default of a namespace, a kernel may refuse it."""
    command = f"ip route | while read route; do ip route change $route congctl {algorithm} || exit; done"
    run(*enter, "sh", "-c", command)


def settings(way: Way, folder: Path, at: int, place: str, bits_per_second: int) -> tuple[str, ...]:
    """Arguments of a node: the first one listens, at `place`."""
    if not way.has_link:
        return ()
    where = f'connect = ["{place}"]' if at else f'listen = "{place}"'
    rate = f"max_rate = {int(SHARE * bits_per_second / 8)}\n" if way.has_rate else ""
    path = folder / f"{at}.toml"
    path.write_text(f"[link]\n{where}\ninsecure = true\n{rate}{ALL}")
    return "--config", str(path)


@dataclass
class Measured:
    """Milliseconds of each alarm, and what the flood brought meanwhile, as a share of the line."""

    delays: list[float]
    share: float

    def at(self, quantile: float) -> float:
        return sorted(self.delays)[min(len(self.delays) - 1, int(quantile * len(self.delays)))]


def measure(here: Host, there: Host, bits_per_second: int, seconds: float) -> Measured:
    """Alarms behind a flood from here to there."""
    reliable, over = Reliability.RELIABLE, threading.Event()
    with (
        rtmw.Publisher("flood", domain=here.domain, reliability=reliable, max_blocking=0.2) as out,
        rtmw.Subscriber("flood", domain=there.domain, reliability=reliable) as into,
        rtmw.Publisher("alarm", domain=here.domain, reliability=reliable, priority=7) as alarms,
        rtmw.Subscriber("alarm", domain=there.domain, reliability=reliable) as heard,
    ):
        for publisher in (out, alarms):
            assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        got = [0]

        def publish() -> None:
            image = bytes(IMAGE)
            while not over.is_set():
                out.publish(image)

        def take() -> None:
            while not over.is_set():
                got[0] += len(into.take_many(100))
                over.wait(0.005)

        threads = [threading.Thread(target=publish), threading.Thread(target=take)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: got[0] > 0, "the flood does not arrive")
            time.sleep(SETTLED_S)
            begun, before = time.monotonic(), got[0]
            delays = list[float]()
            while time.monotonic() < begun + seconds:
                said = time.monotonic()
                alarms.publish(bytes(64))
                heard.receive(timeout=PATIENCE)
                delays.append(1e3 * (time.monotonic() - said))
                over.wait(PERIOD_S)
            brought = (got[0] - before) * IMAGE * 8 / (time.monotonic() - begun)
        finally:
            over.set()
            for thread in threads:
                thread.join()
    return Measured(delays, brought / bits_per_second)


COLUMNS = ("line", "way", "p50, ms", "p99", "most", "flood, of the line")


def line(rate: int) -> str:
    return f"{rate / 1e6:g} Mbit/s"


def measure_all(seconds: float) -> dict[tuple[int, str], Measured]:
    """By lines and ways."""
    found: dict[tuple[int, str], Measured] = {}
    for rate in RATES:
        for way in WAYS:
            with pair(way, rate) as hosts:
                found[rate, way.name] = measure(*hosts, rate, seconds)
            print(row(rate, way.name, found[rate, way.name]), file=sys.stderr, flush=True)
    return found


def row(rate: int, way: str, found: Measured) -> tuple[str, ...]:
    delays = (f"{found.at(quantile):.1f}" for quantile in (0.5, 0.99, 1.0))
    return line(rate), way, *delays, f"{100 * found.share:.0f} %"


def draw(found: dict[tuple[int, str], Measured], path: Path) -> None:
    """Which share of the alarms has arrived after how long: a panel a line, a curve a way."""
    figure: Any = import_module("matplotlib.figure").Figure(figsize=(11, 4), layout="constrained")
    panels = figure.subplots(1, len(RATES), sharey=True)
    for axes, rate in zip(panels, RATES, strict=True):
        for way in WAYS:
            axes.ecdf(found[rate, way.name].delays, label=way.name)
        axes.set(xscale="log", xlabel="milliseconds from publish to take", title=f"Behind a flood, {line(rate)}")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(color="#dddddd")
    panels[0].set_ylabel("share of the alarms that have arrived")
    panels[0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


FAR_LINES = (FarLine(100_000_000), FarLine(100_000_000, lost=0.01))
FAR_WAYS = (Way("link"), Way("link, max_rate", has_rate=True))


def measure_far(seconds: float) -> None:
    rows: list[tuple[str, ...]] = []
    for far in FAR_LINES:
        for way in FAR_WAYS:
            with far_pair(way, far) as hosts:
                found = measure(*hosts, far.bits_per_second, seconds)
            rows.append((str(far), *row(far.bits_per_second, way.name, found)[1:]))
            print(rows[-1], file=sys.stderr, flush=True)
    show(Table("Alarms behind a flood on a far line", COLUMNS, rows))


def main(seconds: float, picture: Path | None) -> None:
    found = measure_all(seconds)
    rows = [row(*key, one) for key, one in found.items()]
    show(Table("Alarms behind a flood", COLUMNS, rows))
    if picture is not None:
        draw(found, picture)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["far"]:
        measure_far(float(words[1]) if len(words) > 1 else 10.0)
    else:
        main(float(words[0]) if words else 10.0, Path(words[1]) if len(words) > 1 else None)
