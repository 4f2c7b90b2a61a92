"""How long a stream stands while a node is restarted, beside the time in which any program with DDS starts."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import median

import pytest

from tests.net.hosts import Host, wait_until
from tests.net.test_restart import Load, load, restart  # noqa: F401  # load: a fixture

ROUNDS = 3
MOST = 6
"""Starts of a bare program that a restart may take: 3 were measured, and 2 with the processors busy."""
BARE = """
import sys
from cyclonedds.domain import DomainParticipant
participant = DomainParticipant(int(sys.argv[1]))
"""
LOOPBACK = '<General><Interfaces><NetworkInterface name="lo" multicast="true"/></Interfaces></General>'


class Arrivals:
    """When messages of a load came; they are taken in a thread of its own."""

    def __init__(self, stream: Load) -> None:
        self._load, self._ends, self._times = stream, threading.Event(), list[float]()
        self._thread = threading.Thread(target=self._take)

    @contextmanager
    def watched(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ends.set()
            self._thread.join()

    def _take(self) -> None:
        come = len(self._load.got)
        while not self._ends.is_set():
            before, come = come, self._load.take()
            if come > before:
                self._times.append(time.monotonic())
            else:
                self._ends.wait(0.001)

    def more(self, count: int) -> None:
        """Wait until so many more times something has come."""
        wanted = len(self._times) + count
        wait_until(lambda: len(self._times) >= wanted, "the stream does not go on")

    def longest_silence(self, since: float) -> float:
        """Seconds."""
        return max(after - before for before, after in pairwise([since, *(one for one in self._times if one > since)]))


def seconds_to_start_bare(dds_domain: int) -> float:
    """Python, with the DDS library and a participant, from its start to its end."""
    env = {**os.environ, "CYCLONEDDS_URI": LOOPBACK}
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", BARE, str(dds_domain)], env=env, check=True)
    return time.monotonic() - begun


@pytest.mark.parametrize("which", [0, 1], ids=["of the publisher", "of the subscriber"])
# Proves G301.
def test_a_stream_stands_for_a_few_starts_of_a_bare_program_while_a_node_is_restarted(
    hosts: tuple[Host, Host],
    load: Load,  # noqa: F811
    which: int,
) -> None:
    load.come(2000)
    hosts[which].begins_warm = False
    arrivals, silences, bare = Arrivals(load), list[float](), list[float]()
    with arrivals.watched():
        for _ in range(ROUNDS):
            bare.append(seconds_to_start_bare(hosts[0].dds_domain))
            begun = time.monotonic()
            restart(hosts[which])
            arrivals.more(100)
            silences.append(arrivals.longest_silence(begun))
    load.all_came_once()
    said = f"{[round(one, 2) for one in silences]} s, and a bare start {[round(one, 2) for one in bare]} s"
    print(said)
    assert median(silences) < MOST * median(bare), said
