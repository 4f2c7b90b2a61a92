"""A limit that SIGHUP changes holds from then on: what was owed at the limit before is forgotten."""

from __future__ import annotations

import signal
import time

import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.test_restart import LONG, Load

LOWEST = 1024
"""Bytes a second: a message of LARGE bytes occupies the link for longer than any test has patience."""
LARGE = 1 << 20
FEW = 5
"""Messages that may wait on the bus, whatever the depth."""


class File:
    """The settings of a node."""

    def __init__(self, host: Host) -> None:
        self._host, self._path = host, host.log.with_name("node.toml")

    def start(self, text: str, *arguments: str) -> None:
        """The node, with these."""
        self._path.write_text(text)
        self._host.start("--config", str(self._path), *arguments)

    def change(self, text: str) -> None:
        said = self._host.said.count("settings read again")
        self._path.write_text(text)
        self._host.node.send_signal(signal.SIGHUP)
        wait_until(lambda: self._host.said.count("settings read again") > said, "SIGHUP is not heard")


@pytest.mark.parametrize("setting", ["max_rate = '{}'", "topic_rates = ['*={}']", "peer_rates = ['127.0.0.1={}']"])
# Proves G297.
def test_a_higher_limit_holds_at_once_whatever_was_sent_at_the_lower_one(
    hosts: tuple[Host, Host], setting: str
) -> None:
    here, there = hosts
    file = File(here)
    file.start(setting.format(LOWEST))
    there.start()
    reliable = Reliability.RELIABLE
    with (
        rtmw.Subscriber("large", domain=there.domain, reliability=reliable) as subscriber,
        rtmw.Publisher("large", domain=here.domain, reliability=reliable) as publisher,
    ):
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        for _ in range(2):
            publisher.publish(bytes(LARGE))
        subscriber.receive(timeout=PATIENCE)
        file.change(setting.format("100M"))
        subscriber.receive(timeout=PATIENCE)


@pytest.mark.parametrize("setting", ["max_rate = '{}'", "topic_rates = ['*={}']"])
# Proves G297.
def test_a_limit_that_stays_is_not_lifted_by_sighup(hosts: tuple[Host, Host], setting: str) -> None:
    here, there = hosts
    file, rate, count, size = File(here), 50 << 10, 40, 5_000
    file.start(setting.format(rate))
    there.start()
    reliable = Reliability.RELIABLE
    with (
        rtmw.Subscriber("slow", domain=there.domain, reliability=reliable, depth=count) as subscriber,
        rtmw.Publisher("slow", domain=here.domain, reliability=reliable, depth=count) as publisher,
    ):
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        begun = time.monotonic()
        for _ in range(count):
            assert publisher.publish(bytes(size))
        for n in range(count):
            if n % 4 == 0:
                file.change(setting.format(rate) + f"\nhandover = {1 + n}\n")
            subscriber.receive(timeout=PATIENCE)
        assert time.monotonic() - begun > 0.8 * count * size / rate


# Proves G297.
def test_what_is_kept_for_a_node_that_has_ended_stays_kept_when_limits_change(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    file = File(here)
    file.start("topic_rates = ['*=1M']", *LONG)
    there.start(*LONG)
    load = Load(here, there)
    load.come(100)
    load.end()
    wait_until(lambda: load.take() == load.sent, "not all comes")
    assert there.stop() == 0
    for rate in ("2M", "100M"):
        file.change(f"topic_rates = ['*={rate}']\nmax_rate = '{rate}'\npeer_rates = ['127.0.0.1={rate}']")
        for _ in range(FEW):
            assert load.publisher.publish(b"%d" % load.sent)
            load.sent += 1
    there.start(*LONG)
    load.all_came_once()
