"""What a peer says of itself: whoever has a certificate may say that it is another node, and harms nobody by it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid5

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.dds.discovery import Program
from rtmw.net.link.handshake import Register
from rtmw.net.link.links import Regions
from rtmw.net.link.messages import Hello, Join
from rtmw.net.neighbours import origin
from rtmw.net.session.errors import Violation
from rtmw.net.session.meetings import PEERS_OF_A_NAME
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.link.liar import Liar
from tests.net.link.nodes import LinkedPair

ONE, OTHER = UUID(int=1), UUID(int=2)
PRESS, EVIL = "rtmw://plant/press", "rtmw://plant/evil"


def test_a_region_is_that_of_the_name_that_said_it_first() -> None:
    regions = Regions("mine")
    assert regions.meet("a", PRESS, ONE) == "a"
    assert regions.meet("a", EVIL, OTHER) == "a of rtmw://plant/evil"
    assert regions.meet("mine", EVIL, OTHER) == "mine of rtmw://plant/evil"
    assert regions.meet("a", PRESS, OTHER) == "a", "the same node, started again for another DDS domain"
    assert regions.linked() == ["a"]
    regions.forget(lambda name: name == PRESS)
    assert regions.linked() == []
    assert regions.meet("a", EVIL, OTHER) == "a"


def test_a_region_of_a_dds_participant_without_links_is_no_peers() -> None:
    regions = Regions("mine")
    stranger = Program(host="x", domain=1, region="a")
    assert regions.meet("a", EVIL, ONE) == "a"
    assert regions.hear([stranger])
    assert regions.linked() == []
    assert regions.hear([])
    assert regions.linked() == ["a"]
    regions.hear([Program(region="a", link=ONE.hex, link_name=EVIL)])
    assert regions.linked() == ["a"], "it is the peer itself"
    regions.hear([Program(region="a", link=ONE.hex, link_name=EVIL), stranger])
    assert regions.linked() == []


def hello(node: UUID, incarnation: int = 1) -> Hello:
    return Hello(node, incarnation, 1, 1, "host", 1, 1, "region", 0, 1)


def test_a_uuid_is_that_of_whoever_has_the_name() -> None:
    register = Register(hello(UUID(int=9)), iter(range(1, 100)).__next__)
    evil = register.join(hello(ONE, 1 << 60), EVIL, Join(1, "urgent", 0))
    press = register.join(hello(ONE), PRESS, Join(1, "urgent", 0))
    assert evil.line != press.line
    assert register.join(hello(ONE), PRESS, Join(2, "urgent", press.line)).is_held
    register.forget((EVIL, ONE), evil.line)
    assert register.join(hello(ONE), PRESS, Join(3, "urgent", press.line)).is_held


def test_one_certificate_does_not_take_the_place_of_all_others() -> None:
    register = Register(hello(UUID(int=1 << 99)), iter(range(1, 1000)).__next__)
    for number in range(PEERS_OF_A_NAME):
        register.join(hello(UUID(int=number)), EVIL, Join(1, "urgent", 0))
    with pytest.raises(Violation, match="64 nodes with the name rtmw://plant/evil are here already"):
        register.join(hello(UUID(int=1000)), EVIL, Join(1, "urgent", 0))
    assert register.join(hello(UUID(int=1000)), PRESS, Join(1, "urgent", 0)).line


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[LinkedPair]:
    shared = free_number()
    pair = LinkedPair(tmp_path, dds_domains=(shared, shared), top='dds_topics = ["*"]\n').with_keys()
    for name in pair.hosts:
        pair.link[name] += "insecure = true\n"  # a third node has no keys
    yield pair
    pair.end()


@pytest.mark.parametrize("is_first", [True, False])
# Proves G233.
def test_a_peer_that_says_it_is_another_node_is_told_apart_from_it_and_keeps_nobody_out(
    linked: LinkedPair, is_first: bool
) -> None:
    """Region and UUID of press, whose topics cross, each message once, by press's publishers."""
    assert linked.site
    keys, region = linked.site.keys(EVIL), origin(linked.press.domain)
    node = uuid5(NAMESPACE_URL, f"{region} {linked.press.dds_domain}")
    claims = {"region": region, "node": node.hex, "incarnation": (1 << 62)}
    reliable = Reliability.RELIABLE
    with ExitStack() as stack:
        number = free_number()
        evil = stack.enter_context(rtmw.Domain(number, pool="8M"))
        stack.callback(rtmw.Domain.unlink, number)
        linked.start("hub")
        if not is_first:
            linked.start("press").wait_up()
        liar = Liar(evil, keys, linked.port, **claims)
        stack.callback(liar.close)
        liar.wait_up()
        if is_first:
            linked.start("press")
        wait_until(lambda: [peer["up"] for peer in linked.peers("press")] == [True], "the link of press")
        taker = stack.enter_context(rtmw.Subscriber("a", reliability=reliable, domain=linked.hub.domain))
        domains = {b"press": linked.press.domain, b"evil": evil}
        outs = {
            text: stack.enter_context(rtmw.Publisher("a", reliability=reliable, max_blocking=PATIENCE, domain=domain))
            for text, domain in domains.items()
        }
        for out in outs.values():
            assert out.wait_for_subscribers(1, timeout=PATIENCE)
        by = dict[bytes, int]()
        for _ in range(20):
            for text, out in outs.items():
                assert out.publish(text)
            for _ in outs:
                sample = taker.receive(timeout=PATIENCE)
                assert by.setdefault(sample.value, sample.publisher) == sample.publisher
        assert by[b"press"] != by[b"evil"]
        if not is_first:
            assert by[b"press"] == outs[b"press"].identity
        assert taker.take() is None
        wait_until(lambda: len(linked.peers("hub")) == 2, "both are peers")


# Proves G233.
def test_a_peer_that_says_the_region_of_a_dds_node_does_not_silence_that(linked: LinkedPair) -> None:
    assert linked.site
    third = Host(free_number(), linked.hub.dds_domain, linked.folder)
    with ExitStack() as stack:
        number = free_number()
        evil = stack.enter_context(rtmw.Domain(number, pool="8M"))
        stack.callback(rtmw.Domain.unlink, number)
        stack.callback(third.end)
        third.start()
        linked.start("hub")
        taker = stack.enter_context(rtmw.Subscriber("a", domain=linked.hub.domain))
        out = stack.enter_context(rtmw.Publisher("a", domain=third.domain))
        assert out.wait_for_subscribers(1, timeout=PATIENCE)
        liar = Liar(evil, linked.site.keys(EVIL), linked.port, region=origin(third.domain))
        stack.callback(liar.close)
        liar.wait_up()
        out.publish(b"of the third")
        sample = taker.receive(timeout=PATIENCE)
        assert (sample.value, sample.publisher) == (b"of the third", out.identity)
