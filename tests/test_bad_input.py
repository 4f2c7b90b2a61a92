"""Wrong input is refused by its own exception, which says what to do, and the domain goes on as if nothing had been."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import uint8

import rtmw
from tests.books import assert_whole, examine

Endpoint = Callable[..., Any]
both = pytest.mark.parametrize("endpoint", [rtmw.Publisher, rtmw.Subscriber])


@dataclass
class Small(IdlStruct, typename="bad.Small"):
    """A message with a narrow number."""

    name: str
    level: uint8


@pytest.fixture(autouse=True)
def domain_unharmed(domain: rtmw.Domain) -> Iterator[None]:
    """Every test here ends with a domain that works and has lost nothing."""
    yield
    assert_whole(domain)


@both
@pytest.mark.parametrize("kind", [int, list, "bytes", object(), [], np.dtype(object), None])
def test_a_type_that_is_no_message_type_is_refused_with_those_that_are(
    endpoint: Endpoint, kind: Any, domain: rtmw.Domain
) -> None:
    with pytest.raises(rtmw.UnsupportedType, match=r"use bytes, str, dict|fixed size"):
        endpoint("a", kind, domain=domain)


def test_a_publisher_of_any_type_is_refused(domain: rtmw.Domain) -> None:
    with pytest.raises(rtmw.UnsupportedType, match="ANY is for subscribers only"):
        rtmw.Publisher("a", rtmw.ANY, domain=domain)  # type: ignore[arg-type]


@both
@pytest.mark.parametrize(
    "name", ["", "x" * 192, "ä" * 96, "a\nb", "\t", "\x7f", "a\0b", "\0", "\ud800"], ids=lambda name: ascii(name)[:12]
)
def test_a_bad_topic_name_is_refused_with_the_rule(endpoint: Endpoint, name: str, domain: rtmw.Domain) -> None:
    with pytest.raises(rtmw.TopicNameError, match="1 to 191 bytes of UTF-8 are, without control characters"):
        endpoint(name, domain=domain)


@both
@pytest.mark.parametrize("name", ["pump/*", "*", "pump/?", "pump[1]", "[a-z]"])
def test_a_pattern_is_no_topic_name_and_the_error_says_who_takes_patterns(
    endpoint: Endpoint, name: str, domain: rtmw.Domain
) -> None:
    words = r"without .*`\*`, `\?` and `\[`.*patterns are for rtmw\.PatternSubscriber"
    with pytest.raises(rtmw.TopicNameError, match=words):
        endpoint(name, domain=domain)
    assert domain.region.topics() == []


@both
@pytest.mark.parametrize(
    "name", ["x", "x" * 191, "ä" * 95, "pump/1/speed", "a b", "a]", "日本"], ids=lambda name: ascii(name)[:12]
)
def test_every_other_name_is_a_topic_name(endpoint: Endpoint, name: str, domain: rtmw.Domain) -> None:
    with endpoint(name, domain=domain) as opened:
        assert opened.topic == name


@both
@pytest.mark.parametrize("name", [5, None, b"bytes"])
def test_a_topic_name_is_a_str(endpoint: Endpoint, name: Any, domain: rtmw.Domain) -> None:
    with pytest.raises(TypeError, match=rf"topic={re.escape(repr(name))} is not possible.*must be str"):
        endpoint(name, domain=domain)


@pytest.mark.parametrize("value", ["text", 5, None, [1, 2]])
def test_a_value_that_is_no_bytes_is_refused_by_a_publisher_of_bytes(value: Any, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a", domain=domain) as publisher:
        with pytest.raises(rtmw.TypeMismatch, match=r"give bytes.*such as rtmw\.Publisher\(topic, str\)"):
            publisher.publish(value)
        assert publisher.stats().published == 0


def test_a_value_of_another_class_is_refused_with_both_named(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a", Small, domain=domain) as publisher:
        with pytest.raises(rtmw.TypeMismatch, match=r"expected a value of bad.Small.*not dict"):
            publisher.publish({"name": "x", "level": 1})  # type: ignore[arg-type]
        with pytest.raises(rtmw.TypeMismatch, match=r"level: expected.*found 'high'"):
            publisher.publish(Small("x", "high"))  # type: ignore[arg-type]
        assert publisher.stats().published == 0


def test_a_value_that_does_not_fit_its_type_is_refused_with_the_field_named(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a", Small, domain=domain) as publisher:
        with pytest.raises(rtmw.ValueMismatch, match=r"level: 300 does not fit"):
            publisher.publish(Small("x", 300))
        with pytest.raises(rtmw.ValueMismatch, match=r"level: -1 does not fit"):
            publisher.publish(Small("x", -1))
        assert publisher.stats().published == 0


def test_an_array_of_another_dtype_or_shape_is_refused_with_what_to_do(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a", np.dtype((np.float32, (2, 3))), domain=domain) as publisher:
        with pytest.raises(rtmw.TypeMismatch, match="astype"):
            publisher.publish(np.zeros((2, 3)))
        with pytest.raises(rtmw.ValueMismatch, match="shape"):
            publisher.publish(np.zeros((3, 2), np.float32))
        with pytest.raises(rtmw.TypeMismatch, match="asarray"):
            publisher.publish([[0.0] * 3] * 2)


def test_what_publish_many_was_given_before_a_bad_value_is_published(domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("a", domain=domain) as subscriber, rtmw.Publisher("a", domain=domain) as publisher:
        with pytest.raises(rtmw.TypeMismatch, match="give bytes"):
            publisher.publish_many([b"one", b"two", "three"])
        assert [sample.value for sample in subscriber.take_many(9)] == [b"one", b"two"]


def test_a_message_larger_than_the_pool_is_refused_with_what_to_do(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a", domain=domain) as publisher:
        with pytest.raises(rtmw.MessageTooLarge, match=r"8388609 bytes.*larger pool"):
            publisher.publish(bytes(domain.pool + 1))
        with pytest.raises(rtmw.MessageTooLarge, match="larger pool"):
            publisher.loan(1 << 60)
        assert publisher.stats().published == 0


def test_a_message_as_large_as_the_pool_goes_through(domain: rtmw.Domain) -> None:
    payload = bytes(range(256)) * (domain.pool // 256)
    with rtmw.Subscriber("a", domain=domain) as subscriber, rtmw.Publisher("a", domain=domain) as publisher:
        assert publisher.publish(payload)
        assert subscriber.receive(10.0).data == payload
        assert publisher.publish(b"")
        assert subscriber.receive(10.0).data == b""


@pytest.mark.parametrize("size", [-1, "many", 1.5])
def test_a_loan_of_an_impossible_size_is_refused(size: Any, domain: rtmw.Domain) -> None:
    with (
        rtmw.Publisher("a", domain=domain) as publisher,
        pytest.raises((ValueError, TypeError), match=r"not possible|integer"),
    ):
        publisher.loan(size)


def test_a_loan_that_outlives_its_publisher_gives_its_block_back(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("a", domain=domain)
    loan = publisher.loan(100_000)
    publisher.close()
    with pytest.raises(rtmw.ClosedError, match="close"):
        loan.publish()
    loan.drop()
    assert examine(domain).descriptors_loaned == 0


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"priority": 8}, "0 (lowest) to 7"),
        ({"priority": -1}, "0 (lowest) to 7"),
        ({"priority": True}, "priority True does not exist; there are 0 (lowest) to 7"),
        ({"depth": True}, "depth=True is not possible; it must be a whole number from 1 to"),
        ({"history": False}, "history=False is not possible; it must be a whole number from 0 to"),
        ({"reliability": True}, "reliability=True is not possible; give one of rtmw.Reliability"),
        ({"depth": 0}, "from 1 to"),
        ({"history": -1}, "from 0 to"),
        ({"lifetime": -1.0}, "above 0"),
        ({"lifetime": float("nan")}, "above 0"),
        ({"max_blocking": -1.0}, "from 0"),
        ({"reliability": 7}, "reliability=7 is not possible; give one of rtmw.Reliability: TIMELY, ADAPTIVE, RELIABLE"),
        ({"reliability": "RELIABLE"}, "as in reliability=rtmw.Reliability.RELIABLE"),
        ({"reliability": None}, "give one of rtmw.Reliability"),
    ],
)
def test_an_impossible_qos_of_a_publisher_is_refused_with_what_is_possible(
    options: dict[str, Any], word: str, domain: rtmw.Domain
) -> None:
    with pytest.raises(ValueError, match=re.escape(word)):
        rtmw.Publisher("a", domain=domain, **options)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"depth": 0}, "from 1 to"),
        ({"history": 1 << 21}, "from 0 to"),
        ({"depth": True}, "depth=True is not possible; it must be a whole number from 1 to"),
        ({"history": True}, "history=True is not possible; it must be a whole number from 0 to"),
        ({"min_interval": -1.0}, "from 0"),
        ({"deadline": 0.0}, "above 0"),
        ({"lease": -1.0, "reliability": rtmw.Reliability.RELIABLE}, "above 0"),
        ({"spin": float("nan")}, "from 0"),
        ({"reliability": "best"}, "give one of rtmw.Reliability: TIMELY, ADAPTIVE, RELIABLE"),
        ({"reliability": "TIMELY"}, "as in reliability=rtmw.Reliability.TIMELY"),
        ({"min_interval": 2.0, "deadline": 1.5}, "min_interval=2.0 with deadline=1.5 is not possible"),
        ({"min_interval": float("inf"), "deadline": 1e9}, "the deadline must be as long, or longer"),
        ({"lease": 1.0}, "lease=1.0 with reliability ADAPTIVE is not possible"),
        ({"lease": 1.0, "reliability": rtmw.Reliability.TIMELY}, "ask for reliability=rtmw.Reliability.RELIABLE"),
    ],
)
def test_an_impossible_qos_of_a_subscriber_is_refused_with_what_is_possible(
    options: dict[str, Any], word: str, domain: rtmw.Domain
) -> None:
    with pytest.raises(ValueError, match=re.escape(word)):
        rtmw.Subscriber("a", domain=domain, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"min_interval": 1.0, "deadline": 1.0},
        {"min_interval": 1.0},
        {"lease": 1.0, "reliability": rtmw.Reliability.RELIABLE},
        {"reliability": 2},
    ],
)
def test_a_qos_of_a_subscriber_that_is_just_possible_is_taken(options: dict[str, Any], domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("a", domain=domain, **options) as subscriber:
        assert isinstance(subscriber.reliability, rtmw.Reliability)


@pytest.mark.parametrize(
    "options", [{"priority": 8}, {"priority": True}, {"lifetime": -1}, {"valid_until": float("nan")}]
)
def test_an_impossible_qos_of_one_message_is_refused(options: dict[str, Any], domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a", domain=domain) as publisher, pytest.raises(ValueError, match=r"0 or more|does not exist"):
        publisher.publish(b"x", **options)


def test_closed_endpoints_and_domains_say_so(domain_id: int) -> None:
    other = rtmw.Domain(domain_id)
    publisher, subscriber = rtmw.Publisher("a", domain=other), rtmw.Subscriber("a", domain=other)
    other.close()
    for use in (
        lambda: publisher.publish(b"x"),
        subscriber.take,
        subscriber.receive,
        lambda: rtmw.Publisher("a", domain=other),
    ):
        with pytest.raises(rtmw.ClosedError, match="close"):
            use()


@pytest.mark.parametrize("text", ["", "x", "1.5", "-1", "233"])
def test_a_bad_rtmw_domain_is_refused_with_the_variable_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTMW_DOMAIN", text)
    with pytest.raises(ValueError, match=f"RTMW_DOMAIN='{text}'.*0 to 232"):
        rtmw.Publisher("a")
