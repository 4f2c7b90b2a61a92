"""What nodes cost while nothing is published: two hosts in network namespaces, with many topics that cross.

`python -m tests.net.silence 1000` prints it for so many topics: of each node the part of a core and its memory, and the
bytes a second that both have sent, of whatever protocol.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import rtmw
from tests.conftest import free_number
from tests.net.hosts import Host, wait_until
from tests.net.namespaces import Network

POOL = "128M"
"""For more than 1,000 topics."""
BUILDING_S = 300.0
"""For all topics to be matched, or to be given up again."""


@dataclass(frozen=True)
class Cost:
    """Of a span of time."""

    seconds: float
    cpu: tuple[float, ...]
    """Of each node, the part of a core that it took."""
    sent: int
    """Bytes that all hosts sent, of whatever protocol."""

    @property
    def bytes_per_second(self) -> float:
        return self.sent / self.seconds


class Pair:
    """Two hosts at one bridge, their nodes running."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self.network = Network(2)
        self._stack.callback(self.network.close)
        number, self.hosts = free_number(), list[Host]()
        for at in range(2):
            self.hosts.append(Host(free_number(), number, folder, self.network.place(at), POOL))
            self._stack.callback(self.hosts[-1].end)
        for host in self.hosts:
            host.start()

    def close(self) -> None:
        self._stack.close()

    def cpu_s(self) -> list[float]:
        """Seconds of a processor that each node has taken, its threads and the kernel for it."""
        return [cpu_s(host.node.pid) for host in self.hosts]

    def memory(self) -> list[int]:
        """Bytes of each node that are its own and in memory."""
        return [memory(host.node.pid) for host in self.hosts]

    def cost(self, seconds: float) -> Cost:
        """Of what goes on while nobody does anything."""
        begin, cpu, sent = time.monotonic(), self.cpu_s(), self._sent()
        time.sleep(seconds)
        took = time.monotonic() - begin
        spent = tuple((now - then) / took for now, then in zip(self.cpu_s(), cpu, strict=True))
        return Cost(took, spent, self._sent() - sent)

    def _sent(self) -> int:
        return sum(self.network.sent(host) for host in range(2))

    @contextmanager
    def topics(self, count: int) -> Iterator[None]:
        """So many, published on one host and read on the other, by RELIABLE programs; all of them cross."""
        here, there = self.hosts
        names, reliable = [f"silent/{number}" for number in range(count)], rtmw.Reliability.RELIABLE
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(rtmw.Subscriber(name, domain=there.domain, reliability=reliable))
                stack.enter_context(rtmw.Publisher(name, domain=here.domain, reliability=reliable))
            wait_until(lambda: self._crossing() == count, "not all of the topics cross", BUILDING_S)
            yield
        wait_until(lambda: self._crossing() == 0, "some of the topics cross though they are over", BUILDING_S)

    def _crossing(self) -> int:
        """Topics that are read on the other side, as both nodes see it."""
        here, there = (host.info() for host in self.hosts)
        sent = {row["topic"] for row in here["out"] if row["readers"] and row["topic"].startswith("silent/")}
        return len(sent & {row["topic"] for row in there["in"] if row["writers"]})


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) << 10 for row in rows if row.startswith("RssAnon:"))


def _say(what: str, pair: Pair, seconds: float) -> None:
    cost = pair.cost(seconds)
    cpu = " + ".join(f"{100 * part:.2f} %" for part in cost.cpu)
    memory = " + ".join(f"{size / 1e6:.0f} MB" for size in pair.memory())
    print(f"{what}: {cpu} of a core, {cost.bytes_per_second:,.0f} B/s, {memory}", flush=True)


def main(topics: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(Path(folder))
        try:
            _say("no topics", pair, seconds)
            for turn in ("topics", "topics, once more"):
                begin = time.monotonic()
                with pair.topics(topics):
                    pids = ", ".join(str(host.node.pid) for host in pair.hosts)
                    print(f"{topics} crossed after {time.monotonic() - begin:.1f} s: nodes {pids}", flush=True)
                    time.sleep(5)
                    _say(f"{topics} {turn}", pair, seconds)
                time.sleep(5)
                _say("without them", pair, seconds)
        finally:
            pair.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 20.0)
