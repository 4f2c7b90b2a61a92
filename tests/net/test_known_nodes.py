"""Who is met, and by which way: of what a node's document has of DDS and of links. Who hears whom."""

from __future__ import annotations

from dataclasses import replace

from rtmw.net.dds.own_topics import Peer
from rtmw.net.known_nodes import hearing, nodes_met
from rtmw.observe.node_status import DdsPeer, Hearing, LinkPeer, Links, NodeStatus
from rtmw.text.strict_json import as_object

OVER_DDS = DdsPeer("press", 4, 1, node=7, address="10.0.0.7:7410", offset_ns=5, round_trip_ns=6)
OVER_LINK = LinkPeer(
    "rtmw://plant/press", "press", 4, 1, "10.0.0.7:7447", max_rate=100, clock_offset_ns=8, round_trip_ns=11,
    least_round_trip_ns=9, warning="a clock", up=True,
)  # fmt: skip


def told(*peers: DdsPeer, links: tuple[LinkPeer, ...] = ()) -> NodeStatus:
    return NodeStatus(1, 1, peers=peers, links=Links(peers=links))


def ways(status: NodeStatus) -> list[str]:
    return [node.by for node in nodes_met(status)]


def test_a_peer_of_a_link_has_what_one_of_dds_has() -> None:
    (node,) = nodes_met(told(links=(OVER_LINK,)))
    assert as_object(node).keys() == as_object(nodes_met(told(OVER_DDS))[0]).keys()
    assert (node.name, node.by, node.offset_ns, node.round_trip_ns) == ("rtmw://plant/press", "link", 8, 9)
    assert ways(told(links=(replace(OVER_LINK, up=False),))) == ["link, cut"]


def test_a_node_that_is_met_by_both_ways_is_one() -> None:
    (node,) = nodes_met(told(OVER_DDS, links=(OVER_LINK,)))
    assert as_object(node) == {**as_object(OVER_DDS), "name": "rtmw://plant/press", "by": "DDS, link"}
    assert ways(told(OVER_DDS, links=(replace(OVER_LINK, domain=2),))) == ["DDS", "link"]
    (alone,) = nodes_met(NodeStatus(1, 1, peers=(OVER_DDS,)))
    assert as_object(alone) == {**as_object(OVER_DDS), "name": None, "by": "DDS"}


def test_a_node_whose_topics_go_by_link_alone_is_met_by_link_though_it_is_heard_over_dds() -> None:
    linked = replace(OVER_DDS, way="link")
    assert ways(told(linked, links=(OVER_LINK,))) == ["link"]
    assert ways(told(linked)) == ["link, none yet"]
    assert ways(told(replace(OVER_DDS, way="refused"))) == ["refused"]


def test_who_is_heard_who_was_and_who_never_was_has_a_row_each() -> None:
    heard = Peer(7, "press", 4, 1, 98.0, None, 1, hears=90.0)
    lost = Peer(8, "oven", 5, 2, 60.0, None, 2, hears=59.0)
    rows = hearing(
        [heard], [lost], ["10.0.0.7:7410", "[fd00::7]:7410"], ["10.0.0.7", "[fd00::7]", "10.0.0.8:7412"], 100.0
    )
    assert rows == (
        Hearing("press", 4, 1, silent_s=2.0, deaf_s=10.0),
        Hearing("oven", 5, 2, silent_s=40.0),
        Hearing("10.0.0.8:7412"),
    )
