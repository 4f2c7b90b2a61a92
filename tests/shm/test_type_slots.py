"""A type that no endpoint and no message uses gives its slot back; one that is in use never means another type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import rtmw
from rtmw import observe
from tests.books import assert_whole
from tests.child import Spawn

TYPES, TOPICS = 256, 256


@pytest.fixture
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """The smallest tables there are."""
    with rtmw.Domain(domain_id, pool="1M") as attached:
        yield attached


def structure(number: int) -> np.dtype[np.void]:
    return np.dtype([(f"a{number}", "f8")])


def record(number: int, value: float) -> np.ndarray[tuple[int, ...], np.dtype[np.void]]:
    return np.array((value,), structure(number))


def come_and_go(domain: rtmw.Domain, count: int, start: int = 0, topic: str = "passing") -> None:
    """So many types, one after the other: of each a publisher that publishes and goes."""
    for number in range(start, start + count):
        with rtmw.Publisher(topic, structure(number), domain=domain) as publisher:
            assert publisher.publish(record(number, number))


def kept(topic: str, domain: rtmw.Domain) -> list[tuple[str, float]]:
    """Field and value of the messages that a subscriber of any type gets of the past."""
    with rtmw.Subscriber(topic, rtmw.ANY, domain=domain, history=1000) as subscriber:
        return [(sample.value.dtype.names[0], sample.value.item()[0]) for sample in iter(subscriber.take, None)]


def topic_of(name: str, domain: rtmw.Domain) -> observe.TopicView:
    (found,) = [topic for topic in observe.topics(domain) if topic.name == name]
    return found


# Proves G78.
def test_a_thousand_types_pass_through_the_table(domain: rtmw.Domain) -> None:
    come_and_go(domain, 4 * TYPES)
    assert kept("passing", domain)[-1] == (f"a{4 * TYPES - 1}", 4 * TYPES - 1)
    assert len(domain.region.types()) <= TYPES
    assert_whole(domain)


def test_types_of_topics_that_nobody_uses_give_their_slots_back(domain: rtmw.Domain) -> None:
    for number in range(3 * TYPES):
        come_and_go(domain, 1, start=number, topic=f"passing/{number % (TOPICS // 2)}/{number}")
    assert kept(f"passing/{(3 * TYPES - 1) % (TOPICS // 2)}/{3 * TYPES - 1}", domain) == [
        (f"a{3 * TYPES - 1}", 3 * TYPES - 1)
    ]


def test_a_type_that_a_publisher_or_a_subscriber_has_keeps_its_slot(domain: rtmw.Domain) -> None:
    first, second = structure(10_000), structure(10_001)
    with (
        rtmw.Publisher("mine", first, domain=domain) as publisher,
        rtmw.Subscriber("mine", first, domain=domain) as subscriber,
        rtmw.Subscriber("theirs", second, domain=domain) as alone,
    ):
        come_and_go(domain, 3 * TYPES)
        assert publisher.publish(record(10_000, 7.5))
        assert subscriber.receive(10.0).value.item() == (7.5,)
        with rtmw.Publisher("theirs", second, domain=domain) as other:
            assert other.subscribers == 1
            assert other.publish(record(10_001, 2.5))
        assert alone.receive(10.0).value.item() == (2.5,)
        assert {view.type_name for topic in observe.topics(domain) for view in topic.publishers} == {
            publisher.type.name
        }


def test_a_message_that_history_keeps_keeps_its_type(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("map", structure(10_000), domain=domain, history=2) as publisher:
        for value in (1, 2):
            assert publisher.publish(record(10_000, value))
    come_and_go(domain, 3 * TYPES)
    assert kept("map", domain) == [("a10000", 1), ("a10000", 2)]
    assert observe.types_in_use(domain, "map")[0][0].startswith("numpy")


# Proves G79.
def test_a_sample_that_is_held_keeps_its_type_though_its_topic_is_gone(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("gone", structure(10_000), domain=domain) as publisher:
        subscriber = rtmw.Subscriber("gone", rtmw.ANY, domain=domain)
        assert publisher.publish(record(10_000, 7.5))
        sample = subscriber.receive(10.0)
        subscriber.close()
    for number in range(2 * TYPES):
        come_and_go(domain, 1, start=number, topic=f"passing/{number}")
    assert "gone" not in {topic.name for topic in observe.topics(domain)}
    assert sample.value.dtype.names == ("a10000",)
    assert sample.value.item()[0] == 7.5


# Proves G78.
def test_types_of_samples_that_were_held_longer_than_their_topics_give_their_slots_back(domain: rtmw.Domain) -> None:
    held: list[rtmw.Sample[Any]] = []
    for number in range(TYPES):
        with (
            rtmw.Publisher(f"held/{number // 8}", structure(number), domain=domain, priority=number % 8) as publisher,
            rtmw.Subscriber(f"held/{number // 8}", rtmw.ANY, domain=domain) as subscriber,
        ):
            assert publisher.publish(record(number, number))
            held.append(subscriber.receive(10.0))
    with pytest.raises(rtmw.LimitReached, match="type slots"):
        rtmw.Publisher("fresh", structure(TYPES), domain=domain)
    assert [sample.value.item()[0] for sample in held] == [*range(TYPES)]
    assert observe.topics(domain) == []
    for sample in held:
        sample.release()
    come_and_go(domain, 1, start=TYPES, topic="fresh")
    assert_whole(domain)


def test_the_refusal_says_what_gives_types_back_where_messages_have_them_all(domain: rtmw.Domain) -> None:
    """Topics that keep messages, and are in use: they are cleared, and left."""
    with ExitStack() as users:
        for number in range(TYPES):
            topic, priority = f"kept/{number // 8}", number % 8
            if not priority:
                users.enter_context(rtmw.Subscriber(topic, rtmw.ANY, domain=domain))
            with rtmw.Publisher(topic, structure(number), domain=domain, priority=priority, history=1) as publisher:
                assert publisher.publish(record(number, number))
        with pytest.raises(rtmw.LimitReached, match=r"the last one of a topic that is in use; .*`rtmw topic clear`"):
            rtmw.Publisher("fresh", structure(TYPES), domain=domain)
    for number in range(TYPES // 8):
        assert domain.region.clear(f"kept/{number}") == 8
    come_and_go(domain, 1, start=TYPES, topic="fresh")


# Proves G79.
def test_a_subscriber_of_any_type_decodes_each_message_by_the_type_that_it_was_published_with(
    domain: rtmw.Domain,
) -> None:
    with rtmw.Subscriber("passing", rtmw.ANY, domain=domain) as subscriber:
        for number in range(3 * TYPES):
            come_and_go(domain, 1, start=number)
            sample = subscriber.receive(10.0)
            assert (sample.value.dtype.names, sample.value.item()[0]) == ((f"a{number}",), number)


def test_a_released_sample_never_names_another_type(domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("passing", rtmw.ANY, domain=domain) as subscriber:
        come_and_go(domain, 1)
        sample = subscriber.receive(10.0)
        name = sample.type_name
        sample.release()
        assert sample.type_name == name
    come_and_go(domain, 3 * TYPES, start=1)
    with pytest.raises(ValueError, match="released"):
        assert sample.type_name


def test_counts_are_right_where_a_new_type_has_the_slot_of_an_old_one(domain: rtmw.Domain) -> None:
    """On one topic, whose offers still name the old one."""
    with rtmw.Subscriber("shared", rtmw.ANY, domain=domain) as observer:
        for number in range(3 * TYPES):
            come_and_go(domain, 1, start=number, topic="shared")
            assert observer.take() is not None
        with (
            rtmw.Publisher(
                "shared", structure(10_000), domain=domain, reliability=rtmw.Reliability.RELIABLE
            ) as publisher,
            rtmw.Subscriber("shared", structure(10_000), domain=domain, depth=4) as subscriber,
        ):
            for value in range(3):
                assert publisher.publish(record(10_000, value))
            (shown,) = [view for view in topic_of("shared", domain).subscribers if view.type_name != "*"]
            assert (shown.behind, shown.missed, shown.other_types) == (3, 0, 0)
            assert [sample.value.item()[0] for sample in iter(subscriber.take, None)] == [0, 1, 2]
            assert subscriber.stats().other_types == 0


# Proves G78.
def test_types_that_only_the_dead_used_give_their_slots_back(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        f"""
        import numpy as np, rtmw
        opened = [rtmw.Publisher("dead", np.dtype([(f"d{{number}}", "f8")])) for number in range({TYPES})]
        print("full"); input()
        """
    )
    assert child.line() == "full"
    with pytest.raises(rtmw.LimitReached, match="type slots"):
        rtmw.Publisher("one more", structure(0), domain=domain)
    assert "one more" not in {topic.name for topic in observe.topics(domain)}
    child.kill()
    come_and_go(domain, 2 * TYPES)
    assert_whole(domain)


def test_types_that_are_all_in_use_are_refused_and_a_closed_one_makes_room(domain: rtmw.Domain) -> None:
    opened = [rtmw.Publisher("all", structure(number), domain=domain) for number in range(TYPES)]
    with pytest.raises(rtmw.LimitReached, match="type slots"):
        rtmw.Subscriber("all", structure(TYPES), domain=domain)
    opened[17].close()
    with rtmw.Subscriber("all", structure(TYPES), domain=domain):
        assert len(domain.region.types()) == TYPES
    with rtmw.Publisher("all", structure(17), domain=domain):
        pass


def test_a_view_of_a_topic_in_an_old_slot_shows_no_type_of_the_topic_before(domain: rtmw.Domain) -> None:
    for number in range(2 * TOPICS):
        come_and_go(domain, 1, start=number, topic=f"passing/{number}")
    with rtmw.Subscriber("fresh", rtmw.ANY, domain=domain):
        assert topic_of("fresh", domain).types == ()
        assert observe.types_in_use(domain, "fresh") == []
