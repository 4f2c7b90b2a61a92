"""QoS of the five kinds of real-time information (requirement P6)."""

from __future__ import annotations

import time

import pytest

import rtmw
from rtmw import Reliability, profiles
from rtmw.publisher import PublisherOptions
from rtmw.qos import Profile
from rtmw.subscriber import SubscriberOptions
from tests.bus import lifetime_of, taken

pytestmark = pytest.mark.usefixtures("domain")

KINDS = {name: value for name, value in vars(profiles).items() if isinstance(value, Profile)}


def pair(kind: Profile) -> tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]]:
    return rtmw.Publisher("t", **kind.publisher), rtmw.Subscriber("t", **kind.subscriber)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_profile_is_a_keyword_set_for_both_sides(kind: Profile) -> None:
    assert kind.publisher.keys() <= PublisherOptions.__optional_keys__
    assert kind.subscriber.keys() <= SubscriberOptions.__optional_keys__
    publisher, subscriber = pair(kind)
    assert publisher.subscribers == 1
    assert subscriber.stats().unheard == ()
    assert publisher.publish(b"x")
    assert taken(subscriber) == [b"x"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_message_has_the_priority_of_its_kind(kind: Profile) -> None:
    publisher, subscriber = pair(kind)
    publisher.publish(b"x")
    assert subscriber.receive(1).priority == kind.publisher["priority"]


def test_commands_go_before_events_requests_states_and_signals() -> None:
    order = sorted(KINDS, key=lambda name: -KINDS[name].publisher["priority"])
    assert order == ["COMMAND", "EVENT", "REQUEST", "STATUS", "SIGNAL"]


def test_of_a_signal_the_newest_count() -> None:
    publisher, subscriber = pair(profiles.SIGNAL)
    publisher.publish_many([b"%d" % number for number in range(100)])
    assert taken(subscriber) == [b"%d" % number for number in range(84, 100)]


def test_a_signal_is_worthless_after_a_second() -> None:
    publisher, subscriber = pair(profiles.SIGNAL)
    publisher.publish(b"x")
    time.sleep(1.05)
    assert subscriber.take() is None
    assert subscriber.stats().expired == 1


@pytest.mark.parametrize("kind", [profiles.COMMAND, profiles.REQUEST], ids=["COMMAND", "REQUEST"])
def test_of_commands_and_requests_none_is_lost_unread(kind: Profile) -> None:
    assert kind.publisher["reliability"] is kind.subscriber["reliability"] is Reliability.RELIABLE
    publisher = rtmw.Publisher("t", **{**kind.publisher, "max_blocking": 0})
    subscriber = rtmw.Subscriber("t", **kind.subscriber)
    values = [b"%d" % number for number in range(100)]
    accepted = publisher.publish_many(values)
    assert accepted == kind.subscriber["depth"]
    assert taken(subscriber) == values[:accepted]
    assert subscriber.stats().missed == 0


@pytest.mark.parametrize("kind", [profiles.COMMAND, profiles.REQUEST], ids=["COMMAND", "REQUEST"])
def test_commands_and_requests_do_not_live_for_ever(kind: Profile) -> None:
    publisher, subscriber = pair(kind)
    publisher.publish(b"x")
    sample = subscriber.receive(1)
    assert lifetime_of(sample) == 5


def test_who_comes_late_gets_the_last_status() -> None:
    publisher = rtmw.Publisher("t", **profiles.STATUS.publisher)
    publisher.publish_many([b"old", b"present"])
    assert taken(rtmw.Subscriber("t", **profiles.STATUS.subscriber)) == [b"present"]


def test_events_are_kept_while_memory_lasts() -> None:
    publisher, subscriber = pair(profiles.EVENT)
    publisher.publish_many([b"x"] * 1000)
    assert len(taken(subscriber)) == 1000
