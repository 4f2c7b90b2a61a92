"""A topic that nobody uses gives its slot back when a new name finds the table full; a topic in use never does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rtmw
from rtmw import observe
from tests.books import assert_whole, examine
from tests.child import Spawn

TOPICS = 256


@pytest.fixture
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """The smallest tables there are."""
    with rtmw.Domain(domain_id, pool="1M") as attached:
        yield attached


def come_and_go(domain: rtmw.Domain, count: int, start: int = 0) -> None:
    """So many publishers of a name each, one after the other: each publishes and goes."""
    for number in range(start, start + count):
        with rtmw.Publisher(f"passing/{number}", domain=domain) as publisher:
            assert publisher.publish(str(number).encode())


def values_kept(name: str, domain: rtmw.Domain) -> list[bytes]:
    """What a subscriber that comes now gets of the past."""
    with rtmw.Subscriber(name, domain=domain, history=100) as subscriber:
        return [sample.value for sample in iter(subscriber.take, None)]


def names(domain: rtmw.Domain) -> set[str]:
    return {topic.name for topic in observe.topics(domain)}


# Proves G71.
def test_five_thousand_names_pass_through_a_thousand_slots_and_what_a_publisher_promised_to_keep_is_there(
    domain_id: int,
) -> None:
    with rtmw.Domain(domain_id, pool="64M") as domain:
        with rtmw.Publisher("map", domain=domain, history=3) as publisher:
            for number in range(5):
                assert publisher.publish(b"map %d" % number)
        come_and_go(domain, 5000)
        assert values_kept("map", domain)[-3:] == [b"map 2", b"map 3", b"map 4"]
        assert values_kept("passing/4999", domain) == [b"4999"]
        assert len(names(domain)) <= 1024
        assert examine(domain).descriptors_queued <= 2 * 1024 + 5


# Proves G75.
def test_a_topic_with_a_subscriber_that_stands_still_keeps_its_slot(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        """
        import rtmw
        subscriber = rtmw.Subscriber("viewed")
        print("ready"); input()
        while (sample := subscriber.take()) is not None:
            print(sample.value.decode())
        print("end"); input()
        """
    )
    assert child.line() == "ready"
    with rtmw.Publisher("viewed", domain=domain) as publisher:
        assert publisher.publish(b"before")
        child.stop()
    come_and_go(domain, 3 * TOPICS)
    with rtmw.Publisher("viewed", domain=domain) as publisher:
        assert publisher.publish(b"after")
    child.cont()
    child.send("go on")
    assert [child.line() for _ in range(3)] == ["before", "after", "end"]


def test_a_topic_with_a_publisher_keeps_its_slot(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("mine", domain=domain) as publisher:
        come_and_go(domain, 3 * TOPICS)
        with rtmw.Subscriber("mine", domain=domain) as subscriber:
            assert publisher.publish(b"still mine")
            assert subscriber.receive(10.0).value == b"still mine"


# Proves G75.
def test_a_topic_that_is_traced_keeps_its_slot(domain: rtmw.Domain) -> None:
    come_and_go(domain, 1)
    with observe.Trace(domain, ["passing/0"]) as trace:
        come_and_go(domain, 3 * TOPICS, start=1)
        come_and_go(domain, 1)
        assert [(event.what, event.topic) for event in trace.read()] == [("published", "passing/0")]
    come_and_go(domain, 3 * TOPICS, start=1)
    assert "passing/0" not in names(domain)


# Proves G76.
def test_a_topic_in_a_slot_of_another_one_begins_empty(domain: rtmw.Domain) -> None:
    come_and_go(domain, 2 * TOPICS)
    with rtmw.Subscriber("fresh", domain=domain, history=100) as subscriber:
        assert subscriber.take() is None
        (fresh,) = [topic for topic in observe.topics(domain) if topic.name == "fresh"]
        assert (fresh.published, fresh.bytes, sum(fresh.queued)) == (0, 0, 0)
        assert observe.queue(domain, "fresh") == []
        with rtmw.Publisher("fresh", domain=domain) as publisher:
            assert publisher.publish(b"first")
        assert subscriber.receive(10.0).value == b"first"
        (fresh,) = [topic for topic in observe.topics(domain) if topic.name == "fresh"]
        assert (fresh.published, sum(fresh.queued)) == (1, 1)


def test_a_promise_to_keep_messages_ends_with_its_topic(domain: rtmw.Domain) -> None:
    for number in range(TOPICS):
        with rtmw.Publisher(f"latched/{number}", domain=domain, history=1, lifetime=1e-6) as publisher:
            assert publisher.publish(bytes(300))
    for number in range(TOPICS):
        with rtmw.Publisher(f"passing/{number}", domain=domain) as publisher:
            assert publisher.publish(bytes(300))
    assert_whole(domain)


def test_topics_whose_kept_messages_have_expired_give_their_slots_back(domain: rtmw.Domain) -> None:
    for number in range(3 * TOPICS):
        with rtmw.Publisher(f"latched/{number}", domain=domain, history=1, lifetime=1e-6) as publisher:
            assert publisher.publish(b"expired")


def test_topics_with_messages_that_were_promised_are_kept_until_the_table_is_full_of_them(domain: rtmw.Domain) -> None:
    """Then the oldest gives its slot up, and no other."""
    for number in range(TOPICS):
        with rtmw.Publisher(f"latched/{number}", domain=domain, history=1) as publisher:
            assert publisher.publish(b"%d" % number)
    rtmw.Publisher("one more", domain=domain)
    assert [values_kept(f"latched/{number}", domain) for number in range(1, TOPICS)] == [
        [b"%d" % number] for number in range(1, TOPICS)
    ]


def test_a_message_that_is_held_outlives_its_topic(domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("gone", domain=domain) as subscriber, rtmw.Publisher("gone", domain=domain) as publisher:
        assert publisher.publish(b"x" * 5000)
        sample = subscriber.receive(10.0)
        held = memoryview(sample)
    del subscriber, publisher
    come_and_go(domain, 3 * TOPICS)
    assert bytes(held) == b"x" * 5000
    held.release()
    sample.release()
    assert_whole(domain)


# Proves G71.
def test_slots_of_topics_that_only_the_dead_used_come_back_without_repair(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        f"""
        import rtmw
        opened = [rtmw.Publisher(f"dead/{{number}}") for number in range({TOPICS})]
        print("full"); input()
        """
    )
    assert child.line() == "full"
    with pytest.raises(rtmw.LimitReached, match="topic slot"):
        rtmw.Publisher("one more", domain=domain)
    child.kill()
    come_and_go(domain, 2 * TOPICS)
    assert_whole(domain)


def test_who_watches_for_new_topics_sees_one_in_an_old_slot(domain: rtmw.Domain) -> None:
    come_and_go(domain, 2 * TOPICS)
    before = domain.region.topic_count
    with rtmw.Publisher("new", domain=domain):
        assert domain.region.topic_count > before


def test_a_name_that_is_given_up_and_made_again_is_another_topic_to_who_looks_on(domain: rtmw.Domain) -> None:
    come_and_go(domain, 1)
    (before,) = [row[0] for row in domain.region.topics() if row[1] == "passing/0"]
    come_and_go(domain, 3 * TOPICS, start=1)
    with rtmw.Publisher("passing/0", domain=domain):
        (after,) = [row[0] for row in domain.region.topics() if row[1] == "passing/0"]
        assert before != after
        assert [row[0] for row in domain.region.publishers()] == [after]
        assert (domain.region.queue(before), domain.region.trace(before, True)) == ([], False)
