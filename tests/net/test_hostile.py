"""Whatever a stranger sends or announces costs him alone: the nodes live, carry on, count it, and tell no lies."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest

import rtmw
from rtmw.net.dds.library import Policy
from rtmw.net.dds.own_topics import PEERS_MOST, Roster
from rtmw.net.dds.wire import MARK, udp_ports
from rtmw.text.daemon_log import LINES_MOST
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.stranger import (
    NOT_TEXT,
    Beacon,
    Stranger,
    beacon,
    beacon_of_bytes,
    echo,
    note,
    roster,
    roster_of_bytes,
    stranger_in,
)
from tests.whole import sample

R = rtmw.Reliability.RELIABLE
Pair = tuple[Host, Host]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two hosts with nodes, which all strangers of this file try to harm."""
    folder, dds_domain = tmp_path_factory.mktemp("hosts"), free_number()
    hosts = [Host(free_number(), dds_domain, folder)]
    hosts.append(Host(free_number(), dds_domain, folder))
    for host in hosts:
        host.start()
    yield hosts[0], hosts[1]
    for host in hosts:
        host.end()


@pytest.fixture
def stranger(pair: Pair) -> Iterator[Stranger]:
    with stranger_in(pair[0].dds_domain) as made:
        yield made


_streams = count()
GREETING, END = b"is anybody there", b"that was all"


def carries_on(pair: Pair, topic: str = "") -> None:
    """A stream from one host to the other, whole, with both nodes alive and aware of each other. `topic`: else one
    that nobody has used."""
    here, there = pair
    topic = topic or f"stream/{next(_streams)}"
    with (
        rtmw.Subscriber(topic, reliability=R, depth=1000, domain=there.domain) as subscriber,
        rtmw.Publisher(topic, reliability=R, depth=1000, max_blocking=PATIENCE, domain=here.domain) as publisher,
    ):
        wait_until(partial(crosses, publisher, subscriber), "the topic does not cross")
        for number in range(200):
            assert publisher.publish(b"%d" % number)
        assert publisher.publish(END)
        got = [*iter(lambda: subscriber.receive(timeout=PATIENCE).value, END)]
    assert [int(value) for value in got if value != GREETING] == [*range(200)]
    for host, other in (pair, pair[::-1]):
        assert host.node.poll() is None, host.said
        wait_until(partial(is_heard, host, other), "the nodes do not hear each other")


def crosses(publisher: rtmw.Publisher[bytes], subscriber: rtmw.Subscriber[bytes]) -> bool:
    """Seen by the messages themselves: a node tells of its topics once a second."""
    assert publisher.publish(GREETING)
    return subscriber.take() is not None


def is_heard(here: Host, there: Host) -> bool:
    return there.node.pid in {peer["pid"] for peer in here.info()["peers"]}


def refused(host: Host, cause: str) -> int:
    return int(host.info()["refusals"].get(cause, 0))


def refused_by_both(pair: Pair, cause: str, act: Callable[[], Callable[[], None]]) -> None:
    """What `act` does, and what it returns does again, is refused by both nodes."""
    before = [refused(host, cause) for host in pair]
    again = act()

    def is_counted() -> bool:
        again()
        return all(refused(host, cause) > number for host, number in zip(pair, before, strict=True))

    wait_until(is_counted, "it is not counted")


ROSTERS: dict[str, Any] = {
    "a member too few": roster('[[1,"p",5,true,"t"]]'),
    "a topic that is a number": roster('[[1,"p",5,true,"t","R"]]'),
    "no such reliability": roster('[[1,"p","t",true,"t","R"]]'),
    "a pid below zero": roster('[[-1,"p","t",true,"t","RELIABLE"]]'),
    "an object": roster('{"a":1}'),
    "no JSON": roster("nothing"),
    "very deep": roster("[" * 100_000),
    "very many": roster(json.dumps([[1, "p", "t", True, "t", "RELIABLE"]] * 6000)),
    "a host with a long name": roster("[]", "x" * 5000),
    "no text": roster_of_bytes(NOT_TEXT, b"[]"),
    "members that are no text": roster_of_bytes(b"evil", NOT_TEXT),
}
BEACONS: dict[str, Any] = {
    "no text": beacon_of_bytes(NOT_TEXT),
    "a host with a long name": beacon(7, "x" * 5000),
}


# Proves G289.
def test_a_roster_that_is_none_is_refused_and_counted(pair: Pair, stranger: Stranger) -> None:
    before = [refused(host, "rtmw/members") for host in pair]
    for what in ROSTERS.values():
        stranger.tell("rtmw/members", Roster, what)
    counted = [number + len(ROSTERS) for number in before]
    wait_until(lambda: [refused(host, "rtmw/members") for host in pair] == counted, "not each is counted once")
    carries_on(pair)


@pytest.mark.parametrize("what", sample(ROSTERS, 2))
def test_a_roster_of_an_older_node_is_read_as_strictly(pair: Pair, stranger: Stranger, what: str) -> None:
    refused_by_both(pair, "rtmw/roster", lambda: stranger.tell("rtmw/roster", Roster, ROSTERS[what]))
    carries_on(pair)


def test_members_of_an_older_node_which_tells_them_once_a_second_are_shown_until_it_is_silent(
    pair: Pair, stranger: Stranger
) -> None:
    again = stranger.tell("rtmw/roster", Roster, roster('[[4713, "older", "t", true, "bytes", "RELIABLE"]]', "oldhost"))

    def is_shown() -> bool:
        return any(one["program"] == "older" for one in pair[0].info()["elsewhere"])

    wait_until(lambda: again() is None and is_shown(), "the older node's member is not shown")
    wait_until(lambda: not is_shown(), "it is still shown")


def test_members_of_a_newer_node_are_shown_though_they_tell_more(pair: Pair, stranger: Stranger) -> None:
    rows = [[4711, "newer", "any/topic", True, "bytes", "RELIABLE", {"more": 1}, "and more"]]
    again = stranger.tell("rtmw/members", Roster, roster(json.dumps(rows), "newhost"))

    def is_shown() -> bool:
        again()
        return any(one["program"] == "newer" for one in pair[0].info()["elsewhere"])

    wait_until(is_shown, "the newer node's member is not shown")


def test_names_from_elsewhere_do_not_steer_a_terminal(pair: Pair, stranger: Stranger) -> None:
    rows = [[4712, "\x1b[2Jcleared", "any/\x07topic", True, "bytes", "RELIABLE"]]
    again = stranger.tell("rtmw/members", Roster, roster(json.dumps(rows), "new\nhost"))

    def members() -> list[Any]:
        again()
        return [one for one in pair[0].info()["elsewhere"] if one["pid"] == 4712]

    wait_until(lambda: bool(members()), "the member is not shown")
    (member,) = members()
    assert (member["program"], member["topic"], member["host"]) == (
        r"\x1b[2Jcleared",
        r"any/\x07topic",
        r"new\nhost",
    )


# Proves G293.
def test_of_very_many_endpoints_elsewhere_the_status_names_a_bounded_number(pair: Pair, stranger: Stranger) -> None:
    rows = [[1, "p", f"many/{number}", True, "bytes", "RELIABLE"] for number in range(3000)]
    again = stranger.tell("rtmw/members", Roster, roster(json.dumps(rows)))

    def is_bounded() -> bool:
        again()
        told = pair[0].info()
        return len(told["elsewhere"]) == 1000 and told["elsewhere_untold"] >= 2000

    wait_until(is_bounded, "they are not told, or all are named")


@pytest.mark.parametrize("what", BEACONS)
# Proves G289.
def test_a_beacon_that_is_none_is_refused_and_counted(pair: Pair, stranger: Stranger, what: str) -> None:
    refused_by_both(pair, "rtmw/node", lambda: stranger.tell("rtmw/node", Beacon, BEACONS[what]))
    carries_on(pair)


def test_times_that_cannot_be_are_no_measurement(pair: Pair, stranger: Stranger) -> None:
    nodes = [peer["node"] for host in pair for peer in host.info()["peers"]]
    lie = beacon(99, "liar", tuple(echo(node, (1 << 63) - 1, 0) for node in nodes))
    refused_by_both(pair, "rtmw/node", lambda: stranger.tell("rtmw/node", Beacon, lie))
    assert all(peer["round_trip_ns"] is None or peer["round_trip_ns"] >= 0 for peer in pair[0].info()["peers"])


# Proves G292.
def test_a_beacon_in_the_name_of_another_node_is_refused_and_takes_nothing_from_it(
    pair: Pair, stranger: Stranger
) -> None:
    here, there = pair
    wait_until(partial(is_heard, here, there), "the nodes do not hear each other")
    nodes = [peer["node"] for host in pair for peer in host.info()["peers"]]
    lies = [beacon(node, "liar") for node in nodes]
    refused_by_both(pair, "rtmw/node", lambda: stranger.tell("rtmw/node", Beacon, *lies))
    stranger.close()
    mark = here.said
    for host, other in (pair, pair[::-1]):
        since = host.info()["told_ns"]
        wait_until(lambda host=host, since=since: host.info()["told_ns"] > since + 2_500_000_000, "it says nothing")
        assert is_heard(host, other)
        assert not any(peer["host"] == "liar" for peer in host.info()["peers"])
    assert f"({there.node.pid}) has left" not in here.said.removeprefix(mark)


# Proves G290.
def test_a_flood_of_datagrams_that_are_no_dds_is_sixty_lines_in_the_log(tmp_path: Path) -> None:
    host = Host(free_number(), free_number(), tmp_path)
    try:
        host.start()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for _ in range(2000):
                for port in udp_ports(host.dds_domain)[10:12]:
                    stranger.sendto(b"RTPS\2\1\1\x10" + bytes(12) + b"\x15\1\xff\xffgarbage", ("127.0.0.1", port))
        wait_until(lambda: said_by_dds(host) >= LINES_MOST - 1, "the log does not tell of it")
        host.stop()
        assert said_by_dds(host) == LINES_MOST
        last = [line for line in host.said.splitlines() if "the DDS library says" in line][-1]
        assert "malformed packet" in last
        assert re.search(r"rtmw node: [0-9]+ more lines of this kind within a minute", last)
        assert all("rtmw node: " in line for line in host.said.splitlines())
    finally:
        host.end()


def said_by_dds(host: Host) -> int:
    return host.said.count("the DDS library says")


# Proves G293.
def test_invented_nodes_are_bounded_and_the_real_ones_stay(pair: Pair, stranger: Stranger) -> None:
    here, there = pair
    before = psutil.Process(here.node.pid).memory_info().rss
    told = count(100)

    def is_full() -> bool:
        stranger.tell("rtmw/node", Beacon, *(beacon(next(told), "invented") for _ in range(200)))
        return refused(here, "rtmw/node") - already > 100

    already = refused(here, "rtmw/node")
    wait_until(is_full, "none of them is refused")
    peers = here.info()["peers"]
    assert len(peers) <= PEERS_MOST
    assert there.node.pid in {peer["pid"] for peer in peers}
    assert psutil.Process(here.node.pid).memory_info().rss - before < 32 << 20
    carries_on(pair)


UNION = {
    "S": {"kind": "struct", "fields": [["q", "int8"]], "extensibility": "final"},
    "U": {
        "kind": "union",
        "discriminator": {"type": "S"},
        "implicit": 0,
        "cases": [["a", [0], "int8"]],
        "extensibility": "final",
    },
}
NOTES: dict[str, Any] = {
    "a union whose discriminator is a struct": note([["u", {"type": "U"}]], UNION),
    "a bit out of bounds": note(
        [["e", {"type": "E"}]], {"E": {"kind": "bitmask", "bits": [["A", 40]], "bit_bound": 32}}
    ),
    "no description": Policy.Userdata(MARK + b"R" + NOT_TEXT),
    "nothing": Policy.Userdata(MARK),
}


@pytest.mark.parametrize("what", NOTES)
# Proves G289.
def test_a_type_that_cannot_be_is_named_and_costs_no_other_writer(pair: Pair, stranger: Stranger, what: str) -> None:
    there, topic = pair[1], f"type/{next(_streams)}"
    with rtmw.Subscriber(topic, rtmw.ANY, domain=there.domain):
        stranger.offer(topic, NOTES[what])
        wait_until(lambda: topic in there.info()["refused"], f"info does not name it: {there.said}")
        carries_on(pair, topic)


def test_a_description_longer_than_any_is_refused(pair: Pair, stranger: Stranger) -> None:
    there = pair[1]
    before = refused(there, "endpoint")
    stranger.offer("hostile/long", Policy.Userdata(MARK + b"R" + bytes(20_000)))
    wait_until(lambda: refused(there, "endpoint") > before, "it is not counted")
    carries_on(pair)


Announce = Callable[[Stranger], None]
ANNOUNCED: dict[str, Announce] = {
    "a partition that is no text": lambda s: s.offer_in_partition("hostile/p", NOT_TEXT),
    "a program's name that is no text": lambda s: s.join_as(__ProcessName=NOT_TEXT),
    "a long pid": lambda s: s.join_as(__Pid=b"9" * 5000),
    "a long host": lambda s: s.join_as(__Hostname=b"x" * 30_000),
    "a node's description that is deep": lambda s: s.join_as(userdata=MARK + b"[" * 30_000),
    "a domain that is no number": lambda s: s.join_as(userdata=MARK + b'{"domain":true,"packs":1,"pid":{}}'),
    "a very large domain": lambda s: s.join_as(userdata=MARK + b'{"domain":' + b"9" * 6000 + b"}"),
}


@pytest.mark.parametrize("what", ANNOUNCED)
# Proves G289.
def test_whatever_a_program_says_of_itself_does_no_harm(pair: Pair, stranger: Stranger, what: str) -> None:
    ANNOUNCED[what](stranger)
    carries_on(pair)


def test_what_is_refused_is_said_once(pair: Pair, stranger: Stranger) -> None:
    for _ in range(3):
        refused_by_both(pair, "rtmw/roster", lambda: stranger.tell("rtmw/roster", Roster, roster("nothing")))
    assert pair[0].said.count("rtmw/roster refused") == 1
