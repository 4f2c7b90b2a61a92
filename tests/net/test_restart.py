"""A node that is stopped leaves its RELIABLE topics to the next one: nothing is lost, nobody waits for long in vain."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until
from tests.net.ways import BOTH_WAYS

TOPIC = "handed/over"
LONG = ("--handover", str(PATIENCE))


class Load:
    """Numbers from one host to another, by a publisher that waits for as long as it has to."""

    def __init__(self, here: Host, there: Host, digits: int = 1) -> None:
        """`digits`: at least so many has each number."""
        reliable = Reliability.RELIABLE
        self.subscriber = rtmw.Subscriber(TOPIC, domain=there.domain, reliability=reliable, depth=1000)
        self.publisher = rtmw.Publisher(TOPIC, domain=here.domain, reliability=reliable, max_blocking=PATIENCE)
        assert self.publisher.wait_for_subscribers(1, timeout=PATIENCE)
        self.sent, self.got, self.refused, self._digits = 0, list[int](), 0, digits
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        while not self._end.is_set():
            if self.publisher.publish(b"%0*d" % (self._digits, self.sent)):
                self.sent += 1
            else:
                self.refused += 1

    def come(self, more: int) -> None:
        """Wait until so many more have come."""
        wanted = len(self.got) + more
        wait_until(lambda: self.take() >= wanted, f"{more} more do not come")

    def take(self) -> int:
        self.got += [int(sample.value) for sample in self.subscriber.take_many(1000)]
        return len(self.got)

    def end(self) -> None:
        """Publish no more. What the publisher waits for is taken meanwhile."""
        self._end.set()
        while self._thread.is_alive():
            self.take()
            self._thread.join(0.01)

    def all_came_once(self) -> None:
        self.end()
        stats = self.subscriber.stats
        wait_until(lambda: self.take() + stats().missed >= self.sent, f"of {self.sent} some neither come nor are told")
        assert (self.refused, stats().missed) == (0, 0)
        assert self.got == [*range(self.sent)]


@pytest.fixture
def load(hosts: tuple[Host, Host]) -> Iterator[Load]:
    for host in hosts:
        host.start(*LONG)
    stream = Load(*hosts)
    yield stream
    stream.end()


def restart(host: Host) -> None:
    assert host.stop() == 0
    host.start(*LONG)


@BOTH_WAYS
# Proves G277.
def test_a_node_stopped_and_started_again_twice_under_load_loses_nothing(hosts: tuple[Host, Host], load: Load) -> None:
    load.come(2000)
    restart(hosts[0])  # meanwhile nobody takes anything there, so that the node is told to pause
    load.come(2000)
    restart_while_taking(load, hosts[0])
    load.come(2000)
    load.all_came_once()
    assert hosts[1].crossed("in", TOPIC)["lost"] == 0


def while_taking(load: Load, act: Callable[[Host], int | None], *hosts: Host) -> None:
    """Do this to their nodes, all at once, while the subscriber takes what comes. `act`: 0 or None is well."""
    with ThreadPoolExecutor(len(hosts)) as pool:
        done = [pool.submit(act, host) for host in hosts]
        wait_until(lambda: bool(load.take()) and all(one.done() for one in done), "a node does not end, or start again")
    assert not any(one.result() for one in done)


def restart_while_taking(load: Load, *hosts: Host) -> None:
    """Their nodes, all at once."""
    while_taking(load, restart, *hosts)


@BOTH_WAYS
# Proves G240.
def test_the_node_of_the_subscriber_restarted_again_and_again_under_load_loses_nothing(
    hosts: tuple[Host, Host], load: Load
) -> None:
    for _ in range(4):
        load.come(2000)
        restart_while_taking(load, hosts[1])
    load.come(2000)
    load.all_came_once()
    assert hosts[1].crossed("in", TOPIC)["lost"] == 0


@BOTH_WAYS
# Proves G277.
def test_what_a_program_published_and_left_while_no_node_ran_is_carried_by_the_next(pair: tuple[Host, Host]) -> None:
    here, there = pair
    load = Load(here, there)
    load.come(10)
    load.end()
    here.stop()
    for _ in range(20):
        assert load.publisher.publish(b"%d" % load.sent)
        load.sent += 1
    load.publisher.close()
    here.start()
    load.all_came_once()


# Proves G278.
def test_publishers_go_on_after_the_handover_when_no_node_comes_and_the_next_one_tells_how_many_are_lost(
    hosts: tuple[Host, Host],
) -> None:
    here, there = hosts
    here.start("--handover", "1")
    there.start()
    load = Load(here, there)
    load.come(100)
    load.end()
    here.stop()
    begun = time.monotonic()
    for _ in range(1000):  # more than wait for it: with the first that does not fit, publish waits
        assert load.publisher.publish(b"%d" % load.sent)
        load.sent += 1
    assert time.monotonic() - begun < PATIENCE / 2
    here.start()
    assert load.publisher.wait_for_subscribers(1, timeout=PATIENCE)

    def comes() -> bool:
        load.sent += load.publisher.publish(b"%d" % load.sent)
        load.take()
        return load.got[-1] >= load.sent - 1

    wait_until(comes, "no stream again")
    assert load.subscriber.stats().missed == load.got[-1] + 1 - len(load.got) >= 1000
    missed = load.subscriber.stats().missed
    wait_until(lambda: there.crossed("in", TOPIC)["lost"] == missed, "the node does not count it")


@BOTH_WAYS
def test_a_publisher_that_does_not_wait_is_told_while_no_node_runs(pair: tuple[Host, Host]) -> None:
    here, there = pair
    load = Load(here, there)
    load.come(10)
    load.end()
    here.stop()
    with rtmw.Publisher(TOPIC, domain=here.domain, reliability=Reliability.RELIABLE, max_blocking=0) as publisher:
        kept = 0
        while publisher.publish(b"x"):
            kept += 1
        assert 0 < kept <= 1000
        assert publisher.stats().timed_out == 1


# Proves G267.
def test_a_node_that_is_told_to_end_while_it_begins_anew_ends(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    here, there = hosts
    file = tmp_path / "node.toml"
    file.write_text('peers = ["127.0.0.1"]\n')
    there.start("--peers", "127.0.0.1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notified"))
        supervisor.settimeout(PATIENCE)
        node = here.launch("--config", str(file), "--handover", "1", notify=str(tmp_path / "notified"))
        load = Load(here, there)
        load.come(10)
        halt(there)  # what is on its way is not acknowledged, so that the node needs long to end
        file.write_text('peers = ["127.0.0.1", "127.0.0.2"]\n')
        node.send_signal(signal.SIGHUP)
        while supervisor.recv(100) != b"STOPPING=1":
            pass
        node.send_signal(signal.SIGTERM)
        assert node.wait(PATIENCE) == 0
    go_on(there)
    assert "does not begin anew" in here.said
    assert here.said.count("is carried on") == 1
    load.end()
