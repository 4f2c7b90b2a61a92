"""Publishing: what is accepted, what is refused, and how it is said."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import rtmw
from tests.bus import LONG, Order, Reading, eventually, taken
from tests.child import Spawn
from topics import river

pytestmark = pytest.mark.usefixtures("domain")


# Proves P13, P14.
def test_what_is_published_arrives_in_order() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    for number in range(10):
        assert publisher.publish(b"%d" % number) is True
    assert taken(subscriber) == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize(
    "value", [b"abc", bytearray(b"abc"), memoryview(b"xabcx")[1:4], b"", bytes(128), bytes(129), b"z" * 3_000_000]
)
def test_bytes_of_any_kind_and_length_travel_unchanged(value: bytes) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish(value)
    assert subscriber.receive(1).value == bytes(value)


@pytest.mark.parametrize("size", [(256 << 10) + more for more in (-1, 0, 1, 16, 127, 128, 129)])
@pytest.mark.parametrize("skipped", [0, 1, 15, 16])
def test_a_large_copy_ends_where_it_should_and_begins_at_any_address(size: int, skipped: int) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    body = np.random.default_rng(size).bytes(size + skipped)
    publisher.publish(memoryview(body)[skipped:])
    assert subscriber.receive(1).value == body[skipped:]


@pytest.mark.parametrize("size", [12, 300, 500_000])
def test_memory_that_is_not_in_one_piece_travels_in_its_order(size: int) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    payload = bytes(range(256)) * (size // 256) + bytes(size % 256)
    pieces = [
        memoryview(payload)[::2],
        memoryview(payload)[::-1],
        np.frombuffer(payload, np.uint8).reshape(4, -1).T,
        np.frombuffer(payload, np.uint8).reshape(4, -1)[:, 1:3],
    ]
    assert publisher.publish_many(pieces) == len(pieces)  # type: ignore[arg-type]
    assert publisher.publish(memoryview(payload)[::3])
    assert taken(subscriber) == [piece.tobytes() for piece in (*pieces, memoryview(payload)[::3])]


def test_a_memoryview_that_was_released_is_refused_as_such() -> None:
    publisher, view = rtmw.Publisher("t"), memoryview(b"abc")
    view.release()
    with pytest.raises(ValueError, match="released memoryview"):
        publisher.publish(view)
    assert publisher.stats().published == 0


@pytest.mark.parametrize("value", ["text", 5, None, [1, 2], object()])
def test_a_value_of_another_type_is_refused(value: object) -> None:
    publisher = rtmw.Publisher("t")
    with pytest.raises(rtmw.TypeMismatch, match=type(value).__name__):
        publisher.publish(value)  # type: ignore[arg-type]
    assert publisher.stats().published == 0


def test_a_value_that_does_not_fit_its_type_is_refused() -> None:
    publisher = rtmw.Publisher("t", Reading)
    with pytest.raises(rtmw.TypeMismatch):
        publisher.publish(Order("left"))  # type: ignore[arg-type]
    with pytest.raises(rtmw.MessageError, match="value"):
        publisher.publish(Reading("A1", "high"))  # type: ignore[arg-type]
    assert publisher.stats().published == 0


# Proves P13.
def test_a_message_larger_than_the_pool_is_refused(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t")
    with pytest.raises(rtmw.MessageTooLarge, match=str(domain.pool + 1)):
        publisher.publish(bytes(domain.pool + 1))
    with pytest.raises(rtmw.MessageTooLarge):
        publisher.loan(domain.pool + 1)


def test_a_message_as_large_as_the_pool_fits(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    assert publisher.publish(bytes(domain.pool))
    assert len(subscriber.receive(1).data) == domain.pool


@pytest.mark.parametrize("name", ["", "x" * 192, "é" * 96, "a\nb", "a\x7fb", "a\0b", "\ud800"])
def test_a_bad_topic_name_is_refused(name: str) -> None:
    with pytest.raises(rtmw.TopicNameError):
        rtmw.Publisher(name)
    with pytest.raises(rtmw.TopicNameError):
        rtmw.Subscriber(name)


@pytest.mark.parametrize("name", ["x", "x" * 191, "pump/speed", "Änderung im Fluß", "測定 7"])
def test_a_topic_name_has_up_to_191_bytes_of_utf8(name: str) -> None:
    publisher, subscriber = rtmw.Publisher(name), rtmw.Subscriber(name)
    publisher.publish(b"x")
    assert publisher.topic == subscriber.topic == subscriber.receive(1).topic == name


@pytest.mark.parametrize("type", [int, list, "bytes", None, 5, rtmw.ANY, []])
def test_an_object_that_is_no_message_type_is_refused(type: object) -> None:
    with pytest.raises(rtmw.UnsupportedType):
        rtmw.Publisher("t", type)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "wrong",
    [
        {"priority": 8}, {"priority": -1}, {"priority": 1.5}, {"depth": 0}, {"depth": 1.5}, {"depth": 1 << 21},
        {"history": -1}, {"lifetime": -1.0}, {"lifetime": float("nan")}, {"max_blocking": -0.1}, {"reliability": 7},
    ],
)  # fmt: skip
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        rtmw.Publisher("t", **wrong)  # type: ignore[call-overload]


@pytest.mark.parametrize("keyword", ["lifetime", "max_blocking"])
@pytest.mark.parametrize("wrong", ["1", b"1", -1, float("nan")])
def test_a_time_that_is_none_is_refused_by_the_name_of_its_keyword(keyword: str, wrong: object) -> None:
    options: dict[str, Any] = {keyword: wrong}
    with pytest.raises((TypeError, ValueError), match=f"{keyword}={wrong!r} is not possible; it must be seconds"):
        rtmw.Publisher("t", **options)


@pytest.mark.parametrize(
    "wrong",
    [{"priority": 8}, {"priority": -1}, {"lifetime": -1.0}, {"valid_until": -1.0}, {"valid_until": float("nan")}],
)
def test_impossible_settings_of_one_message_are_refused(wrong: dict[str, float]) -> None:
    publisher = rtmw.Publisher("t")
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        publisher.publish(b"x", **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        publisher.loan(1, **wrong)  # type: ignore[arg-type]
    assert publisher.stats().published == 0


@pytest.mark.parametrize("values", [[b"a", b"b", b"c"], (b"a", b"b", b"c"), iter([b"a", b"b", b"c"])])
def test_publish_many_publishes_in_order_and_counts(values: list[bytes]) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    assert publisher.publish_many(values) == 3
    assert taken(subscriber) == [b"a", b"b", b"c"]
    assert publisher.publish_many([]) == 0


def test_publish_many_stops_at_the_first_that_is_refused() -> None:
    publisher = rtmw.Publisher("t", reliability=rtmw.Reliability.RELIABLE, max_blocking=0)
    subscriber = rtmw.Subscriber("t", reliability=rtmw.Reliability.RELIABLE, depth=2)
    assert publisher.publish_many([b"a", b"b", b"c", b"d"]) == 2
    assert publisher.stats().timed_out == 1
    assert taken(subscriber) == [b"a", b"b"]


def test_publish_many_with_a_wrong_value_has_published_what_came_before_it() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    with pytest.raises(rtmw.TypeMismatch):
        publisher.publish_many([b"a", "wrong", b"c"])  # type: ignore[list-item]
    assert taken(subscriber) == [b"a"]


def test_publish_many_wakes_who_waits() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(subscriber.receive(LONG).value))
    thread.start()
    publisher.publish_many([b"a", b"b"])
    thread.join(LONG)
    assert got == [b"a"]


def test_subscribers_are_those_that_get_its_messages() -> None:
    publisher = rtmw.Publisher("t")
    assert publisher.subscribers == 0
    with rtmw.Subscriber("t"), rtmw.Subscriber("t", rtmw.ANY), rtmw.Subscriber("t", Reading), rtmw.Subscriber("other"):
        assert publisher.subscribers == 2
    assert publisher.subscribers == 0


def test_wait_for_subscribers_says_whether_they_came() -> None:
    publisher = rtmw.Publisher("t")
    assert publisher.wait_for_subscribers(0, timeout=0) is True
    assert publisher.wait_for_subscribers(timeout=0.02) is False
    first = rtmw.Subscriber("t")
    assert publisher.wait_for_subscribers(timeout=0) is True
    assert publisher.wait_for_subscribers(2, timeout=0.02) is False
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(publisher.wait_for_subscribers(2)))
    thread.start()
    second = rtmw.Subscriber("t")
    thread.join(LONG)
    assert answers == [True]
    assert not first.closed
    assert not second.closed


def test_stats_count_messages_and_bytes() -> None:
    publisher = rtmw.Publisher("t")
    publisher.publish(b"12345")
    publisher.publish(bytes(1000))
    stats = publisher.stats()
    assert (stats.published, stats.bytes, stats.timed_out, stats.exhausted) == (2, 1005, 0, 0)
    assert (stats.subscribers, stats.refused) == (0, ())


def test_publishing_without_subscribers_never_fills_the_pool(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t")
    for _ in range(50):
        assert publisher.publish(bytes(1 << 20))
    for _ in range(20_000):
        assert publisher.publish(b"small")
    assert publisher.stats().exhausted == 0


def test_a_lifetime_of_0_for_all_messages_is_refused_and_the_shortest_one_is_not_for_ever() -> None:
    with pytest.raises(ValueError, match="lifetime=0 is not possible; it must be seconds above 0"):
        rtmw.Publisher("t", lifetime=0)
    publisher, subscriber = rtmw.Publisher("t", lifetime=1e-12), rtmw.Subscriber("t")
    publisher.publish(b"x")
    assert subscriber.take() is None
    assert subscriber.stats().expired == 1


def test_a_publisher_shows_its_type_by_the_name_that_its_class_was_given() -> None:
    assert repr(rtmw.Publisher("t", river.Reading)) == "<rtmw.Publisher 't' river.Reading>"


def test_a_closed_publisher_says_so() -> None:
    publisher = rtmw.Publisher("t")
    publisher.close()
    publisher.close()
    assert publisher.closed
    assert "closed" in repr(publisher)
    for use in (
        lambda: publisher.publish(b"x"),
        lambda: publisher.publish_many([b"x"]),
        lambda: publisher.loan(1),
        lambda: publisher.subscribers,
        lambda: publisher.wait_for_subscribers(),
        lambda: publisher.stats(),
    ):
        with pytest.raises(rtmw.ClosedError, match="'t'"):
            use()  # type: ignore[no-untyped-call]


def test_a_publisher_is_a_context_manager() -> None:
    with rtmw.Publisher("t") as publisher:
        assert publisher.publish(b"x")
    assert publisher.closed


def test_messages_stay_when_their_publisher_closes() -> None:
    subscriber = rtmw.Subscriber("t")
    with rtmw.Publisher("t") as publisher:
        publisher.publish_many([b"a", bytes(5000)])
    assert taken(subscriber) == [b"a", bytes(5000)]


def test_a_publisher_closed_while_it_waits_is_told() -> None:
    publisher = rtmw.Publisher("t", reliability=rtmw.Reliability.RELIABLE, max_blocking=None)
    subscriber = rtmw.Subscriber("t", reliability=rtmw.Reliability.RELIABLE, depth=1)
    publisher.publish(b"fills it")
    errors: list[Exception] = []
    about_to_wait = threading.Event()

    def wait() -> None:
        about_to_wait.set()
        try:
            publisher.publish(b"waits")
        except rtmw.ClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    about_to_wait.wait(LONG)
    publisher.close()
    thread.join(LONG)
    assert len(errors) == 1
    assert taken(subscriber) == [b"fills it"]


def test_a_publisher_that_its_values_close_on_the_way_says_so(spawn: Spawn) -> None:
    child = spawn(
        """
        import rtmw
        publisher = rtmw.Publisher("t")
        def values():
            yield b"a"
            publisher.close()
        try:
            publisher.publish_many(values())
        except rtmw.ClosedError:
            print("told")
        """
    )
    assert child.line() == "told"
    assert child.wait() == 0


def test_a_publisher_closed_while_a_value_is_encoded_says_so(spawn: Spawn) -> None:
    child = spawn(
        """
        import rtmw
        from cyclonedds.idl import make_idl_struct, types
        class Closing:
            def __index__(self):
                publisher.close()
                return 1
        Count = make_idl_struct("Count", "Count", {"number": types.int32})
        publisher = rtmw.Publisher("t", Count)
        try:
            print(publisher.publish(Count(number=Closing())))
        except rtmw.RtmwError:
            print("told")
        """
    )
    assert child.line() == "told"
    assert child.wait() == 0


def test_a_waiting_publish_lets_other_threads_run() -> None:
    publisher = rtmw.Publisher("t", reliability=rtmw.Reliability.RELIABLE, max_blocking=None)
    subscriber = rtmw.Subscriber("t", reliability=rtmw.Reliability.RELIABLE, depth=1)
    publisher.publish(b"0")
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(publisher.publish(b"1")))
    thread.start()
    for _ in range(1000):  # this thread goes on although the other waits without limit
        assert publisher.subscribers == 1
    assert answers == []
    assert subscriber.receive(LONG).value == b"0"
    thread.join(LONG)
    assert answers == [True]
    eventually(lambda: subscriber.stats().waiting == 1)
