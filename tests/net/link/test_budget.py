"""The budget of a peer, as two nodes have it: told at both ends, counted, and raised by a reload."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import rtmw
from tests import warm
from tests.net.hosts import wait_until
from tests.net.link.nodes import LinkedPair
from tests.net.test_metrics import port_of, scrape
from tests.openmetrics import labelled

WORDS = "what a peer sends may take 1 publishers (max_publishers of [link])"


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[LinkedPair]:
    pair = LinkedPair(tmp_path).with_keys()
    yield pair
    pair.end()


def refused(linked: LinkedPair) -> float:
    """The metric of the hub."""
    labels = labelled(peer="rtmw://plant/press", what="publishers")
    shown = scrape(port_of(linked.hub)).items()
    return sum(number for (name, of), number in shown if "budget_refused" in name and labels <= of)


def crosses(linked: LinkedPair, topic: str) -> bool:
    return linked.crossed("press", "out", topic)["readers"] > 0


def is_told(linked: LinkedPair, topic: str) -> bool:
    """The node that publishes it says why it does not cross."""
    return any(row["topic"] == topic and WORDS in row["reason"] for row in linked.press.info()["apart"])


# Proves G236.
def test_what_exceeds_a_budget_is_told_at_both_ends_and_crosses_when_a_reload_raises_it(linked: LinkedPair) -> None:
    keys = linked.link["hub"]
    linked.link["hub"] = f"{keys}max_publishers = 1\n"
    linked.hub.start("--config", str(linked.settings("hub")), "--metrics-port", "0")
    linked.start("press").wait_up()
    with (
        rtmw.Subscriber("a", domain=linked.hub.domain),
        rtmw.Subscriber("b", domain=linked.hub.domain),
        rtmw.Publisher("a", domain=linked.press.domain),
    ):
        wait_until(partial(crosses, linked, "a"), "the first one crosses")
        with rtmw.Publisher("b", domain=linked.press.domain):
            wait_until(partial(is_told, linked, "b"), "the peer says why")
            said = " ".join(warm.run("node", "doctor", "--domain", str(linked.hub.number)).stdout.split())
            assert "budget of rtmw://plant/press" in said
            assert "publishers: 1 of 1 taken" in said
            assert f"rtmw://plant/press asks for more than it may take here: {WORDS}" in linked.hub.said
            wait_until(lambda: refused(linked) >= 1, "the metric counts it")
            linked.link["hub"] = f"{keys}max_publishers = 2\n"
            linked.reload("hub")
            wait_until(partial(crosses, linked, "b"), "it crosses")
            assert crosses(linked, "a")
