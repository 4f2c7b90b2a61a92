"""Who is met, and by which way: of the rows that a node's document has of DDS and of links. Who hears whom."""

from __future__ import annotations

from typing import Any

from rtmw.net.dds.own_topics import Peer
from rtmw.net.known_nodes import hearing, nodes_met

OVER_DDS: dict[str, Any] = {
    "node": 7, "host": "press", "pid": 4, "domain": 1, "address": "10.0.0.7:7410", "max_rate": None,
    "offset_ns": 5, "round_trip_ns": 6, "warning": None, "way": "DDS", "why": "", "advice": "", "unfound": "",
}  # fmt: skip
OVER_LINK: dict[str, Any] = {
    "peer": "rtmw://plant/press", "host": "press", "pid": 4, "domain": 1, "address": "10.0.0.7:7447", "max_rate": 100,
    "clock_offset_ns": 8, "round_trip_ns": 11, "least_round_trip_ns": 9, "warning": "a clock", "up": True,
}  # fmt: skip


def test_a_peer_of_a_link_has_what_one_of_dds_has() -> None:
    (row,) = nodes_met({"peers": [], "links": {"peers": [OVER_LINK]}})
    assert row.keys() == nodes_met({"peers": [OVER_DDS]})[0].keys()
    assert (row["name"], row["by"], row["offset_ns"], row["round_trip_ns"]) == ("rtmw://plant/press", "link", 8, 9)
    (row,) = nodes_met({"peers": [], "links": {"peers": [{**OVER_LINK, "up": False}]}})
    assert row["by"] == "link, cut"


def test_a_node_that_is_met_by_both_ways_is_one() -> None:
    (row,) = nodes_met({"peers": [OVER_DDS], "links": {"peers": [OVER_LINK]}})
    assert row == {**OVER_DDS, "name": "rtmw://plant/press", "by": "DDS, link"}
    other = {**OVER_LINK, "domain": 2}
    assert [row["by"] for row in nodes_met({"peers": [OVER_DDS], "links": {"peers": [other]}})] == ["DDS", "link"]
    assert nodes_met({"peers": [OVER_DDS], "links": None}) == [{**OVER_DDS, "name": None, "by": "DDS"}]


def test_a_node_whose_topics_go_by_link_alone_is_met_by_link_though_it_is_heard_over_dds() -> None:
    linked = {**OVER_DDS, "way": "link"}
    assert [row["by"] for row in nodes_met({"peers": [linked], "links": {"peers": [OVER_LINK]}})] == ["link"]
    assert [row["by"] for row in nodes_met({"peers": [linked], "links": {"peers": []}})] == ["link, none yet"]
    assert [row["by"] for row in nodes_met({"peers": [{**OVER_DDS, "way": "refused"}]})] == ["refused"]


def test_who_is_heard_who_was_and_who_never_was_has_a_row_each() -> None:
    heard = Peer(7, "press", 4, 1, 98.0, None, 1, hears=90.0)
    lost = Peer(8, "oven", 5, 2, 60.0, None, 2, hears=59.0)
    rows = hearing(
        [heard], [lost], ["10.0.0.7:7410", "[fd00::7]:7410"], ["10.0.0.7", "[fd00::7]", "10.0.0.8:7412"], 100.0
    )
    assert rows == [
        {"host": "press", "pid": 4, "domain": 1, "silent_s": 2.0, "deaf_s": 10.0},
        {"host": "oven", "pid": 5, "domain": 2, "silent_s": 40.0, "deaf_s": None},
        {"host": "10.0.0.8:7412", "pid": None, "domain": None, "silent_s": None, "deaf_s": None},
    ]
