"""`python -m tests.net.alarm_delays`: the delay of alarms behind a flood (bench/results/measured.md). Needs root."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from rtmw.cli.terminal import Table, show
from tests.conftest import free_number
from tests.net.hosts import Host
from tests.net.namespaces import Network
from tests.net.test_pacing import DATAGRAM_BITS, Alarms, flood

LINES = (1_000_000, 8_000_000, 100_000_000, 0)
"""Bits a second; 0: no limit."""
ALARMS = 100
SETTLED_S = 5.0
"""Of the flood, before the first alarm: the line has been learned by then."""


@contextmanager
def hosts(bits_per_second: int) -> Generator[tuple[Host, Host]]:
    """Two, with nodes, on a line of this rate."""
    network, dds_domain = Network(2), free_number()
    with tempfile.TemporaryDirectory() as folder:
        pair = [Host(free_number(), dds_domain, Path(folder), network.place(at), "64M") for at in (0, 1)]
        try:
            for at, host in enumerate(pair):
                if bits_per_second:
                    network.narrow(at, bits_per_second)
                host.start()
            yield pair[0], pair[1]
        finally:
            for host in pair:
                host.end()
            network.close()


def measure(bits_per_second: int) -> tuple[float, float]:
    """Milliseconds, in the middle of ALARMS: alone, and behind the flood."""
    with hosts(bits_per_second) as pair:
        alarms = Alarms(*pair)
        alone = median(alarms.one() for _ in range(ALARMS))
        with flood(*pair):
            time.sleep(SETTLED_S)
            return 1e3 * alone, 1e3 * median(alarms.one() for _ in range(ALARMS))


def main() -> None:
    rows: list[tuple[str, ...]] = []
    for rate in LINES:
        alone, behind = measure(rate)
        datagram = f"{1e3 * DATAGRAM_BITS / rate:.2g} ms" if rate else ""
        rows.append((f"{rate / 1e6:g} Mbit/s" if rate else "no limit", datagram, f"{alone:.2g} ms", f"{behind:.2g} ms"))
    show(Table("Alarms", ("line", "a datagram of 1,500 bytes takes", "an alarm alone", "behind a flood"), rows))


if __name__ == "__main__":
    main()
