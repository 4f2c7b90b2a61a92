"""Two nodes and a link between them: what crosses, and by which way."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from rtmw.observe.node_status import NOBODY
from rtmw.transfer.frames import CORE_QUEUE
from tests import warm
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.link.nodes import LinkedPair

RELIABLE = Reliability.RELIABLE


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[LinkedPair]:
    pair = LinkedPair(tmp_path)
    yield pair
    pair.end()


def publisher(host: Host, topic: str) -> rtmw.Publisher[bytes]:
    return rtmw.Publisher(topic, reliability=RELIABLE, max_blocking=PATIENCE, domain=host.domain)


def subscriber(host: Host, topic: str) -> rtmw.Subscriber[bytes]:
    return rtmw.Subscriber(topic, reliability=RELIABLE, depth=64, domain=host.domain)


def says_why(host: Host, topic: str, reason: str) -> bool:
    """Does its node say this of a topic that does not cross?"""
    return any(row["topic"] == topic and reason in row["reason"] for row in host.info()["apart"])


def crosses(linked: LinkedPair, topic: str) -> bool:
    """From press to hub, over the link."""
    return linked.crossed("press", "out", topic)["readers"] + linked.crossed("hub", "in", topic)["writers"] == 2


@pytest.mark.parametrize("with_keys", [False, True])
def test_a_reliable_topic_crosses_in_order_and_whole(linked: LinkedPair, with_keys: bool) -> None:
    if with_keys:
        linked.with_keys()
    linked.start().wait_up()
    with subscriber(linked.hub, "a") as taker, publisher(linked.press, "a") as out:
        wait_until(lambda: crosses(linked, "a"), "the route")
        for number in range(300):
            assert out.publish(b"%d" % number)
            if number % 50 == 49:
                got = [taker.receive(timeout=PATIENCE).value for _ in range(50)]
                assert got == [b"%d" % n for n in range(number - 49, number + 1)]
        (peer,) = linked.peers("hub")
        assert peer["cipher"] == ("TLS_AES_128_GCM_SHA256" if with_keys else None)
        assert (peer["peer"], peer["dialled"]) == ("rtmw://plant/press" if with_keys else None, False)
        wait_until(lambda: linked.crossed("hub", "in", "a")["received"] == 300, "the counters")
    wait_until(lambda: not linked.crossed("hub", "in", "a"), "the end of the route")
    wait_until(lambda: any(row["received"] == 300 for row in linked.hub.info()["ended"]["in"]), "its counters")


# Proves G213.
def test_what_crosses_by_link_does_not_cross_by_dds_and_others_still_get_it_there(tmp_path: Path) -> None:
    shared = free_number()
    linked = LinkedPair(tmp_path, dds_domains=(shared, shared))
    third = Host(free_number(), shared, tmp_path)
    with ExitStack() as stack:
        stack.callback(third.end)
        stack.callback(linked.end)
        third.start()
        linked.start().wait_up()
        takers = [stack.enter_context(subscriber(host, "a")) for host in (linked.hub, third)]
        out = stack.enter_context(publisher(linked.press, "a"))
        wait_until(lambda: crosses(linked, "a"), "the route over the link")
        wait_until(lambda: third.crossed("in", "a")["writers"] == 1, "the route over DDS")
        wait_until(
            lambda: linked.press.crossed("out", "a", "nodes")["readers"] == 1, "the third one alone reads over DDS"
        )
        sent = [b"%d" % number for number in range(200)]
        for number in range(0, 200, 50):
            for message in sent[number : number + 50]:
                assert out.publish(message)
            for taker in takers:
                got = [taker.receive(timeout=PATIENCE).value for _ in range(50)]
                assert got == sent[number : number + 50]
        # what would have come twice would have come by now: the same node has sent what follows over both ways
        assert out.publish(b"the last")
        assert [taker.receive(timeout=PATIENCE).value for taker in takers] == [b"the last"] * 2
        assert [taker.take() for taker in takers] == [None, None]
        assert linked.hub.crossed("in", "a", "nodes")["received"] == 0


# Proves G213.
def test_a_topic_of_a_peer_with_a_rule_does_not_cross_by_dds_while_the_link_is_down(tmp_path: Path) -> None:
    """Else whoever cuts a link would have its topics in clear."""
    shared = free_number()
    linked = LinkedPair(tmp_path, dds_domains=(shared, shared), dial=1)
    with ExitStack() as stack:
        stack.callback(linked.end)
        linked.start()
        for one, other in (("hub", "press"), ("press", "hub")):
            wait_until(lambda: len(linked.hosts[one].info()["peers"]) == 1, f"{one} hears {other}")  # noqa: B023
        taker = stack.enter_context(subscriber(linked.hub, "a"))
        out = stack.enter_context(publisher(linked.press, "a"))
        stack.enter_context(subscriber(linked.press, "back"))
        wait_until(lambda: linked.press.crossed("out", "a", "nodes")["readers"] == 0, "nobody reads")
        assert out.publish(b"secret")
        wait_until(lambda: bool(linked.press.info()["links"]["failing"]), "the node says that it cannot connect")
        assert taker.take() is None


def nobody(host: Host) -> set[tuple[str, str]]:
    """Topics, and directions, of which its node says that nobody is elsewhere."""
    return {(row["topic"], row["direction"]) for row in host.info()["apart"] if row["cause"] == "nobody"}


def test_of_a_topic_that_crosses_by_a_link_no_node_says_that_nobody_elsewhere_has_it(linked: LinkedPair) -> None:
    linked.rules["press"] = '[[allow]]\npeer = "*"\npublish = ["*"]\nsubscribe = ["*"]\ndeny = ["secret"]\n'
    linked.link["hub"] = "lease = 1\n"
    linked.start().wait_up()
    with ExitStack() as stack:
        for topic in ("a", "secret", "alone"):
            stack.enter_context(publisher(linked.press, topic))
        for topic in ("secret", "lonely"):
            stack.enter_context(subscriber(linked.hub, topic))
        taker = subscriber(linked.hub, "a")
        wait_until(lambda: nobody(linked.press) == {("alone", "out")}, "press says it of what nobody wants")
        wait_until(lambda: nobody(linked.hub) == {("secret", "in"), ("lonely", "in")}, "hub of what does not come")
        taker.close()
        wait_until(lambda: ("a", "out") in nobody(linked.press), "nobody reads it any more")
        with subscriber(linked.hub, "a"):
            wait_until(lambda: not {("a", "out")} & nobody(linked.press), "somebody reads it again")
            wait_until(lambda: not {("a", "in")} & nobody(linked.hub), "it comes again")
            linked.press.kill()
            wait_until(lambda: ("a", "in") in nobody(linked.hub), "the link is over")


def test_a_topic_that_the_rules_deny_does_not_cross_and_both_ends_say_why(linked: LinkedPair) -> None:
    linked.with_keys()
    linked.rules["hub"] = '[[allow]]\npeer = "rtmw://plant/*"\npublish = ["{node}/*"]\ndeny = ["*/secret"]\n'
    linked.start().wait_up()
    topics = ("press/a", "press/secret", "hub/a")
    with ExitStack() as stack:
        takers = [stack.enter_context(subscriber(linked.hub, topic)) for topic in topics]
        outs = [stack.enter_context(publisher(linked.press, topic)) for topic in topics]
        wait_until(lambda: crosses(linked, "press/a"), "what is allowed")
        for out in outs:
            assert out.publish(b"x")
        assert takers[0].receive(timeout=PATIENCE).value == b"x"
        apart = {row["topic"]: row for row in linked.hub.info()["apart"] if "rtmw://" in row["reason"]}
        assert apart["press/secret"]["cause"] == "deny"
        assert apart["hub/a"]["cause"] == "subject"
        linked.reload("hub", '[[allow]]\npeer = "rtmw://plant/*"\npublish = ["hub/a"]\n')
        wait_until(lambda: crosses(linked, "hub/a"), "what is allowed now")
        wait_until(lambda: not linked.crossed("hub", "in", "press/a"), "what is not allowed any more")
        assert outs[2].publish(b"y")
        assert takers[2].receive(timeout=PATIENCE).value == b"y"
        assert takers[1].take() is None


def test_what_the_peer_wants_and_may_not_have_is_counted_and_told(linked: LinkedPair) -> None:
    linked.with_keys()
    linked.rules["press"] = '[[allow]]\npeer = "rtmw://plant/*"\nsubscribe = ["open"]\n'
    linked.start().wait_up()
    with subscriber(linked.hub, "closed") as taker, publisher(linked.press, "closed") as out:
        wait_until(lambda: bool(linked.press.info()["links"]["denials"]), "the denial")
        (row,) = linked.press.info()["links"]["denials"]
        assert (row["peer"], row["verb"], row["cause"]) == ("rtmw://plant/hub", "subscribe", "subject")
        assert out.publish(b"x")
        for host in (linked.press, linked.hub):  # what press counts, hub is told a moment later
            wait_until(partial(says_why, host, "closed", "no rule allows this peer to subscribe it"), "the reason")
        assert taker.take() is None


def test_a_file_that_is_broken_changes_nothing(linked: LinkedPair) -> None:
    linked.start().wait_up()
    with subscriber(linked.hub, "a") as taker, publisher(linked.press, "a") as out:
        wait_until(lambda: crosses(linked, "a"), "the route")
        before = linked.hub.info()["rules"]
        linked.reload("hub", '[[allow]]\npeer = "*"\npublsih = ["*"]\n')
        assert "did you mean publish?" in linked.hub.said
        assert linked.hub.info()["rules"] == before
        assert out.publish(b"x")
        assert taker.receive(timeout=PATIENCE).value == b"x"


def exceeded(host: Host, way: str, topic: str) -> set[str]:
    """What info says of the ceilings that hold for a topic."""
    rows = (row for row in host.info()["apart"] if (row["topic"], row["direction"]) == (topic, way))
    return {row["reason"] for row in rows if row["cause"] in ("priority", "size", "rate")}


def test_topics_of_rtmw_itself_are_not_among_those_that_do_not_cross(linked: LinkedPair) -> None:
    linked.with_keys()
    linked.rules["hub"] = '[[allow]]\npeer = "rtmw://plant/press"\npublish = ["a"]\n'
    linked.start().wait_up()
    with subscriber(linked.hub, CORE_QUEUE), subscriber(linked.hub, "secret"):

        def apart() -> set[str]:
            return {row["topic"] for row in linked.hub.info()["apart"] if row["cause"] != NOBODY}

        wait_until(lambda: "secret" in apart(), "info names what is denied")
        assert apart() == {"secret"}


# Proves G232.
def test_what_is_above_a_ceiling_is_not_sent_is_counted_and_named_and_leaves_no_gap(linked: LinkedPair) -> None:
    rule = '[[allow]]\npeer = "rtmw://plant/hub"\nsubscribe = ["*"]\nmax_priority = 4\nmax_size = {}\n'
    linked.with_keys()
    linked.rules["press"] = rule.format(1000)
    linked.start().wait_up()
    with subscriber(linked.hub, "a") as taker, publisher(linked.press, "a") as out:
        wait_until(lambda: crosses(linked, "a"), "the route")
        assert out.publish(b"urgent", priority=5)
        assert out.publish(bytes(1001))
        assert out.publish(b"x", priority=4)
        assert taker.receive(timeout=PATIENCE).value == b"x"
        wait_until(lambda: linked.crossed("press", "out", "a")["size"] == 1, "what was too large is counted")
        counted = linked.crossed("press", "out", "a")
        assert (counted["priority"], counted["sent"]) == (1, 1)
        assert taker.stats().missed == 0

        wait_until(lambda: len(exceeded(linked.press, "out", "a")) == 2, "info names them")
        place = f"{linked.folder / 'press.toml'}, line 5"
        assert exceeded(linked.press, "out", "a") == {
            f"rtmw://plant/hub: messages above priority 4 are kept from it by {place}",
            f"rtmw://plant/hub: messages above 1000 B are kept from it by {place}",
        }
        assert "may not have all of a by the rules (size)" in linked.press.said
        linked.reload("press", rule.format(10))
        assert out.publish(b"longer than 10")
        assert out.publish(b"y")
        assert taker.receive(timeout=PATIENCE).value == b"y"
        assert taker.stats().missed == 0


# Proves G232.
def test_ceilings_that_a_reload_lowers_hold_at_once_and_are_named_whatever_the_peer_sends(linked: LinkedPair) -> None:
    linked.with_keys()
    linked.start().wait_up()
    with subscriber(linked.hub, "a") as taker, publisher(linked.press, "a") as out:
        wait_until(lambda: crosses(linked, "a"), "the route")
        assert out.publish(bytes(1001))
        assert len(taker.receive(timeout=PATIENCE).value) == 1001
        linked.reload("hub", '[[allow]]\npeer = "*"\npublish = ["*"]\nmax_size = 1000\nmax_priority = 3\n')
        assert out.publish(bytes(1001))
        assert out.publish(b"urgent", priority=4)
        assert out.publish(b"x")
        assert taker.receive(timeout=PATIENCE).value == b"x"
        wait_until(lambda: linked.crossed("hub", "in", "a")["size"] == 1, "the counter")
        assert linked.crossed("hub", "in", "a")["priority"] == 1
        assert linked.crossed("hub", "in", "a")["received"] == 2, "by the same route"
        wait_until(lambda: linked.crossed("press", "out", "a")["sent"] == 4, "the peer counts them as sent")
        counted = linked.crossed("press", "out", "a")
        assert (counted["size"], counted["priority"]) == (0, 0), "for the peer keeps its own rules, and knows no others"
        assert taker.stats().missed == 0
        wait_until(lambda: len(exceeded(linked.hub, "in", "a")) == 2, "info names them")
        place = f"{linked.folder / 'hub.toml'}, line 5"
        assert exceeded(linked.hub, "in", "a") == {
            f"rtmw://plant/press: messages above priority 3 are not taken from it by {place}",
            f"rtmw://plant/press: messages above 1000 B are not taken from it by {place}",
        }
        shown = warm.run("node", "explain", "a", "--peer", "rtmw://plant/press", "--domain", str(linked.hub.number))
        assert all(words in shown.stdout for words in ("above priority 3", "above 1000 B", place))


def test_what_a_peer_sends_beyond_its_max_rate_is_cut_to_it_counted_and_named(linked: LinkedPair) -> None:
    linked.with_keys()
    rate, size = 100_000, 1_000
    linked.rules["hub"] = f'[[allow]]\npeer = "rtmw://plant/press"\npublish = ["*"]\nmax_rate = {rate}\n'
    linked.start().wait_up()
    with subscriber(linked.hub, "a") as taker, publisher(linked.press, "a") as out:
        wait_until(lambda: crosses(linked, "a"), "the route")
        begun, sent, came = time.monotonic(), 0, 0

        def dropped() -> int:
            return linked.crossed("hub", "in", "a")["rate"]

        while not dropped():
            for _ in range(3 * rate // size):
                assert out.publish(bytes(size)), "what is dropped there keeps nobody waiting here"
                sent, came = sent + 1, came + len(taker.take_many(100))
        wait_until(lambda: linked.crossed("hub", "in", "a")["received"] + dropped() == sent, "each is counted")
        came, seconds = came + len(taker.take_many(1000)), time.monotonic() - begun
        assert came == sent - dropped(), "what is not counted comes"
        assert rate <= came * size <= rate * (seconds + 1) + size, "a second of it at once, and then no more than it"
        assert "sends more of a than the rules allow (rate)" in linked.hub.said
        place = f"{linked.folder / 'hub.toml'}, line 5"
        words = f"rtmw://plant/press: messages above 97.7 KiB/s are not taken from it by {place}"
        wait_until(lambda: exceeded(linked.hub, "in", "a") == {words}, "info names it")


def test_what_a_peer_may_get_at_a_max_rate_waits_and_comes_whole(linked: LinkedPair) -> None:
    linked.with_keys()
    rate, count = 1 << 20, 20
    linked.rules["press"] = f'[[allow]]\npeer = "rtmw://plant/hub"\nsubscribe = ["*"]\nmax_rate = {rate}\n'
    linked.start().wait_up()
    with subscriber(linked.hub, "a") as taker, publisher(linked.press, "a") as out:
        wait_until(lambda: crosses(linked, "a"), "the route")
        begun = time.monotonic()
        for number in range(count):
            assert out.publish(bytes([number]) * 100_000)
        got = [taker.receive(timeout=PATIENCE).value[0] for _ in range(count)]
        assert time.monotonic() - begun >= (count - 1) * 100_000 / rate - 0.2, "but for what is under way at once"
        assert got == list(range(count))
        assert taker.stats().missed == 0


def test_graph_shows_who_is_at_the_other_end_of_a_link(linked: LinkedPair) -> None:
    linked.with_keys()
    linked.start().wait_up()
    with subscriber(linked.hub, "a"), publisher(linked.press, "a"):
        wait_until(lambda: crosses(linked, "a"), "the route")

        def shown(host: Host) -> str:
            return warm.run("graph", "--domain", str(host.number), check=True).stdout

        program = f"({os.getpid()}) on"
        line = f"{program} rtmw://plant/press  RELIABLE"
        wait_until(lambda: line in shown(linked.hub), "who publishes there")
        line_back = f"{program} rtmw://plant/hub  RELIABLE"
        wait_until(lambda: line_back in shown(linked.press), "who subscribes there")
        assert "a  (bytes), crosses hosts" in shown(linked.press)
    wait_until(lambda: "rtmw://plant/press" not in shown(linked.hub), "nobody publishes there any more")
