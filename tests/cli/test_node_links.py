"""Links of a node, as the doctor shows them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rtmw.cli.node_doctor import examined
from rtmw.cli.node_status import links_words
from rtmw.net.link.linked import TOLD
from rtmw.observe.node_status import DeniedTopics, LinkPeer, Links, TurnedAwayAddress

HUB = LinkPeer(None, "hub", 4, 1)
"""A peer without a name, as an older node tells of it."""
REFUSED = TurnedAwayAddress("10.0.0.7", "expired", "the peer's certificate has expired", 1, ago_s=4.0)


@pytest.mark.parametrize(
    ("code", "why", "advice"),
    [
        (TOLD, "the peer says: the node ends", "what the peer says is the reason; see rtmw node doctor there"),
        (1, "the peer says of the network: lost", "look at the network between the two, and at rtmw node doctor there"),
    ],
)
def test_the_network_is_looked_at_only_where_the_peer_has_not_said_why_it_ends_a_link(
    code: int, why: str, advice: str
) -> None:
    peer = LinkPeer("rtmw://plant/hub", "hub", 4, 1, down_s=4.0, why_down=why, down_code=code)
    (check,) = examined(Links(peers=(peer,)))
    assert (check.found, check.advice) == (f"cut for 4 s: {why}", advice)


def test_topics_that_a_peer_denies_are_counted_and_are_no_fault_by_themselves() -> None:
    denied = DeniedTopics("publish", "deny", 3), DeniedTopics("subscribe", "subject", 4)
    _, check = examined(Links(peers=(replace(HUB, up=True, routes_out=1, routes_in=2, denied=denied),)))
    assert (check.name, check.found, check.advice) == (
        "topics that hub denies",
        "3 published here (deny), 4 wanted here (subject); rtmw node info names them",
        "",
    )


def test_who_was_refused_lately_is_named_with_the_cause_and_what_to_do() -> None:
    once, again = examined(Links(turned_away=(REFUSED, replace(REFUSED, count=3))))
    assert (once.name, once.found) == (
        "connections from 10.0.0.7",
        "refused once, the last time 4 s ago (expired): the peer's certificate has expired",
    )
    assert again.found.startswith("refused 3 times, ")
    assert "rtmw node doctor there" in once.advice


def test_refusals_are_told_by_cause_in_all_and_of_each_address() -> None:
    often = replace(REFUSED, count=9, causes={"protocol": 7, "expired": 2})
    refused = {"protocol": 1900, "expired": 2, "timeout": 3}
    every, one = examined(Links(turned_away=(often,), refused=refused))
    assert (every.found, every.advice) == ("expired 2, protocol 1900, timeout 3", "")
    assert one.found.startswith("refused 9 times (expired 2, protocol 7), the last time 4 s ago (expired): ")


@pytest.mark.parametrize(
    ("up", "why", "state"),
    [
        (True, "", "is up"),
        (False, "nobody answered in time", "is not there: nobody answered in time"),
        (False, "", "is not there: it has ended"),
    ],
)
def test_a_twin_is_told_with_its_copies_and_why_it_is_not_there(up: bool, why: str, state: str) -> None:
    copies = {"copies": 4, "copies_left_out": 3, "copies_first": 2, "copies_passed_over": 1}
    peer = replace(HUB, twin=up, twins=1, why_no_twin=why, **copies)
    (words,) = links_words(Links(peers=(peer,)))
    assert words == (
        f"The twin of the link with hub {state}; 4 copies sent, 3 left out; of those of the peer 2 came before their "
        "message, 1 after it."
    )


def test_of_a_link_that_has_had_no_twin_nothing_is_told() -> None:
    assert [*links_words(Links(peers=(HUB,)))] == []
