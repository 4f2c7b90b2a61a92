"""What convinces that links are safe: whole attacks and changes of keys, through real nodes."""

from __future__ import annotations

import random
import re
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.security import certificates as c
from rtmw.net.security.certificates import AUTHORITIES, NODE
from tests.net.hosts import PATIENCE, wait_until
from tests.net.link.cable import Cable
from tests.net.link.liar import Liar
from tests.net.link.nodes import LinkedPair
from tests.net.link.test_security import TLS_RECORD, knock, says
from tests.net.security.site import Site, put
from tests.net.test_restart import Load
from tests.whole import IS_WHOLE

RELIABLE = Reliability.RELIABLE
EVIL = "rtmw://plant/evil"
GARBAGE = 10_000 if IS_WHOLE else 1000
"""Connections; `make torture-net` has them all."""


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[LinkedPair]:
    pair = LinkedPair(tmp_path).with_keys()
    yield pair
    pair.end()


def test_1_a_certificate_that_is_not_yet_valid_is_explained_as_a_fault_of_a_clock(
    linked: LinkedPair, third: rtmw.Domain
) -> None:
    assert linked.site
    ahead = time.time() + 7200
    keys = linked.site.keys(EVIL, now=ahead)
    linked.start("hub")
    liar = Liar(third, keys, linked.port, now=ahead + 60)
    try:
        says(linked, "hub", "not yet valid")
        assert "clock" in liar.says()
    finally:
        liar.close()
    assert linked.peers("hub") == []


# Proves G246.
def test_4_a_recorded_link_that_is_replayed_byte_for_byte_publishes_nothing(linked: LinkedPair) -> None:
    cable = Cable(linked.port)
    linked.dial = cable.port
    with ExitStack() as stack:
        stack.callback(cable.close)
        linked.start().wait_up()
        taker = stack.enter_context(rtmw.Subscriber("a", reliability=RELIABLE, domain=linked.hub.domain))
        out = stack.enter_context(
            rtmw.Publisher("a", reliability=RELIABLE, max_blocking=PATIENCE, domain=linked.press.domain)
        )
        assert out.wait_for_subscribers(1, timeout=PATIENCE)
        for number in range(20):
            assert out.publish(b"%d" % number)
            assert taker.receive(timeout=PATIENCE).value == b"%d" % number
        recorded = [bytes(one) for one in cable.relay.recorded]
        assert min(len(one) for one in recorded) > 500
        linked.press.kill()
        refused = sum(linked.hub.info()["links"]["refused"].values())
        for pace in (None, 100):  # at once, and bit by bit, as far as the node listens
            replays = [stack.enter_context(knock(linked.port)) for _ in recorded]
            for replay, data in zip(replays, recorded, strict=True):
                with suppress(OSError):
                    for at in range(0, len(data), pace or len(data)):
                        replay.sendall(data[at : at + (pace or len(data))])
            for replay in replays:
                with suppress(OSError):
                    while replay.recv(1000):
                        pass
        wait_until(lambda: sum(linked.hub.info()["links"]["refused"].values()) >= refused + 4, "they are counted")
        assert taker.take() is None
        linked.start("press")
        wait_until(lambda: linked.is_up("hub"), "the true one is let in")
        assert out.wait_for_subscribers(1, timeout=PATIENCE)
        assert out.publish(b"true")
        assert taker.receive(timeout=PATIENCE).value == b"true"


# Proves G246.
def test_10_garbage_connections_leave_memory_and_descriptors_as_before(linked: LinkedPair) -> None:
    linked.start().wait_up()
    hub, chance = psutil.Process(linked.hub.node.pid), random.Random(10)

    def knock_often(count: int) -> None:
        for number in range(count):
            data = chance.choice((b"", chance.randbytes(100), TLS_RECORD, TLS_RECORD + chance.randbytes(600)))
            with suppress(OSError), knock(linked.port, data) as one:
                if number % 10 == 0:
                    one.settimeout(0.01)
                    one.recv(1)

    knock_often(200)  # what is made once is there
    wait_until(lambda: hub.num_fds() < 100, "they are closed")
    descriptors, memory = hub.num_fds(), hub.memory_info().rss
    knock_often(GARBAGE)
    wait_until(lambda: hub.num_fds() <= descriptors, "descriptors are as before")
    assert hub.memory_info().rss - memory < 16 << 20
    assert linked.is_up("hub")
    assert linked.peers("hub")[0]["resumes"] == 1


BROKEN_CONTROLS = [
    "no JSON",
    '{"is":"open","route":0}',
    '{"is":"close","route":7,"sent":0}',
    '{"is":"answer","route":9,"cause":"","why":""}',
    '{"is":"hello"}',
    "[" * 8000,
]


@pytest.mark.parametrize("control", BROKEN_CONTROLS)
# Proves G246.
def test_12_a_peer_that_breaks_the_protocol_harms_itself_only(
    linked: LinkedPair, third: rtmw.Domain, control: str
) -> None:
    assert linked.site
    with ExitStack() as stack:
        linked.start().wait_up()
        taker = stack.enter_context(rtmw.Subscriber("a", reliability=RELIABLE, domain=linked.hub.domain))
        out = stack.enter_context(
            rtmw.Publisher("a", reliability=RELIABLE, max_blocking=PATIENCE, domain=linked.press.domain)
        )
        assert out.wait_for_subscribers(1, timeout=PATIENCE)
        liar = Liar(third, linked.site.keys(EVIL), linked.port, garbage=[control])
        stack.callback(liar.close)
        for number in range(100):
            assert out.publish(b"%d" % number)
            assert taker.receive(timeout=PATIENCE).value == b"%d" % number
        says(linked, "hub", "the link with rtmw://plant/evil is over: it broke the protocol")
        assert out.publish(b"last")
        assert taker.receive(timeout=PATIENCE).value == b"last"
        (press,) = [peer for peer in linked.peers("hub") if peer["peer"] == "rtmw://plant/press"]
        assert (press["up"], press["resumes"]) == (True, 1)


def test_12_bytes_that_are_no_frames_behind_a_true_handshake_end_that_connection_only(linked: LinkedPair) -> None:
    assert linked.site
    keys, chance = linked.site.keys(EVIL), random.Random(12)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_cert_chain(keys / NODE)
    context.load_verify_locations(keys / AUTHORITIES)
    linked.start().wait_up()
    for size in (1, 8, 100, 20_000):
        with suppress(OSError), knock(linked.port) as plain, context.wrap_socket(plain) as secure:
            secure.sendall(chance.randbytes(size))
            while secure.recv(1000):
                pass
    wait_until(lambda: sum(linked.hub.info()["links"]["refused"].values()) >= 4, "they are counted")
    assert linked.is_up("hub")
    assert linked.peers("hub")[0]["resumes"] == 1


def test_15_one_full_reliable_subscriber_delays_no_other_topic(linked: LinkedPair) -> None:
    linked.start().wait_up()
    with ExitStack() as stack:
        full = stack.enter_context(
            rtmw.Subscriber("full", reliability=RELIABLE, domain=linked.hub.domain, lease=PATIENCE)
        )
        others = {
            kind: stack.enter_context(rtmw.Subscriber(f"other/{kind.name}", reliability=kind, domain=linked.hub.domain))
            for kind in Reliability
        }
        filling = stack.enter_context(
            rtmw.Publisher("full", reliability=RELIABLE, max_blocking=0, domain=linked.press.domain)
        )
        outs = {
            kind: stack.enter_context(
                rtmw.Publisher(f"other/{kind.name}", reliability=kind, domain=linked.press.domain)
            )
            for kind in Reliability
        }
        for out in (filling, *outs.values()):
            assert out.wait_for_subscribers(1, timeout=PATIENCE)
        wait_until(
            lambda: (
                filling.publish_many([bytes(1000)] * 100) == 0 and linked.crossed("hub", "in", "full")["delayed"] > 0
            ),
            "the topic is full",
        )
        for number in range(50):
            for kind, out in outs.items():
                assert out.publish(b"%d" % number)
                assert others[kind].receive(timeout=PATIENCE).value == b"%d" % number
        assert filling.publish_many([bytes(1000)] * 100) == 0
        assert full.stats().received == 0


# Proves G249.
def test_19_another_authority_takes_over_and_no_reliable_message_is_lost(linked: LinkedPair, tmp_path: Path) -> None:
    """The steps of docs/links.md: all trust both, each node is renewed, the old one goes."""
    assert linked.site
    new = Site(tmp_path / "new")
    folders = {name: linked.site.folder / f"plant-{name}" for name in linked.hosts}
    linked.start().wait_up()
    load = Load(linked.press, linked.hub)

    def reload(name: str) -> None:
        load.come(200)
        before = linked.peers("hub")[0]["resumes"]
        linked.reload(name)
        wait_until(lambda: bool(load.take()) and linked.peers("hub")[0]["resumes"] > before, "it connects again")

    try:
        for name, folder in folders.items():
            put(folder / AUTHORITIES, c.pem([new.authority, linked.site.authority]))
            reload(name)
        for name, folder in folders.items():
            put(folder / NODE, (new.keys(f"rtmw://plant/{name}") / NODE).read_bytes())
            reload(name)
        for name, folder in folders.items():
            put(folder / AUTHORITIES, c.pem([new.authority]))
            reload(name)
        load.come(200)
    finally:
        load.end()
    load.all_came_once()
    assert not re.search("is over", linked.hub.said + linked.press.said)
