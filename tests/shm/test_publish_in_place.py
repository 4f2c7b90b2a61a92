"""A large typed message is encoded in the block where subscribers find it; what goes wrong there leaves no trace."""

from __future__ import annotations

from typing import Any

import cyclonedds.idl as idl
import cyclonedds.idl.types as t
import pytest

import rtmw
from tests.books import assert_whole, examine

Frame: Any = idl.make_idl_struct("Frame", "Frame", {"image": bytes, "numbers": t.sequence[t.int32]})
LARGE = bytes(range(256)) * 4096


def frame(*numbers: Any) -> Any:
    return Frame(image=LARGE, numbers=[*numbers])


class Interrupting:
    """A number that runs code when it is encoded."""

    def __init__(self, code: Any) -> None:
        self.code = code

    def __index__(self) -> int:
        self.code()
        return 1


def test_a_large_message_arrives_as_it_was(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("t", Frame, domain=domain) as publisher, rtmw.Subscriber("t", Frame, domain=domain) as taker:
        assert publisher.publish(frame(1, 2))
        assert publisher.publish_many([frame(3), frame(4)]) == 2
        samples = taker.take_many(9)
        assert [sample.value for sample in samples] == [frame(1, 2), frame(3), frame(4)]
        assert bytes(samples[0].data) == frame(1, 2).serialize()
        assert publisher.stats().bytes == sum(len(sample.data) for sample in samples)
    del samples
    assert_whole(domain)


def test_a_number_that_does_not_fit_is_named_and_the_block_comes_back(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("t", Frame, domain=domain) as publisher:
        with pytest.raises(rtmw.ValueMismatch, match=r"Frame.numbers\[1\]: 2147483648 does not fit"):
            publisher.publish(frame(1, 1 << 31))
        assert publisher.stats().published == 0
    assert_whole(domain)


def test_a_full_subscriber_refuses_a_large_message_as_a_small_one(domain: rtmw.Domain) -> None:
    reliable = rtmw.Reliability.RELIABLE
    with (
        rtmw.Subscriber("t", Frame, domain=domain, reliability=reliable, depth=1) as subscriber,
        rtmw.Publisher("t", Frame, domain=domain, reliability=reliable, max_blocking=0.01) as publisher,
    ):
        assert publisher.publish(frame(1))
        assert not publisher.publish(frame(2))
        assert publisher.stats().timed_out == 1
        assert examine(domain).descriptors_loaned == 0
        assert subscriber.receive(60).value == frame(1)
    assert_whole(domain)


def test_a_message_larger_than_the_pool_is_refused(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("t", Frame, domain=domain) as publisher, pytest.raises(rtmw.MessageTooLarge):
        publisher.publish(Frame(image=bytes(domain.pool), numbers=[]))
    assert_whole(domain)


def test_a_publisher_closed_while_a_large_value_is_encoded_says_so(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t", Frame, domain=domain)
    with pytest.raises(rtmw.ClosedError):
        publisher.publish(frame(Interrupting(publisher.close)))
    assert_whole(domain)


def test_a_value_that_changes_while_it_is_encoded_is_refused(domain: rtmw.Domain) -> None:
    """The second element is read after the first has run code; the memory was asked for before."""
    value = frame()
    value.numbers += [Interrupting(value.numbers.clear), 2]
    with (
        rtmw.Publisher("t", Frame, domain=domain) as publisher,
        pytest.raises(rtmw.ValueMismatch, match="changed while"),
    ):
        publisher.publish(value)
    assert_whole(domain)
