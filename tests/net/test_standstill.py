"""Nothing stops silently: what a forged datagram has silenced is made anew, and what was lost meanwhile is told."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.dds import own_topics, reconciliation
from rtmw.net.dds.library import DomainParticipant
from rtmw.net.dds.reconciliation import Behind, compare
from tests.net.forger import Forger
from tests.net.hosts import PATIENCE, Host, wait_until

R, A, T = Reliability.RELIABLE, Reliability.ADAPTIVE, Reliability.TIMELY


@pytest.fixture
def forger(participant: DomainParticipant) -> Forger:
    return Forger(participant)


class Stream:
    """Numbers from one host to another, as they come."""

    def __init__(self, here: Host, there: Host, reliability: Reliability) -> None:
        self.publisher = rtmw.Publisher("stream", reliability=reliability, depth=1000, domain=here.domain)
        self.subscriber = rtmw.Subscriber("stream", reliability=reliability, depth=1000, domain=there.domain)
        assert self.publisher.wait_for_subscribers(1, timeout=PATIENCE)
        self.sent, self.came = itertools.count(), list[int]()

    def moves(self) -> bool:
        """Publish the next one. Does anything come?"""
        self.publisher.publish(b"%d" % next(self.sent))
        time.sleep(0.02)
        new = [int(sample.value) for sample in self.subscriber.take_many(1000)]
        self.came += new
        return bool(new)

    def goes_on(self, times: int = 5) -> None:
        for _ in range(times):
            wait_until(self.moves, "nothing comes")

    def stands(self, times: int = 20) -> None:
        for _ in range(times):
            self.moves()
        assert not self.moves(), "the forged datagram has silenced nothing"

    def close(self) -> None:
        self.publisher.close()
        self.subscriber.close()


def tells_of(host: Host, way: str, topic: str) -> bool:
    """Does its node say that this, and nothing else, has stood still once?"""
    told = host.info()["standstills"]
    return told[way] == 1 and [(row["topic"], row["direction"], row["times"]) for row in told["rows"]] == [
        (topic, way, 1)
    ]


@pytest.mark.parametrize("reliability", [R, A, T], ids=lambda one: one.name)
# Proves G253.
def test_a_lane_that_a_forged_datagram_has_silenced_is_made_anew_and_its_gap_is_told(
    pair: tuple[Host, Host], forger: Forger, reliability: Reliability
) -> None:
    here, there = pair
    stream = Stream(here, there, reliability)
    stream.goes_on()
    forge: Callable[[bytes, Host], None] = forger.data if reliability is T else forger.heartbeat
    forge(forger.writer("stream", here), there)
    stream.stands()
    stream.goes_on()
    missing = stream.came[-1] + 1 - len(stream.came)
    assert missing >= 20
    assert stream.subscriber.stats().missed == missing
    wait_until(lambda: there.crossed("in", "stream")["lost"] == missing, "the gap is not counted")
    assert "none has come" in there.said
    assert "another DDS writer takes over" in here.said
    for host, way in ((there, "in"), (here, "out")):
        wait_until(partial(tells_of, host, way, "stream"), "it is not told")
    stream.close()


TALK = {
    own_topics.BEACON_TOPIC: own_topics.Beacon(7, "nobody", 1, 1, 0, []),
    reconciliation.LANES_TOPIC: reconciliation.Lanes([], []),
}


@pytest.mark.parametrize("topic", TALK)
# Proves G253.
def test_a_node_that_hears_no_more_of_one_that_dds_takes_to_be_alive_begins_anew(
    hosts: tuple[Host, Host], participant: DomainParticipant, topic: str
) -> None:
    here, there = hosts
    for host in hosts:
        host.start("--lease", "1")
    stream = Stream(here, there, R)
    stream.goes_on()
    pid, guid = there.node.pid, there.info()["guid"]
    forger = Forger(participant)
    forger.data(forger.writer(topic, here), there, TALK[topic].serialize())
    wait_until(lambda: stream.moves() and there.info()["guid"] != guid, "it does not begin anew")
    stream.goes_on()
    assert there.node.pid == pid
    assert f"nothing on {topic}" in there.said
    wait_until(lambda: here.node.pid in {peer["pid"] for peer in there.info()["peers"]}, "it does not hear the other")
    assert stream.came[-1] + 1 == len(stream.came) + stream.subscriber.stats().missed
    assert tells_of(there, "in", topic)
    stream.close()


def told(before: Behind | None, *numbers: tuple[int | None, int], patience: int = 2) -> Behind | None:
    """What is known of a lane after all of these: how far it has come, and what its sender has told."""
    for reached, sent in numbers:
        before = compare(before, reached, sent, patience)
    return before


def test_a_lane_stands_still_when_its_number_has_grown_again_and_again_and_nothing_has_come() -> None:
    behind = told(None, (5, 6), (5, 7), (5, 8))
    assert behind is not None
    assert behind.due == 0
    slow = told(None, (5, 6), (5, 7), (5, 8), patience=4)
    assert slow is not None
    assert slow.due == 2, "a reader with a minimum interval is given more time"


STEADY: dict[str, list[tuple[int | None, int]]] = {
    "what comes late": [(5, 6), (6, 7), (7, 8), (8, 9), (9, 10)],
    "a writer that waits": [(5, 6), (5, 6), (5, 6), (5, 6)],
    "what waits for room here": [(5, 6), (5, 7), (None, 8), (5, 9)],
    "all that was sent": [(6, 6), (7, 7), (7, 7)],
}


@pytest.mark.parametrize("what", STEADY)
def test_a_lane_does_not_stand_still_by(what: str) -> None:
    behind = told(None, *STEADY[what])
    assert behind is None or behind.due > 0
