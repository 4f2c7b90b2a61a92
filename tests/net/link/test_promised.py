"""The promises of docs/node.md over links, through two nodes: those that no test shows of both ways (ways.py)."""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.link.links import POOL_PART
from tests.net.cable import Cable as BadCable
from tests.net.cable import Faults, obstacle
from tests.net.hosts import PATIENCE, Host, Place, go_on, halt, wait_until
from tests.net.link.cable import Cabled
from tests.net.link.hosts import LinkHost, linked_hosts

RELIABLE, ADAPTIVE, TIMELY = Reliability.RELIABLE, Reliability.ADAPTIVE, Reliability.TIMELY
FREE = os.statvfs("/dev/shm").f_bavail * os.statvfs("/dev/shm").f_frsize
MANY = 3000
POOL = 128 << 20
LARGE = POOL // POOL_PART
"""As much as a link lets lie in the pool until it is acknowledged."""


@pytest.fixture
def cut(cabled: Cabled) -> Cabled:
    """With a cable that can be cut, and a link that is up."""
    cabled[0].start().wait_up()
    return cabled


def numbers(taker: rtmw.Subscriber[bytes]) -> list[int]:
    return [int.from_bytes(one.data[:4], "little") for one in taker.take_many(10_000)]


@pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
# Proves G240.
def test_a_cable_that_loses_and_doubles_frames_loses_nothing_reliable(tmp_path: Path) -> None:
    cable, hosts = BadCable(Faults(delay_s=(0.0, 0.002), lost=0.05, twice=0.05)), list[Host]()
    with ExitStack() as stack:
        stack.callback(cable.close)
        words = ('listen = "10.78.0.1:7447"\ninsecure = true', 'connect = ["10.78.0.1:7447"]\ninsecure = true')
        for end, link in enumerate(words):
            hosts.append(LinkHost(tmp_path, link, Place(cable.place(end).enter)))
            stack.callback(hosts[-1].end)
            hosts[-1].start()
        taker = stack.enter_context(rtmw.Subscriber("a", reliability=RELIABLE, depth=500, domain=hosts[1].domain))
        out = stack.enter_context(
            rtmw.Publisher("a", reliability=RELIABLE, max_blocking=PATIENCE, domain=hosts[0].domain)
        )
        assert out.wait_for_subscribers(1, timeout=PATIENCE)
        got = list[int]()
        for number in range(300):
            assert out.publish(number.to_bytes(3000, "little"))
            got += numbers(taker)
        wait_until(lambda: bool(got.extend(numbers(taker)) or len(got) == 300), "all come")
        assert got == [*range(300)]
        assert cable.carried > 600


def until_newest(taker: rtmw.Subscriber[bytes]) -> list[int]:
    got = list[int]()
    wait_until(lambda: bool(got.extend(numbers(taker)) or got[-1:] == [MANY - 1]), "the newest comes")
    return got


def in_a_cut(cut: Cabled, kind: Reliability, depth: int, count: int) -> list[int]:
    """What comes of so many messages that are published while the link is cut for less than its lease."""
    pair, cable = cut
    with (
        rtmw.Subscriber("a", reliability=kind, depth=2 * count, domain=pair.hub.domain) as taker,
        rtmw.Publisher("a", reliability=kind, depth=depth, max_blocking=PATIENCE, domain=pair.press.domain) as out,
    ):
        assert out.wait_for_subscribers(1, timeout=PATIENCE)
        out.publish(b"before")
        assert taker.receive(timeout=PATIENCE).value == b"before"
        cable.cut(stays_down=True)
        wait_until(lambda: not pair.is_up("press"), "the cut is seen")
        for number in range(count):
            out.publish(number.to_bytes(70_000, "little"))
        cable.mend()
        got = list[int]()

        def last_came() -> bool:
            got.extend(numbers(taker))
            return bool(got) and got[-1] == count - 1

        wait_until(last_came, "the newest comes")
        return got


# Proves G240.
def test_of_adaptive_what_was_published_in_a_cut_comes_while_it_is_among_the_last(cut: Cabled) -> None:
    got = in_a_cut(cut, ADAPTIVE, 8, 100)
    assert got[-8:] == [*range(92, 100)]
    assert got == sorted(set(got)), "in order, and once"
    assert len(got) < 100, "what was taken before the cut was seen may come, and what was evicted does not"
    ended = cut[0].press.info
    wait_until(lambda: [row["missed"] for row in ended()["ended"]["out"]] == [100 - len(got)], "it is counted")


def test_a_link_that_is_too_slow_makes_reliable_publishers_wait_and_others_lose_the_oldest(tmp_path: Path) -> None:
    here, there = linked_hosts(tmp_path)
    with ExitStack() as stack:
        for host in (here, there):
            stack.callback(host.end)
        here.start("--max-rate", "500K")
        there.start()
        takers = {
            kind: stack.enter_context(rtmw.Subscriber(kind.name, reliability=kind, depth=1000, domain=there.domain))
            for kind in Reliability
        }
        outs = {
            kind: stack.enter_context(
                rtmw.Publisher(kind.name, reliability=kind, depth=10, max_blocking=0, domain=here.domain)
            )
            for kind in Reliability
        }
        for out in outs.values():
            assert out.wait_for_subscribers(1, timeout=PATIENCE)
        accepted = dict.fromkeys(Reliability, 0)
        for number in range(MANY):
            for kind, out in outs.items():
                accepted[kind] += bool(out.publish(number.to_bytes(10_000, "little")))
        assert accepted[RELIABLE] < MANY, "it was told to wait"
        assert outs[RELIABLE].stats().timed_out == MANY - accepted[RELIABLE]
        assert accepted[ADAPTIVE] == accepted[TIMELY] == MANY
        for kind in (ADAPTIVE, TIMELY):
            got = until_newest(takers[kind])
            assert got == sorted(set(got))
            missing = MANY - len(got)
            assert missing > 0
            wait_until(lambda: here.crossed("out", kind.name)["missed"] == missing, "what gave way is counted")  # noqa: B023
        whole = list[int]()
        wait_until(lambda: bool(whole.extend(numbers(takers[RELIABLE])) or len(whole) == accepted[RELIABLE]), "all")


def test_publishers_wait_for_a_subscriber_that_stands_still_as_long_as_its_node_lives(cut: Cabled) -> None:
    pair, _ = cut
    with ExitStack() as stack:
        taker = stack.enter_context(
            rtmw.Subscriber("a", reliability=RELIABLE, depth=4, lease=PATIENCE, domain=pair.hub.domain)
        )
        out = stack.enter_context(rtmw.Publisher("a", reliability=RELIABLE, max_blocking=0, domain=pair.press.domain))
        assert out.wait_for_subscribers(1, timeout=PATIENCE)
        sent = 0

        def is_full() -> bool:
            nonlocal sent
            before = sent
            while out.publish(sent.to_bytes(50_000, "little")):
                sent += 1
            return sent == before

        wait_until(is_full, "the publisher is told to wait")
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            assert not out.publish(b"x")
        got = list[int]()
        wait_until(lambda: bool(got.extend(numbers(taker)) or len(got) == sent), "all come when it goes on")
        assert got == [*range(sent)]


def test_what_the_last_publisher_has_left_behind_is_delivered_in_spite_of_a_cut(cut: Cabled) -> None:
    pair, cable = cut
    with rtmw.Subscriber("a", reliability=RELIABLE, depth=100, domain=pair.hub.domain) as taker:
        with rtmw.Publisher("a", reliability=RELIABLE, depth=100, domain=pair.press.domain) as out:
            assert out.wait_for_subscribers(1, timeout=PATIENCE)
            cable.cut(stays_down=True)
            for number in range(50):
                assert out.publish(number.to_bytes(4, "little"))
        cable.mend()
        got = list[int]()
        wait_until(lambda: bool(got.extend(numbers(taker)) or len(got) == 50), "all come")
        assert got == [*range(50)]


@pytest.mark.skipif(FREE < 3 * POOL, reason=f"needs {3 * POOL >> 20} MiB of /dev/shm, {FREE >> 20} are free")
def test_large_messages_leave_from_the_pool_and_come_into_a_loan(tmp_path: Path) -> None:
    here, there = linked_hosts(tmp_path, str(POOL))
    with ExitStack() as stack:
        for host in (here, there):
            stack.callback(host.end)
            host.start()
        taker = stack.enter_context(rtmw.Subscriber("large", reliability=RELIABLE, lease=PATIENCE, domain=there.domain))
        out = stack.enter_context(
            rtmw.Publisher("large", reliability=RELIABLE, max_blocking=PATIENCE, domain=here.domain)
        )
        assert out.wait_for_subscribers(1, timeout=PATIENCE)
        before = private_bytes(here)
        payloads = [np.random.default_rng(seed).bytes(LARGE) for seed in range(2)]
        assert out.publish(payloads[0])
        assert bytes(taker.receive(timeout=PATIENCE).data) == payloads[0]
        halt(there)
        stack.callback(go_on, there)
        assert out.publish(payloads[1])
        wait_until(lambda: here.crossed("out", "large")["sent"] == 2, "it is being sent")
        assert private_bytes(here) - before < LARGE // 2, "it lies in the pool, and nowhere else"
        go_on(there)
        assert bytes(taker.receive(timeout=PATIENCE).data) == payloads[1]
        wait_until(lambda: there.crossed("in", "large")["uncopied"] == 2, "both lay in a loan")


def private_bytes(host: Host) -> int:
    """Memory of its node, without that of its domain."""
    return 1024 * int(re.search(r"RssAnon:\s*(\d+)", Path(f"/proc/{host.node.pid}/status").read_text())[1])  # type: ignore[index]


def test_the_deadline_of_a_subscriber_is_missed_when_the_link_is_cut(cut: Cabled) -> None:
    pair, cable = cut
    over = threading.Event()
    with ExitStack() as stack:
        taker = stack.enter_context(rtmw.Subscriber("beat", deadline=1.0, domain=pair.hub.domain))
        out = stack.enter_context(rtmw.Publisher("beat", domain=pair.press.domain))
        assert out.wait_for_subscribers(1, timeout=PATIENCE)

        def beat() -> None:
            while not over.wait(0.05):
                out.publish(b"beat")

        thread = threading.Thread(target=beat)
        thread.start()
        stack.callback(thread.join)
        stack.callback(over.set)
        wait_until(lambda: _hears(taker), "it is heard")
        cable.cut(stays_down=True)
        wait_until(lambda: _misses(taker), "it is told of silence")
        cable.mend()
        wait_until(lambda: _hears(taker), "it is heard again")


def _hears(taker: rtmw.Subscriber[bytes]) -> bool:
    try:
        return bool(taker.receive(timeout=PATIENCE).value)
    except rtmw.DeadlineMissed:
        return False


def _misses(taker: rtmw.Subscriber[bytes]) -> bool:
    return not _hears(taker)
