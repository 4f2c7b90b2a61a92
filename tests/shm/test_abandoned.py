"""What `history` keeps of publishers that are gone gives way first, its slot may be taken, and it can be cleared."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rtmw
from rtmw import observe
from tests.books import assert_whole, examine
from tests.child import Spawn

RELIABLE = rtmw.Reliability.RELIABLE
LARGE = 32 * 1024
TOPICS = 256


@pytest.fixture
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """The smallest tables there are, and room for some thirty large messages, without a reserve."""
    with rtmw.Domain(domain_id, pool="1M", reserve=0) as attached:
        yield attached


def keep(domain: rtmw.Domain, count: int, size: int = LARGE, priority: int = 3) -> int:
    """So many topics, on each of which a publisher keeps one message and goes; how many it published."""
    published = 0
    for number in range(count):
        with rtmw.Publisher(f"job/{number}", domain=domain, priority=priority, history=1) as publisher:
            published += publisher.publish(bytes([number]) * size)
    return published


def kept(domain: rtmw.Domain, name: str) -> list[bytes]:
    """What a subscriber that comes now gets of the past."""
    with rtmw.Subscriber(name, domain=domain, history=100) as subscriber:
        return [bytes(sample.data[:1]) for sample in iter(subscriber.take, None)]


def fill(domain: rtmw.Domain, count: int, priority: int) -> int:
    """Messages that a RELIABLE subscriber does not read, so that none of them gives way; how many were published."""
    with (
        rtmw.Subscriber("other", domain=domain, reliability=RELIABLE, depth=100),
        rtmw.Publisher("other", domain=domain, reliability=RELIABLE, priority=priority, max_blocking=0) as publisher,
    ):
        return [publisher.publish(bytes(LARGE)) for _ in range(count)].count(True)


def still_kept(domain: rtmw.Domain, count: int) -> list[int]:
    return [number for number in range(count) if kept(domain, f"job/{number}")]


@pytest.mark.parametrize("priority", [3, 4, 7])
# Proves G72.
def test_what_publishers_kept_that_are_gone_gives_way_to_the_same_or_a_higher_priority_oldest_first(
    domain: rtmw.Domain, priority: int
) -> None:
    assert keep(domain, 25) == 25
    assert fill(domain, 20, priority) == 20
    assert (left := still_kept(domain, 25)) == list(range(25 - len(left), 25))
    assert 10 <= len(left) < 25
    assert_whole(domain)


def test_what_a_publisher_kept_that_is_gone_does_not_give_way_to_a_lower_priority(domain: rtmw.Domain) -> None:
    published = keep(domain, 32)
    assert fill(domain, 20, priority=2) <= 1
    assert still_kept(domain, published) == list(range(published))


def test_what_a_publisher_keeps_that_is_there_does_not_give_way_and_the_counters_say_that_history_is_in_the_way(
    domain: rtmw.Domain,
) -> None:
    with rtmw.Publisher("map", domain=domain, priority=3, history=40) as map_publisher:
        assert map_publisher.publish_many([bytes(LARGE)] * 40) < 40
        with rtmw.Publisher("other", domain=domain, priority=3) as publisher:
            refused = [publisher.publish(bytes(LARGE)) for _ in range(5)].count(False)
            stats = publisher.stats()
            assert refused >= 4
            assert stats.held_by_history == stats.exhausted == refused
            (view,) = [one for one in observe.topics(domain) if one.name == "other"]
            assert view.publishers[0].held_by_history == refused


def test_the_counters_tell_what_reliable_subscribers_have_not_read_from_what_history_keeps(
    domain: rtmw.Domain,
) -> None:
    with (
        rtmw.Subscriber("orders", domain=domain, reliability=RELIABLE, depth=100),
        rtmw.Publisher("orders", domain=domain, reliability=RELIABLE, max_blocking=0) as orders,
        rtmw.Publisher("other", domain=domain, priority=7) as publisher,
    ):
        assert orders.publish_many([bytes(LARGE)] * 40) < 40
        refused = [publisher.publish(bytes(LARGE)) for _ in range(5)].count(False)
        stats = publisher.stats()
        assert (stats.exhausted, stats.held_by_history) == (refused, 0)
        assert refused >= 4


def test_a_publisher_that_is_killed_keeps_nothing_from_others_either(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        """
        import rtmw
        publisher = rtmw.Publisher("map", history=40)
        print(publisher.publish_many([bytes(32 * 1024)] * 40)); input()
        """
    )
    published = int(child.line())
    child.kill()
    assert fill(domain, 10, priority=0) == 10
    assert 0 < len(kept(domain, "map")) <= published - 8


# Proves G72.
def test_what_a_reliable_subscriber_has_not_read_stays_though_its_publisher_is_gone(domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("orders", domain=domain, reliability=RELIABLE, depth=40) as subscriber:
        with rtmw.Publisher("orders", domain=domain, reliability=RELIABLE, history=40, max_blocking=0) as publisher:
            published = publisher.publish_many([bytes(LARGE)] * 40)
        assert fill(domain, 10, priority=7) < 10
        assert len(subscriber.take_many(100)) == published > 20


def test_what_a_subscriber_has_unread_that_is_not_reliable_gives_way_last_and_is_counted(domain: rtmw.Domain) -> None:
    keep(domain, 10)
    with rtmw.Subscriber("map", domain=domain, depth=40) as subscriber:
        with rtmw.Publisher("map", domain=domain, priority=3, history=15) as publisher:
            assert publisher.publish_many([bytes(LARGE)] * 15) == 15
        assert fill(domain, 15, priority=3) == 15
        assert (still_kept(domain, 10), subscriber.stats().missed) == ([8, 9], 0)
        assert fill(domain, 20, priority=3) == 20
        missed = subscriber.stats().missed
        assert missed + len(subscriber.take_many(100)) == 15
        assert missed > 0


# Proves G73.
def test_a_new_topic_takes_the_slot_of_the_oldest_that_only_history_keeps(domain: rtmw.Domain) -> None:
    keep(domain, TOPICS, size=1)
    with rtmw.Publisher("alarm", domain=domain, priority=7) as publisher:
        assert publisher.publish(b"!")
        assert kept(domain, "alarm") == [b"!"]
        names = {view.name for view in observe.topics(domain)}
        assert names == {"alarm", *(f"job/{number}" for number in range(1, TOPICS))}
    assert kept(domain, "job/1") == [b"\1"]
    assert_whole(domain)


def test_three_thousand_jobs_that_keep_their_status_take_no_topic_from_others(domain: rtmw.Domain) -> None:
    for number in range(3000):
        with rtmw.Publisher(f"job/{number}", domain=domain, **rtmw.profiles.STATUS.publisher) as publisher:
            assert publisher.publish(b"done")
    with rtmw.Publisher("alarm", domain=domain), rtmw.Subscriber("wanted", domain=domain):
        assert kept(domain, "job/2999") == [b"d"]


def test_a_topic_with_a_subscriber_keeps_its_slot_and_what_history_keeps(domain: rtmw.Domain) -> None:
    keep(domain, 1, size=1)
    with rtmw.Subscriber("job/0", domain=domain, history=1) as subscriber:
        for number in range(2 * TOPICS):
            with rtmw.Publisher(f"status/{number}", domain=domain, history=1) as publisher:
                assert publisher.publish(b"s")
        assert subscriber.receive(10.0).value == b"\0"


def test_close_with_forget_gives_the_memory_back_that_nobody_needs(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("map", domain=domain, history=5)
    assert publisher.publish_many([bytes(LARGE)] * 5) == 5
    publisher.close(forget=True)
    assert examine(domain).pages_used == 0
    assert_whole(domain)


def test_close_with_forget_leaves_nothing_to_late_subscribers(domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("map", domain=domain) as early:
        publisher = rtmw.Publisher("map", domain=domain, history=5)
        small = rtmw.Publisher("small", domain=domain, history=5)
        assert publisher.publish_many([bytes(LARGE)] * 5) == small.publish_many([b"s"] * 5) == 5
        publisher.close(forget=True)
        small.close(forget=True)
        assert (kept(domain, "map"), kept(domain, "small")) == ([], [])
        assert len(early.take_many(10)) == 5, "what was unread is there"
    with rtmw.Publisher("map", domain=domain, history=1) as again:
        assert again.publish(b"m")
        assert kept(domain, "map") == [b"m"]
        assert sum(view.published for view in observe.topics(domain) if view.name == "map") == 6


def test_close_with_forget_takes_nothing_from_another_publisher_that_keeps_the_topic(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("map", domain=domain, history=2) as other:
        publisher = rtmw.Publisher("map", domain=domain)
        assert other.publish(b"1")
        assert publisher.publish(b"2")
        publisher.close(forget=True)
        assert kept(domain, "map") == [b"1", b"2"]


# Proves G74.
def test_a_topic_that_is_cleared_keeps_what_comes_later_and_takes_nothing_from_who_is_there(
    domain: rtmw.Domain,
) -> None:
    with (
        rtmw.Subscriber("map", domain=domain, reliability=RELIABLE) as early,
        rtmw.Publisher("map", domain=domain, reliability=RELIABLE, history=3) as publisher,
    ):
        assert publisher.publish_many([b"1", b"2"]) == 2
        assert domain.region.clear("map") == 2
        assert domain.region.clear("map") == 0
        assert domain.region.clear("never") == 0
        assert kept(domain, "map") == []
        assert publisher.publish(b"3")
        assert kept(domain, "map") == kept(domain, "map") == [b"3"]
        assert [sample.value for sample in early.take_many(10)] == [b"1", b"2", b"3"]
        assert early.stats().missed == 0


@pytest.mark.parametrize("clears", [False, True])
def test_subscribers_that_are_there_take_what_they_have_not_read_though_it_is_forgotten(
    domain: rtmw.Domain, clears: bool
) -> None:
    with rtmw.Subscriber("job", domain=domain, depth=1) as subscriber:
        publisher = rtmw.Publisher("job", domain=domain, history=1)
        assert all(publisher.publish(bytes([number])) for number in range(20))
        publisher.close(forget=not clears)
        if clears:
            assert domain.region.clear("job") > 0
        assert [sample.value[0] for sample in subscriber.take_many(100)] == list(range(20))
        assert subscriber.stats().missed == 0
