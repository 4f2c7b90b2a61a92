"""A peer of a newer version: it lives together with this one, or both ends say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from tests.net.hosts import wait_until
from tests.net.link.liar import Liar
from tests.net.link.nodes import LinkedPair
from tests.net.link.test_security import says

NAME = "rtmw://plant/newer"
UNKNOWN = ('{"is":"forecast","of":"a"}', '{"is":"interest","topic":"a","wanted":[],"colour":7}')
"""A control that this version does not know, and a field."""


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[LinkedPair]:
    pair = LinkedPair(tmp_path).with_keys()
    yield pair
    pair.end()


# Proves G245.
def test_a_peer_that_speaks_this_version_too_has_a_link_and_what_is_new_is_passed_over(
    linked: LinkedPair, third: rtmw.Domain
) -> None:
    assert linked.site
    linked.start("hub")
    peer = Liar(third, linked.site.keys(NAME), linked.port, highest=2, garbage=UNKNOWN)
    try:
        peer.wait_up()
        with rtmw.Subscriber("b", domain=linked.hub.domain), rtmw.Publisher("b", domain=third):
            wait_until(lambda: linked.crossed("hub", "in", "b")["writers"] == 1, "a topic crosses, behind what is new")
        assert linked.is_up("hub")
    finally:
        peer.close()


# Proves G245.
def test_a_peer_without_a_version_in_common_gets_no_link_and_both_ends_say_what_to_do(
    linked: LinkedPair, third: rtmw.Domain
) -> None:
    assert linked.site
    linked.start("hub")
    peer = Liar(third, linked.site.keys(NAME), linked.port, lowest=2, highest=3)
    try:
        says(
            linked,
            "hub",
            "no version in common: 1 to 1 here, 2 to 3 at the peer; install a newer rtmw at the node that says so",
        )
        assert "the peer refuses: no version in common: 1 to 1 here, 2 to 3 at the peer; install a" in peer.says()
        assert linked.peers("hub") == []
    finally:
        peer.close()
