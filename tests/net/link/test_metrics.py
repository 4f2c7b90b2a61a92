"""The metrics of links: each value is the one that the node tells, of its peer, in seconds, bytes and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.metrics import of_links
from rtmw.observe.node_status import Denial, DeniedTopics, LinkPeer, Links
from tests.net.hosts import PATIENCE, wait_until
from tests.net.link.nodes import LinkedPair
from tests.net.test_metrics import port_of, scrape
from tests.openmetrics import Labels, Samples, labelled

UP = LinkPeer(
    "rtmw://plant/press", "press", 4, 7, up=True, round_trip_ns=2_500_000, queued_bytes=11, unacknowledged_bytes=12,
    expires=1_800_000_000.5, sent_bytes=13, received_bytes=14, resumes=15, clock_offset_ns=-3_000_000, twin=True,
    copies=16, copies_left_out=17, copies_first=18, copies_passed_over=19,
)  # fmt: skip
CUT = LinkPeer(
    None, "cellar", 5, 8, queued_bytes=21, unacknowledged_bytes=22, sent_bytes=23, received_bytes=24, resumes=25
)
DENIALS = (
    Denial("rtmw://plant/press", "publish", "deny", 3, "x", None),
    Denial("rtmw://plant/press", "subscribe", "deny", 4, "x", None),
)


def told(links: Links | None) -> Samples:
    return {
        (one.name, frozenset(one.labels.items())): one.value for family in of_links(links) for one in family.samples
    }


def of_peer(samples: Samples, labels: Labels) -> dict[str, float]:
    """Without what all the names have in common."""
    return {name.removeprefix("rtmw_node_link_"): value for (name, of), value in samples.items() if of == labels}


def test_each_value_is_shown_with_its_peer_in_base_units_and_what_is_not_known_is_left_out() -> None:
    shown = told(Links(peers=(UP, CUT)))
    assert of_peer(shown, labelled(peer="rtmw://plant/press", host="press", domain="7")) == {
        "up": 1, "round_trip_seconds": pytest.approx(0.0025), "queued_bytes": 11, "unacknowledged_bytes": 12,
        "certificate_expiry_time_seconds": 1_800_000_000.5, "sent_bytes_total": 13, "received_bytes_total": 14,
        "resumes_total": 15, "clock_offset_seconds": pytest.approx(-0.003), "twin_up": 1, "copies_total": 16,
        "copies_left_out_total": 17, "copies_first_total": 18, "copies_passed_over_total": 19,
    }  # fmt: skip
    assert of_peer(shown, labelled(peer="", host="cellar", domain="8")) == {
        "up": 0, "queued_bytes": 21, "unacknowledged_bytes": 22, "sent_bytes_total": 23, "received_bytes_total": 24,
        "resumes_total": 25, "twin_up": 0, "copies_total": 0, "copies_left_out_total": 0, "copies_first_total": 0,
        "copies_passed_over_total": 0,
    }  # fmt: skip


def test_refusals_are_shown_by_cause_and_denials_by_peer_verb_and_cause() -> None:
    assert told(Links(refused={"expired": 5, "revoked": 6}, denials=DENIALS)) == {
        ("rtmw_node_link_refused_total", labelled(cause="expired")): 5,
        ("rtmw_node_link_refused_total", labelled(cause="revoked")): 6,
        ("rtmw_node_denials_total", labelled(peer="rtmw://plant/press", verb="publish", cause="deny")): 3,
        ("rtmw_node_denials_total", labelled(peer="rtmw://plant/press", verb="subscribe", cause="deny")): 4,
    }
    assert told(None) == {}


def test_topics_that_a_peer_denies_are_counted_by_what_is_denied_and_why() -> None:
    rows = DeniedTopics("publish", "deny", 3), DeniedTopics("subscribe", "subject", 4)
    shown = told(Links(peers=(replace(UP, denied=rows),)))
    peer = {"peer": "rtmw://plant/press", "host": "press", "domain": "7"}
    assert shown["rtmw_node_link_denied_topics", labelled(**peer, verb="publish", cause="deny")] == 3
    assert shown["rtmw_node_link_denied_topics", labelled(**peer, verb="subscribe", cause="subject")] == 4


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[LinkedPair]:
    pair = LinkedPair(tmp_path).with_keys()
    yield pair
    pair.end()


def value(linked: LinkedPair, name: str, **labels: str) -> float:
    """Of the hub, about press; 0: it is not shown."""
    wanted = labelled(peer="rtmw://plant/press", **labels)
    shown = [found for (of, given), found in scrape(port_of(linked.hub)).items() if of == name and wanted <= given]
    return sum(shown)


def test_a_node_shows_a_link_that_is_up_what_crosses_it_and_what_its_rules_denied(linked: LinkedPair) -> None:
    linked.rules["hub"] = '[[allow]]\npeer = "*"\npublish = ["*"]\nsubscribe = ["*"]\ndeny = ["secret"]\n'
    linked.hub.start("--config", str(linked.settings("hub")), "--metrics-port", "0")
    linked.start("press").wait_up()
    of = partial(value, linked)
    wait_until(lambda: of("rtmw_node_link_up") == 1, "the link is shown")
    assert of("rtmw_node_link_certificate_expiry_time_seconds") == linked.peers("hub")[0]["expires"]
    with (
        rtmw.Subscriber("secret", domain=linked.press.domain),
        rtmw.Subscriber("a", reliability=Reliability.RELIABLE, domain=linked.press.domain) as taker,
        rtmw.Publisher("a", reliability=Reliability.RELIABLE, max_blocking=PATIENCE, domain=linked.hub.domain) as out,
    ):
        assert out.wait_for_subscribers(1, timeout=PATIENCE)
        assert out.publish(bytes(100_000))
        assert len(taker.receive(timeout=PATIENCE).value) == 100_000
        wait_until(lambda: of("rtmw_node_link_sent_bytes_total") >= 100_000, "what was sent is counted")
        denied = partial(of, "rtmw_node_denials_total", verb="subscribe", cause="deny")
        wait_until(lambda: denied() == 1, "the denial is counted")
    wait_until(lambda: 0 < of("rtmw_node_link_round_trip_seconds") < PATIENCE, "the round trip is measured")
    linked.press.kill()
    wait_until(lambda: of("rtmw_node_link_up") == 0, "the link is cut")
