"""What leaves towards a host with a limit is no faster than that, and what others read is not held up by it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.dds.bridge import PLACES, PeerRates, address_of
from rtmw.net.dds.discovery import Program
from rtmw.net.dds.library import Engine
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.namespaces import Network, obstacle
from tests.net.test_namespaces import build  # noqa: F401  # a fixture

SIZE, COUNT = 5_000, 40
RATE = 50 << 10

Build = Callable[..., tuple[Network, list[Host]]]


class Topic:
    """RELIABLE, from one host to others; all of it is published at once."""

    def __init__(self, name: str, source: Host, *sinks: Host) -> None:
        reliable = Reliability.RELIABLE
        self.readers = [
            rtmw.Subscriber(name, domain=sink.domain, reliability=reliable, depth=COUNT, lease=PATIENCE)
            for sink in sinks
        ]
        self.publisher = rtmw.Publisher(
            name, domain=source.domain, reliability=reliable, depth=COUNT, max_blocking=PATIENCE
        )
        wait_until(lambda: source.crossed("out", name)["readers"] == len(sinks), f"not all read {name}")
        self.come = [0 for _ in sinks]

    def publish(self) -> None:
        for _ in range(COUNT):
            assert self.publisher.publish(bytes(SIZE))

    def take(self) -> list[int]:
        """How much has come, by reader."""
        for at, reader in enumerate(self.readers):
            self.come[at] += len(reader.take_many(COUNT))
        return self.come

    def is_over(self) -> bool:
        return min(self.take()) == COUNT


@pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
def test_a_host_with_a_limit_gets_no_more_over_all_topics_and_another_host_waits_for_none_of_it(
    build: Build,  # noqa: F811
    tmp_path: Path,
) -> None:
    network, (here, slow, fast) = build(3)
    file = tmp_path / "node.toml"
    file.write_text(f'peer_rates = ["{network.address(1)}={RATE}", "nobody*=1"]\n')
    here.start("--config", str(file))
    for host in (slow, fast):
        host.start()
    first, second = Topic("first", here, slow), Topic("second", here, slow)
    other, both = Topic("other", here, fast), Topic("both", here, slow, fast)
    rates = {peer["address"].partition(":")[0]: peer["max_rate"] for peer in here.info()["peers"]}
    assert rates == {network.address(1): RATE, network.address(2): 0}
    begun = time.monotonic()
    for topic in (first, second, other, both):
        topic.publish()
    wait_until(other.is_over, "what the other host reads does not come")
    assert not first.is_over()
    assert not second.is_over()
    wait_until(lambda: first.is_over() and second.is_over() and both.is_over(), "not all comes")
    assert time.monotonic() - begun > 0.8 * 3 * SIZE * COUNT / RATE  # one limit for all three
    file.write_text("peer_rates = []\n")
    here.node.send_signal(signal.SIGHUP)
    wait_until(lambda: not any(peer["max_rate"] for peer in here.info()["peers"]), "SIGHUP does not take it in")
    again = Topic("again", here, slow)
    begun = time.monotonic()
    again.publish()
    wait_until(again.is_over, "nothing comes without a limit")


def test_a_pattern_fits_an_address_or_a_name_and_the_first_one_counts(domain: rtmw.Domain) -> None:
    engine = Engine(domain.id)
    rates = PeerRates(engine)
    rates.set((("10.0.0.*", 5), ("vm*", 7)))
    here, named = Program(host="vm1", address="10.0.0.7:7411"), Program(host="vm2", address="[fe80::1%eth0]:7411")
    assert [rates.rate(one) for one in (here, named, Program(host="x", address="10.0.1.7:7411"))] == [5, 7, 0]
    assert (address_of(here), address_of(named), address_of(Program())) == ("10.0.0.7", "fe80::1", "")
    assert rates.places([here, Program(host="vm1", address="10.0.0.7:7413")]) == 1  # two programs of one host
    assert rates.places([named, here]) == 0b11
    assert rates.places([]) == 0
    engine.close()


def test_of_more_hosts_than_there_are_places_the_last_share_one(domain: rtmw.Domain) -> None:
    engine = Engine(domain.id)
    rates = PeerRates(engine)
    rates.set((("*", 1000),))
    found = [rates.places([Program(host="h", address=f"10.0.{n}.1:7411")]) for n in range(PLACES + 3)]
    assert found == [1 << min(n, PLACES - 1) for n in range(PLACES + 3)]
    rates.set(())
    assert rates.places([Program(host="h", address="10.0.0.1:7411")]) == 0
    engine.close()
