"""Links of a node, as the doctor shows them."""

from __future__ import annotations

import pytest

from rtmw.cli.node_links import examined
from rtmw.net.link.linked import TOLD


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
    peer = {"peer": "rtmw://plant/hub", "up": False, "down_s": 4.0, "why_down": why, "down_code": code, "user": False}
    (check,) = examined({"failing": {}, "ports": [], "peers": [peer]})
    assert (check.found, check.advice) == (f"cut for 4 s: {why}", advice)
