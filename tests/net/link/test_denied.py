"""What the peer of a link denies is told at the end whose programs publish or want it, until the rules allow it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw import Reliability
from tests import warm
from tests.net.hosts import Host, wait_until
from tests.net.link.nodes import ALL, LinkedPair
from tests.net.test_metrics import port_of, scrape
from tests.openmetrics import labelled

SECRET = "press/secret"
RULE = '[[allow]]\npeer = "*"\npublish = ["*"]\nsubscribe = ["*"]\ndeny = ["*/secret"]\n'


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[LinkedPair]:
    pair = LinkedPair(tmp_path).with_keys()
    yield pair
    pair.end()


def denials(host: Host) -> dict[tuple[str, str], str]:
    """By topic and direction: what its node says about a denial, its own or the peer's."""
    rows = host.info()["apart"]
    return {(row["topic"], row["direction"]): row["reason"] for row in rows if row["cause"] in ("deny", "topics_in")}


def of_peer(host: Host) -> list[dict[str, Any]]:
    """The numbers of topics that the only peer of its node denies."""
    (peer,) = host.info()["links"]["peers"]
    found: list[dict[str, Any]] = peer["denied"]
    return found


def counted(host: Host) -> list[int]:
    """How often its own rules have denied something, a number for each cause."""
    return [row["number"] for row in host.info()["links"]["denials"]]


def said(host: Host, *words: str) -> str:
    return warm.run("node", *words, "--domain", str(host.number)).stdout


# Proves G217.
def test_a_publishing_end_says_what_its_peer_denies_and_since_a_reload_there_allows_it_no_more(
    linked: LinkedPair,
) -> None:
    """Nobody there subscribes the topic, so nothing else would have told it."""
    linked.rules["hub"] = RULE
    linked.press.start("--config", str(linked.settings("press")), "--metrics-port", "0")
    linked.start("hub").wait_up()
    told = {(SECRET, "out"): "rtmw://plant/hub: the peer denies it: a rule denies it"}
    labels = labelled(peer="rtmw://plant/hub", verb="publish", cause="deny")

    def metric() -> float:
        shown = scrape(port_of(linked.press)).items()
        return sum(value for (name, of), value in shown if name == "rtmw_node_link_denied_topics" and labels <= of)

    with rtmw.Publisher(SECRET, domain=linked.press.domain), rtmw.Publisher("a", domain=linked.press.domain):
        wait_until(lambda: denials(linked.press) == told, "info names it, and the other one not")
        assert of_peer(linked.press) == [{"verb": "publish", "cause": "deny", "topics": 1}]
        wait_until(lambda: metric() == 1, "the metrics count it")
        words = "rtmw://plant/hub denies what programs here publish of press/secret (deny): a rule denies it"
        assert linked.press.said.count(words) == 1
        assert "the peer denies it: a rule denies it" in said(
            linked.press, "explain", SECRET, "--peer", "rtmw://plant/hub"
        )
        assert "1 published here (deny)" in said(linked.press, "doctor")
        wait_until(lambda: counted(linked.hub) == [1], "the peer counts it")
        linked.reload("hub", ALL)
        wait_until(lambda: not denials(linked.press), "it is allowed now")
        assert of_peer(linked.press) == []
        wait_until(lambda: metric() == 0, "the metrics do not count it any more")
        linked.reload("hub", RULE)
        wait_until(lambda: denials(linked.press) == told, "it is denied again")
        assert linked.press.said.count(words) == 1, "the log says it once"
    wait_until(lambda: not denials(linked.press), "nobody publishes it any more")


def test_a_reload_at_the_publishing_end_takes_the_topic_from_the_peer_and_brings_it_back(linked: LinkedPair) -> None:
    linked.rules["hub"] = RULE
    linked.start().wait_up()
    with rtmw.Publisher(SECRET, domain=linked.press.domain):
        wait_until(lambda: (SECRET, "out") in denials(linked.press), "the peer denies it")
        linked.reload("press", '[[allow]]\npeer = "*"\nsubscribe = ["b"]\n')
        wait_until(lambda: not denials(linked.press), "the peer may not even have it")
        linked.reload("press", ALL)
        wait_until(lambda: (SECRET, "out") in denials(linked.press), "the peer denies it as before")


def test_a_topic_that_crosses_and_that_a_reload_denies_is_told_and_crosses_again_when_it_is_allowed(
    linked: LinkedPair,
) -> None:
    linked.start().wait_up()
    with ExitStack() as stack:
        taker = stack.enter_context(rtmw.Subscriber(SECRET, reliability=Reliability.RELIABLE, domain=linked.hub.domain))
        out = stack.enter_context(rtmw.Publisher(SECRET, reliability=Reliability.RELIABLE, domain=linked.press.domain))
        crosses = partial(linked.crossed, "press", "out", SECRET)
        wait_until(lambda: bool(crosses()), "it crosses")
        linked.reload("hub", RULE)
        wait_until(lambda: (SECRET, "out") in denials(linked.press) and not crosses(), "it is denied")
        wait_until(lambda: bool(counted(linked.hub)), "the peer counts it")
        assert counted(linked.hub) == [1], "once, though a route was closed"
        linked.reload("hub", ALL)
        wait_until(lambda: not denials(linked.press) and bool(crosses()), "it crosses again")
        assert out.wait_for_subscribers(1, timeout=10)
        assert out.publish(b"x")
        assert taker.receive(timeout=10).value == b"x"


def test_a_subscribing_end_hears_that_it_may_have_a_topic_which_nobody_publishes(linked: LinkedPair) -> None:
    linked.rules["press"] = RULE
    linked.start().wait_up()
    with rtmw.Subscriber(SECRET, domain=linked.hub.domain):
        wait_until(lambda: (SECRET, "in") in denials(linked.hub), "it is denied")
        assert of_peer(linked.hub) == [{"verb": "subscribe", "cause": "deny", "topics": 1}]
        linked.reload("press", ALL)
        wait_until(lambda: not denials(linked.hub), "it is allowed")


def test_what_topics_in_of_the_peer_keeps_out_is_told_like_a_denial(linked: LinkedPair) -> None:
    linked.rules["hub"] = ALL
    linked.settings("hub")
    path = linked.folder / "hub.toml"
    linked.press.start("--config", str(linked.settings("press")))
    path.write_text(f'topics_in = ["a"]\n{path.read_text()}')
    linked.hub.start("--config", str(path))
    linked.wait_up()
    with rtmw.Publisher("b", domain=linked.press.domain):
        reason = "rtmw://plant/hub: the peer denies it: topics_in of the settings does not let it in"
        wait_until(lambda: denials(linked.press) == {("b", "out"): reason}, "it is told")
