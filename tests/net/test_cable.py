"""A cable on which datagrams are late, overtake each other, come twice, or do not come; the promises hold."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from tests.books import examine
from tests.conftest import free_number
from tests.net.cable import Cable, Faults, obstacle
from tests.net.hosts import PATIENCE, Host, wait_until

pytestmark = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))

Connect = Callable[[Faults], tuple[Host, Host]]

FAULTS = {
    "late": Faults(delay_s=(0.05, 0.05)),
    "overtaking": Faults(delay_s=(0.0, 0.03)),
    "twice": Faults(twice=0.3),
    "all at once": Faults(delay_s=(0.0, 0.02), lost=0.05, twice=0.1),
}


@pytest.fixture
def connect(dds_domain: int, tmp_path: Path) -> Iterator[Connect]:
    """Two hosts at a cable, their nodes ready; their books balance at the end."""
    cables: list[Cable] = []
    hosts: list[Host] = []

    def make(faults: Faults) -> tuple[Host, Host]:
        cables.append(Cable(faults))
        for end in range(2):
            hosts.append(Host(free_number(), dds_domain, tmp_path, cables[0].place(end)))
        for host in hosts:
            host.start()
        return hosts[0], hosts[1]

    yield make
    for host in hosts:
        if host.node.poll() is None:
            host.stop()
        examine(host.domain)
        host.end()
    for cable in cables:
        cable.close()


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS.keys())
# Proves G252.
def test_reliable_messages_arrive_once_and_in_order(faults: Faults, connect: Connect) -> None:
    here, there = connect(faults)
    reliable = Reliability.RELIABLE
    subscriber = rtmw.Subscriber("all", domain=there.domain, reliability=reliable, lease=PATIENCE)
    publisher = rtmw.Publisher("all", domain=here.domain, reliability=reliable, max_blocking=PATIENCE)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    for number in range(300):
        assert publisher.publish(number.to_bytes(500, "little"))
    got = [int.from_bytes(subscriber.receive(timeout=PATIENCE).data, "little") for _ in range(300)]
    assert got == list(range(300))
    subscriber.close()
    publisher.close()


def test_large_messages_of_which_parts_are_sent_again_arrive_whole(connect: Connect) -> None:
    here, there = connect(Faults(delay_s=(0.0, 0.002), lost=0.005))
    reliable = Reliability.RELIABLE
    subscriber = rtmw.Subscriber("large", domain=there.domain, reliability=reliable, lease=PATIENCE)
    publisher = rtmw.Publisher("large", domain=here.domain, reliability=reliable, max_blocking=PATIENCE)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    for number in range(15):
        payload = random.Random(number).randbytes(150_000)
        assert publisher.publish(payload)
        assert subscriber.receive(timeout=PATIENCE).value == payload
    subscriber.close()
    publisher.close()


def send_until(
    arrived: int, publisher: rtmw.Publisher[bytes], subscriber: rtmw.Subscriber[bytes], at_a_time: int = 1
) -> tuple[int, list[int]]:
    """Publish numbers until so many have arrived: how many were sent, and which arrived."""
    got: list[int] = []
    sent = 0
    while len(got) < arrived:
        sent += publisher.publish_many([n.to_bytes(4, "little") for n in range(sent, sent + at_a_time)])
        assert sent < 100_000, f"only {len(got)} arrived"
        try:
            got.append(int.from_bytes(subscriber.receive(timeout=0.01).data, "little"))
        except TimeoutError:
            continue
        got += [int.from_bytes(sample.data, "little") for sample in subscriber.take_many(1000)]
    return sent, got


# Proves G255.
def test_timely_messages_never_arrive_twice_or_after_newer_ones(connect: Connect) -> None:
    here, there = connect(FAULTS["all at once"])
    timely = Reliability.TIMELY
    subscriber = rtmw.Subscriber("newest", domain=there.domain, reliability=timely)
    publisher = rtmw.Publisher("newest", domain=here.domain, reliability=timely)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    _, got = send_until(50, publisher, subscriber)
    assert got == sorted(set(got))
    subscriber.close()
    publisher.close()


@pytest.mark.parametrize("at_a_time", [1, 20])
def test_what_the_cable_lost_of_timely_messages_is_counted(at_a_time: int, connect: Connect) -> None:
    here, there = connect(Faults(lost=0.2))
    timely = Reliability.TIMELY
    subscriber = rtmw.Subscriber("counted", domain=there.domain, reliability=timely, depth=1000)
    publisher = rtmw.Publisher("counted", domain=here.domain, reliability=timely, depth=1000)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    sent, got = send_until(200 * at_a_time, publisher, subscriber, at_a_time)
    between = got[-1] - got[0] + 1 - len(got)
    assert between > 0, "the cable lost nothing"
    # also what came late, and all at once, to a machine that was busy, and overran the queue of the subscriber
    assert subscriber.stats().missed >= between, "what was lost is not told"
    wait_until(lambda: there.crossed("in", "counted")["lost"] > 0, "what the cable lost is not counted")
    counted = there.crossed("in", "counted")
    assert got[0] + counted["received"] + counted["lost"] <= sent
    wait_until(lambda: at_a_time == 1 or here.crossed("out", "counted")["packs"] > 0, "nothing was packed")
    subscriber.close()
    publisher.close()
