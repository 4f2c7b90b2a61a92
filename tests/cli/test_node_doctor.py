"""`rtmw node doctor`: what it finds in the way, and what to do."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw.cli.node_doctor import (
    RECENT_S,
    checks,
    clock,
    datagrams,
    interface,
    peers,
    ports,
    receive_buffer,
    ways,
)
from rtmw.cli.node_status import here_only, unmatched_table
from rtmw.clock import CLOCK
from rtmw.net.known_nodes import nodes_met
from rtmw.net.settings import STATUS_TOPIC
from rtmw.observe.node_status import Member, NodeStatus, Patterns
from rtmw.publisher import OwnPublisher
from tests.cli.command import Run

STATUS: dict[str, Any] = {
    "pid": 11, "dds_domain": 4, "interface": "lo", "interface_why": "it was named", "multicast": True,
    "participants": 2, "told_ns": 1 << 62,
    "peers": [
        {"host": "far", "pid": 7, "domain": 3, "offset_ns": -2_000_000, "round_trip_ns": 500_000, "warning": None},
    ],
    "apart": [], "refused": {},
}  # fmt: skip
"""What an older node tells: it leaves out what has come since. It has told so in the future, so just now."""


def status_of(**more: Any) -> NodeStatus:
    """The status of such a node, with more that it tells."""
    return NodeStatus.of(STATUS | more)


ENDED = {"name": "transfer", "pid": None, "failures": 4, "why": "the folder of data cannot be used"}


def advice(status: NodeStatus | None) -> list[str]:
    """But for the receive buffer, which is this machine's."""
    return [check.advice for check in checks(4, status) if check.advice and check.name != "receive buffer"]


def test_a_node_with_peers_is_well() -> None:
    assert advice(status_of()) == []


@pytest.mark.parametrize(
    ("out", "into", "dds", "interface", "said"),
    [
        ("*", "*", "*", "eth0", ("none", "all", "everybody on eth0", "to read: all; to publish: all")),
        ("*", "*", "", "eth0", ("all", "none", "everybody on eth0", "to read: none; to publish: none")),
        ("*", "", "a/*", "lo", ("all but a/*", "a/*", "every program of this host", "to read: a/*; to publish: none")),
        (
            "b",
            "a",
            "a/*",
            None,
            ("all but a/*", "a/*", "everybody on the network", "to read: a/* within b; to publish: a/* within a"),
        ),
    ],
)
def test_each_group_of_topics_has_a_line_that_says_which_way_it_takes_and_to_whom_it_is_open(
    out: str, into: str, dds: str, interface: str | None, said: tuple[str, ...]
) -> None:
    patterns = Patterns(*(tuple(filter(None, [one])) for one in (out, into, dds)))
    by_link, by_dds, everybody = ways(patterns, interface)
    assert (by_link.name, by_dds.name) == ("topics by link only", "topics by DDS, in clear")
    found = (by_link.found, by_dds.found, everybody.name.removeprefix("topics open to "), everybody.found)
    assert found == said
    assert not by_link.advice + by_dds.advice + everybody.advice


def test_a_node_that_says_nothing_is_named_with_for_how_long() -> None:
    told_ns = CLOCK.monotonic_ns() - 61_000_000_000
    (check,) = (check for check in checks(4, status_of(told_ns=told_ns)) if check.name == "node")
    assert check.found == "process 11 has said nothing for 61 s"
    assert "start it again" in check.advice


def test_without_a_node_it_says_how_to_start_one_and_ends_with_1(run: Run, domain_id: int) -> None:
    status, out, _ = run("node", "doctor", "--domain", str(domain_id))
    assert status == 1
    assert f"start one: rtmw node --domain {domain_id}" in out
    with rtmw.Domain(domain_id, pool="8M"):
        assert run("node", "doctor", "--domain", str(domain_id))[:2] == (status, out)


@pytest.mark.parametrize(
    ("more", "status", "strict"),
    [
        ({"participants": 0, "peers": []}, 0, 3),
        ({"participants": 0, "peers": [], "services": [ENDED]}, 1, 1),
        ({"participants": 0, "peers": [], "refused": {"t": "too many"}}, 1, 1),
    ],
)
# Proves G116.
def test_the_status_tells_a_fault_from_a_remark_and_strict_tells_remarks_from_none(
    run: Run, domain: rtmw.Domain, more: dict[str, Any], status: int, strict: int
) -> None:
    told = {**STATUS, "pid": os.getpid(), "told_ns": CLOCK.monotonic_ns(), **more}
    with OwnPublisher(STATUS_TOPIC, domain=domain, history=1) as node:
        node.publish(json.dumps(told).encode())
        asked = "node", "doctor", "--domain", str(domain.id)
        assert (run(*asked)[0], run(*asked, "--strict")[0]) == (status, strict)
        found = json.loads(run(*asked, "--json")[1])
        assert (found["faults"] > 0, found["well"], found["remarks"] > 0) == (status == 1, status == 0, True)


@pytest.mark.parametrize(
    ("flags", "found", "words"),
    [
        ("0x1003", "eth7: it was named", ""),
        ("0x1002", "eth7 is down", "ip link set eth7 up"),
        ("0x3", "eth7 has no multicast", "multicast on, or name the other hosts with --peers"),
        (None, "eth7 is gone", "another --interface"),
    ],
)
def test_the_interface_has_to_be_up_and_to_multicast(tmp_path: Path, flags: str | None, found: str, words: str) -> None:
    if flags is not None:
        (tmp_path / "eth7").mkdir()
        (tmp_path / "eth7" / "flags").write_text(flags + "\n")
    check = interface("eth7", "it was named", True, tmp_path)
    assert check.found == found
    assert words in check.advice
    assert bool(words) is bool(check.advice)


@pytest.mark.parametrize(
    ("mtu", "datagram", "found", "words"),
    [
        ("1500", 1472, "1,472 bytes at most", ""),
        ("1500", 1452, "1,452 bytes at most", ""),
        ("9000", 65500, "65,500 bytes at most", ""),
        (None, 1472, "1,472 bytes at most", ""),
        ("1280", 1472, "1,472 bytes at most", "the MTU of eth7 is 1280 now, so IP divides them"),
        ("1500", 65500, "65,500 bytes at most", "the MTU of eth7 is 1500 now, so IP divides them"),
        ("1500", None, "as large as CYCLONEDDS_URI says", ""),
    ],
)
def test_an_mtu_that_became_smaller_than_the_datagrams_is_a_remark(
    tmp_path: Path, mtu: str | None, datagram: int | None, found: str, words: str
) -> None:
    if mtu is not None:
        (tmp_path / "eth7").mkdir()
        (tmp_path / "eth7" / "mtu").write_text(mtu + "\n")
    (check,) = datagrams(status_of(interface="eth7", datagram=datagram), tmp_path)
    assert check.advice == (f"{words}: start the node again" if words else "")
    assert (check.found, check.kind) == (found, "remark" if words else None)


def test_an_interface_without_multicast_is_well_where_peers_are_named(tmp_path: Path) -> None:
    (tmp_path / "eth7").mkdir()
    (tmp_path / "eth7" / "flags").write_text("0x3\n")
    assert interface("eth7", "it was named", False, tmp_path).advice == ""


@pytest.mark.parametrize(
    ("dds_domain", "reserved", "is_given"),
    [
        (101, "", False),
        (102, "", True),
        (214, "", True),
        (215, "", False),
        (102, "8080,32900-33149", False),
        (102, "32900", True),
    ],
)
def test_a_dds_domain_whose_ports_the_kernel_gives_to_others_is_advised_against(
    tmp_path: Path, dds_domain: int, reserved: str, is_given: bool
) -> None:
    (tmp_path / "given").write_text("32768\t60999\n")
    (tmp_path / "reserved").write_text(reserved + "\n")
    check = ports(dds_domain, tmp_path / "given", tmp_path / "reserved")
    first = 7400 + 250 * dds_domain
    assert (f"ip_local_reserved_ports={first}-{first + 249}" in check.advice) is is_given
    assert check.found == f"{first} to {first + 249}, of DDS domain {dds_domain}"


@pytest.mark.parametrize(("limit", "is_small"), [("212992", True), ("16777216", False), ("", False)])
def test_a_small_receive_buffer_is_advised_against(tmp_path: Path, limit: str, is_small: bool) -> None:
    (tmp_path / "rmem_max").write_text(limit)
    assert ("sysctl -w net.core.rmem_max" in receive_buffer(tmp_path / "rmem_max").advice) is is_small


def test_loneliness_has_advice_by_its_likely_cause() -> None:
    alone = status_of(participants=0, peers=[])
    assert "loopback reaches this host only" in peers(alone).advice
    assert "DDS domain 4" in peers(replace(alone, interface="eth7")).advice
    assert peers(replace(alone, participants=1)).advice == ""


def test_a_clock_that_is_off_carries_the_nodes_warning() -> None:
    (peer,) = nodes_met(status_of(peers=[STATUS["peers"][0] | {"warning": "it is off"}]))
    assert (clock(peer).advice, clock(peer).found) == ("it is off", "-2 ms, there and back 0.5 ms")
    assert clock(replace(peer, offset_ns=None, round_trip_ns=None, warning=None)).found == "not measured yet"


def test_sides_that_do_not_fit_are_faults_and_solitude_of_a_topic_is_none() -> None:
    apart = [
        {"topic": "a", "direction": "out", "cause": "type", "reason": "types differ"},
        {"topic": "b", "direction": "in", "cause": "qos", "reason": "less is offered"},
        {"topic": "c", "direction": "out", "cause": "nobody", "reason": "nobody reads it"},
        {"topic": "d", "direction": "out", "cause": "pattern", "reason": "no pattern"},
    ]
    status = status_of(apart=apart, refused={"e": "cannot be sent"})
    assert advice(status) == ["types differ", "less is offered", "cannot be sent"]
    assert [row[0] for row in unmatched_table(status).rows] == ["a", "b", "d", "e"]
    assert list(here_only(status)) == ["1 topic published here and read by nobody of whom this node knows: c."]


def test_a_topic_that_is_kept_from_crossing_is_not_told_to_be_of_this_host_alone() -> None:
    nobody = [
        {"topic": topic, "direction": way, "cause": "nobody", "reason": ""} for topic in "abc" for way in ("in", "out")
    ]
    denied = {"topic": "a", "direction": "out", "cause": "rule", "reason": "the peer denies it"}
    elsewhere = (Member("far", 3, 7, "press.py", "b", True, "bytes", "ADAPTIVE"),)
    status = replace(status_of(apart=[denied, *nobody]), elsewhere=elsewhere)
    assert list(here_only(status)) == [
        "2 topics published here and read by nobody of whom this node knows: b, c.",
        "2 topics read here and published by nobody of whom this node knows: a, c.",
    ]


def test_what_stood_still_lately_is_a_remark_and_what_was_refused_is_told_by_cause() -> None:
    now = CLOCK.monotonic()
    row = {"topic": "t", "direction": "in", "peer": "far", "times": 2, "missing": 78, "at": now}
    rows = [row, {**row, "topic": "old", "at": now - RECENT_S - 1}]
    stood = {"in": 4, "out": 0, "rows": rows}
    found = [*checks(4, status_of(standstills=stood, refusals={"rtmw/node": 7, "endpoint": 1}))]
    (check,) = (check for check in found if check.name == "t")
    assert check.kind == "remark"
    assert check.found.startswith("stood still 2 times from far, and was made anew ")
    assert check.found.endswith("; 78 messages had not come")
    assert not any(check.name == "old" for check in found)
    (refused,) = (check.found for check in found if check.name == "samples refused")
    assert refused.startswith("endpoint 1, rtmw/node 7;")
