"""Subscribers with other wishes come and go while messages flow; those who stay miss nothing, and get nothing twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import rtmw
from rtmw import Reliability, observe
from rtmw.net.dds.discovery import Discovery, Endpoint, Refusals
from rtmw.net.dds.idl_class import idl_class
from rtmw.net.dds.library import DataReader, Policy, Qos, Topic
from rtmw.net.dds.wire import join
from rtmw.net.settings import Settings
from rtmw.types import resolve
from tests.bus import lease_of
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.whole import sample

ADAPTIVE, RELIABLE, TIMELY = Reliability.ADAPTIVE, Reliability.RELIABLE, Reliability.TIMELY
TOPIC = "steady"
AHEAD = 20
"""How far a publisher may be ahead of who stays, so that nothing has to give way to memory or depth."""
PAUSE_S = 0.001
"""Without it a test keeps a processor busy, and its nodes the other one."""

Pair = tuple[Host, Host]


@pytest.fixture
def participant(dds_domain: int) -> Iterator[Any]:
    """A plain DDS program beside the nodes."""
    kept, participant = join(Settings(domain=dds_domain), b"{}")
    yield participant
    del kept, participant


@pytest.fixture
def wire(participant: Any) -> Discovery:
    """What it sees of the nodes' endpoints."""
    return Discovery(participant, Refusals())


def readers(wire: Discovery) -> list[Endpoint]:
    wire.poll()
    return wire.readers.of(TOPIC)


def writers(wire: Discovery) -> list[Endpoint]:
    wire.poll()
    return wire.writers.of(TOPIC)


class Stream:
    """Numbers from one host to another, as fast as who stays takes them, with a pause for the nodes between."""

    def __init__(self, pair: Pair, reliability: Reliability, **offered: Any) -> None:
        here, there = pair
        self.sent, self.got = 0, list[int]()
        self.subscriber = rtmw.Subscriber(
            TOPIC, domain=there.domain, reliability=reliability, lease=lease_of(reliability, PATIENCE)
        )
        self.publisher = rtmw.Publisher(TOPIC, domain=here.domain, reliability=reliability, max_blocking=0, **offered)
        assert self.publisher.wait_for_subscribers(1, timeout=PATIENCE)

    def move(self) -> None:
        if self.sent < len(self.got) + AHEAD:
            self.sent += self.publisher.publish(self.sent.to_bytes(2000, "little"))
        self.got += [int.from_bytes(sample.data, "little") for sample in self.subscriber.take_many(1000)]

    def flow_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.move()
            time.sleep(PAUSE_S)

    def flow_until(self, condition: Any, what: str) -> None:
        def is_so() -> bool:
            self.flow_for(0.05)
            return bool(condition())

        wait_until(is_so, what)

    def assert_whole(self) -> None:
        """From the first that was sent to the last."""
        wait_until(lambda: self.move() is None and self.got[-1:] > [self.sent - AHEAD], "it does not go on")
        end = self.sent
        wait_until(lambda: self.move() is None and len(self.got) >= end, "the last one does not arrive")
        assert self.got == [*range(len(self.got))]

    def close(self) -> None:
        self.publisher.close()
        self.subscriber.close()


def takes(subscriber: rtmw.Subscriber[bytes]) -> Any:
    return lambda: subscriber.take() is not None


@pytest.mark.parametrize("reliability", sample([RELIABLE, ADAPTIVE], 1))
@pytest.mark.parametrize(
    "wishes",
    [
        {"min_interval": 0.3},
        {"deadline": 60.0},
        {"history": 5},
        {"reliability": TIMELY, "depth": 1},
        {"reliability": TIMELY, "deadline": 60.0, "history": 3, "min_interval": 0.1},
    ],
    ids=lambda wishes: ", ".join(wishes),
)
# Proves G283.
def test_another_subscriber_comes_and_goes(pair: Pair, reliability: Reliability, wishes: dict[str, Any]) -> None:
    stream = Stream(pair, reliability, history=5)
    stream.flow_for(0.2)
    for _ in range(2):
        with rtmw.Subscriber(TOPIC, domain=pair[1].domain, **wishes) as other:
            stream.flow_until(takes(other), "the other one gets nothing")
            stream.flow_for(0.5)
        stream.flow_for(0.5)
    stream.assert_whole()
    stream.close()


def test_a_reader_is_replaced_for_kept_messages_and_the_stream_stays_whole(pair: Pair, wire: Discovery) -> None:
    stream = Stream(pair, RELIABLE, history=5)
    stream.flow_for(0.2)
    wait_until(lambda: len(readers(wire)) == 1, "no reader is announced")
    before = readers(wire)[0]
    assert before.history == 0
    with rtmw.Subscriber(TOPIC, domain=pair[1].domain, history=5):
        stream.flow_until(lambda: [one.history > 0 for one in readers(wire)] == [True], "the reader is not replaced")
    assert readers(wire)[0].guid != before.guid
    stream.assert_whole()
    stream.close()


@pytest.mark.parametrize("reliability", sample([RELIABLE, ADAPTIVE], 1))
def test_a_minimum_interval_that_all_want_is_told_to_the_other_host_and_taken_back_by_who_wants_none(
    pair: Pair, wire: Discovery, reliability: Reliability
) -> None:
    thinned = rtmw.Subscriber(TOPIC, domain=pair[1].domain, min_interval=0.2)
    with rtmw.Publisher(TOPIC, domain=pair[0].domain, reliability=reliability):
        wait_until(lambda: [one.min_interval_ns for one in readers(wire)] == [200_000_000], "it is not announced")
        before = readers(wire)[0].guid
        stream = Stream(pair, reliability)
        wait_until(lambda: [one.min_interval_ns for one in readers(wire)] == [0], "it is not taken back")
        assert readers(wire)[0].guid == before
        wait_until(lambda: interval_of_the_node(pair[0]) == 0.0, "the node goes on thinning")
        stream.flow_for(0.5)
        thinned.close()
        stream.flow_for(0.5)
        stream.assert_whole()
        stream.close()


@pytest.mark.parametrize("reliability", sample([RELIABLE, ADAPTIVE], 1))
def test_a_plain_reader_asks_for_a_deadline_that_nobody_offered_before(
    pair: Pair, participant: Any, wire: Discovery, reliability: Reliability
) -> None:
    stream = Stream(pair, reliability)
    stream.flow_for(0.2)
    topic = Topic(participant, TOPIC, idl_class(resolve(bytes)))
    asked = Qos(Policy.Reliability.Reliable(0), Policy.History.KeepAll, Policy.Deadline(60_000_000_000))
    plain: Any = DataReader(participant, topic, qos=asked)
    stream.flow_until(lambda: plain.take(1000), "it hears nothing")
    stream.flow_until(  # by the writer for plain programs, and not by that for nodes
        lambda: sorted(one.deadline_ns for one in writers(wire)) == [0, 60_000_000_000], "it is not offered"
    )
    stream.flow_for(0.5)
    stream.assert_whole()
    stream.close()


def interval_of_the_node(host: Host) -> float:
    """As the node's subscriber asks the bus for it."""
    view = next(view for view in observe.topics(host.domain) if view.name == TOPIC)
    return next(one.min_interval_ns for one in view.subscribers) / 1e9


@pytest.mark.parametrize("reliability", sample([RELIABLE, ADAPTIVE], 1))
@pytest.mark.parametrize("offered", [{"depth": 200}, {"history": 7}, {"priority": 5, "lifetime": 60.0}], ids=str)
def test_another_publisher_that_offers_more_comes_and_goes(
    pair: Pair, wire: Discovery, reliability: Reliability, offered: dict[str, Any]
) -> None:
    stream = Stream(pair, reliability)
    stream.flow_for(0.2)
    wait_until(lambda: len(writers(wire)) == 1, "no writer is announced")
    before = writers(wire)[0]
    with rtmw.Publisher(TOPIC, domain=pair[0].domain, reliability=reliability, **offered):
        if "priority" in offered:
            stream.flow_until(lambda: [one.priority for one in writers(wire)] == [5], "the priority is not announced")
            assert writers(wire)[0].guid == before.guid
        else:
            stream.flow_until(
                lambda: [one.guid != before.guid for one in writers(wire)] == [True], "the writer is not replaced"
            )
        stream.flow_for(0.5)
    stream.flow_for(0.5)
    stream.assert_whole()
    stream.close()
