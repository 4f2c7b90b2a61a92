"""Of nodes with keys DDS carries and shows `dds_topics`, and that they are there: all else goes by link."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

import rtmw
from rtmw import Reliability
from rtmw.net.dds.discovery import Discovery, Refusals
from rtmw.net.dds.library import matched
from rtmw.net.dds.wire import join
from rtmw.net.settings import Settings
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.link.nodes import ALL, LinkedPair
from tests.net.raw import OCTETS

ETH_P_ALL, SO_RCVBUFFORCE = 3, 33
LINKED, DENIED, OPEN = (f"{name}/{os.getpid()}" for name in ("only/by/link", "never/to/anybody", "shown/to/all"))
"""Other tests of this file, in processes beside, do not name these: what is on loopback is looked at."""
RELIABLE = Qos(Policy.Reliability.Reliable(int(PATIENCE * 1e9)), Policy.History.KeepAll, Policy.IgnoreLocal.Participant)


@dataclass
class Confidential:
    """A type whose name is on no wire."""

    text: str


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[LinkedPair]:
    """Two nodes with keys that a link joins, and that are on one DDS domain."""
    shared = free_number()
    pair = LinkedPair(tmp_path, dds_domains=(shared, shared), top='dds_topics = ["shown/*"]\n').with_keys()
    pair.rules["press"] = f'{ALL}deny = ["{DENIED}"]\n'
    yield pair
    pair.end()


@contextmanager
def plain_program(dds_domain: int) -> Generator[DomainParticipant]:
    """A DDS program on loopback that is no node."""
    kept, participant = join(Settings(domain=dds_domain), b"")
    yield participant
    del kept, participant


class Plain:
    """A plain reader and writer of one topic."""

    def __init__(self, participant: DomainParticipant, name: str) -> None:
        topic: Any = Topic(participant, name, OCTETS)
        self.reader: Any = DataReader(participant, topic, qos=RELIABLE)
        self.writer: Any = DataWriter(participant, topic, qos=RELIABLE)

    def met(self) -> int:
        """Nodes that read or write it over DDS."""
        return len(matched(self.reader._ref, False)) + len(matched(self.writer._ref, True))

    def write(self, data: bytes) -> None:
        self.writer.write(OCTETS(list(data)))

    def take(self) -> list[bytes]:
        return [bytes(one.data) for one in self.reader.take(100)]


def crossing(
    linked: LinkedPair, topic: str, kind: type[Any] = bytes
) -> tuple[rtmw.Publisher[Any], rtmw.Subscriber[Any]]:
    """From press to hub."""
    quality: dict[str, Any] = {"reliability": Reliability.RELIABLE}
    taker = rtmw.Subscriber(topic, kind, domain=linked.hub.domain, **quality)
    out = rtmw.Publisher(topic, kind, max_blocking=PATIENCE, domain=linked.press.domain, **quality)
    return out, taker


def topics_shown(participant: DomainParticipant) -> set[str]:
    """The topics of others, but for those of nodes themselves, that DDS shows."""
    discovery = Discovery(participant, Refusals())
    discovery.poll()
    every = [*discovery.writers, *discovery.readers]
    return {one.topic for one in every if not one.topic.startswith("rtmw/")}


# Proves G229.
def test_a_dds_program_neither_reads_nor_writes_nor_sees_a_topic_that_crosses_by_link_only(linked: LinkedPair) -> None:
    linked.start().wait_up()
    out, taker = crossing(linked, LINKED)
    shown, reads = crossing(linked, OPEN)
    denied = crossing(linked, DENIED)
    with plain_program(linked.hub.dds_domain) as participant:
        secret, free = Plain(participant, LINKED), Plain(participant, OPEN)
        assert out.wait_for_subscribers(1, timeout=PATIENCE)
        wait_until(lambda: free.met() == 2, "one node reads the open topic and the other one writes it")
        assert topics_shown(participant) == {OPEN}
        for number in range(10):
            secret.write(b"forged")
            assert out.publish(b"%d" % number)
            assert taker.receive(timeout=PATIENCE).value == b"%d" % number
            free.write(b"free")
            assert reads.receive(timeout=PATIENCE).value == b"free"
        assert shown.publish(b"to all")
        got = list[bytes]()
        wait_until(lambda: b"to all" in got or got.extend(free.take()) is not None, "the open topic crosses")  # type: ignore[func-returns-value]
        assert (taker.take(), secret.take(), secret.met()) == (None, [], 0)
        says = "a DDS program publishes it, and dds_topics allows shown/*: it crosses by link only"
        wait_until(lambda: says in reasons(linked.hub, LINKED), "hub says why the program is not heard")
    del denied


def reasons(host: Host, topic: str) -> set[str]:
    return {row["reason"] for row in host.info()["apart"] if row["topic"] == topic}


@contextmanager
def captured(*words: str) -> Generator[set[str]]:
    """Which of these words are in packets on loopback meanwhile."""
    try:
        sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    except PermissionError:
        pytest.skip("to capture packets needs root")
    sniffer.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)  # other tests may flood loopback
    sniffer.bind(("lo", 0))
    sniffer.settimeout(0.1)
    seen, is_over = set[str](), threading.Event()

    def look() -> None:
        while not is_over.is_set():
            try:
                packet = sniffer.recv(1 << 17)
            except TimeoutError:
                continue
            seen.update(word for word in words if word.encode() in packet)

    thread = threading.Thread(target=look, name="sniffer")
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()
        sniffer.close()


# Proves G229.
def test_names_of_topics_types_and_programs_are_not_on_the_wire_but_for_dds_topics(linked: LinkedPair) -> None:
    told_of_programs = f"[{os.getpid()}, "  # a row of a roster
    hidden = (LINKED, DENIED, Confidential.__name__, "what is said of it", told_of_programs)
    with captured(OPEN, "the last", *hidden) as seen:
        linked.start().wait_up()
        pairs = [crossing(linked, LINKED, Confidential), crossing(linked, OPEN), crossing(linked, DENIED)]
        with plain_program(linked.hub.dds_domain) as participant:
            free = Plain(participant, OPEN)
            wait_until(lambda: free.met() == 2, "the open topic is on DDS")
            out, taker = pairs[0]
            assert out.wait_for_subscribers(1, timeout=PATIENCE)
            assert out.publish(Confidential("what is said of it"))
            assert taker.receive(timeout=PATIENCE).value.text == "what is said of it"
            wait_until(lambda: any("a rule denies it" in why for why in reasons(linked.hub, DENIED)), "the denial")
            free.write(b"the last")
            assert pairs[1][1].receive(timeout=PATIENCE).value == b"the last"
            wait_until(lambda: seen >= {OPEN, "the last"}, "what DDS carries, and all before, has been captured")
    assert seen == {OPEN, "the last"}


# Proves G229.
def test_sighup_takes_a_topic_from_dds_and_gives_it_back(linked: LinkedPair) -> None:
    linked.start().wait_up()
    _pair = crossing(linked, OPEN)
    with plain_program(linked.hub.dds_domain) as participant:
        free = Plain(participant, OPEN)
        for top, nodes in (('dds_topics = ["shown/*"]\n', 2), ("", 0), ('dds_topics = ["*"]\n', 2)):
            linked.top = top
            for name in linked.hosts:
                linked.settings(name)
                linked.hosts[name].node.send_signal(signal.SIGHUP)
            wait_until(lambda: free.met() == nodes, f"{nodes} nodes after {top!r}")  # noqa: B023


def programs(host: Host, topic: str) -> set[tuple[str, int, bool]]:
    """Where programs of this test elsewhere use the topic, as the node of the host knows: host, pid, whether it
    publishes."""
    return {(row["host"], row["pid"], row["publishes"]) for row in host.info()["elsewhere"] if row["topic"] == topic}


# Proves G230.
def test_programs_at_the_other_end_of_a_link_are_known_as_far_as_rules_allow_it(linked: LinkedPair) -> None:
    pairs = [crossing(linked, topic) for topic in (LINKED, OPEN, DENIED)]
    linked.start().wait_up()
    at = {"hub": ("rtmw://plant/hub", os.getpid(), False), "press": ("rtmw://plant/press", os.getpid(), True)}
    for topic in (LINKED, OPEN):
        wait_until(lambda topic=topic: programs(linked.hub, topic) == {at["press"]}, f"hub knows of {topic}")
        wait_until(lambda topic=topic: programs(linked.press, topic) == {at["hub"]}, f"press knows of {topic}")
    wait_until(lambda: programs(linked.press, DENIED) == {at["hub"]}, "press knows of who wants what it denies")
    assert programs(linked.hub, DENIED) == set()
    linked.reload("press", ALL)
    wait_until(lambda: programs(linked.hub, DENIED) == {at["press"]}, "hub knows once it may")
    for out, _ in pairs:
        out.close()
    wait_until(lambda: not programs(linked.hub, LINKED), "hub knows that they are gone")


def test_sighup_says_what_dds_carries_now_where_that_is_other_than_before(tmp_path: Path) -> None:
    host = Host(free_number(with_dds=False), free_number(), tmp_path, pool="2M")
    file = tmp_path / "node.toml"
    file.write_text("")
    try:
        host.start("--config", str(file))
        for text, said in (
            ('dds_topics = ["shown/*"]\n', "DDS carries shown/*; other topics cross by link only"),
            ('dds_topics = ["shown/*"]\ntopics_out = ["a"]\n', ""),
            ("dds_topics = []\n", "DDS carries no topics; other topics cross by link only"),
            ("", "DDS carries all topics"),
        ):
            before = len(host.said)
            file.write_text(text or "lease = 10\n")
            host.node.send_signal(signal.SIGHUP)
            wait_until(lambda: said in host.said[before:].partition("settings read again")[2], said)  # noqa: B023
            wait_until(lambda: "settings read again" in host.said[before:], "it is read")  # noqa: B023
        assert host.said.count("DDS carries") == 3
    finally:
        host.end()
