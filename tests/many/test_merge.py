"""The sources of a PatternSubscriber in C."""

from __future__ import annotations

from typing import Any, cast

import pytest

import rtmw
from rtmw.many._merge import Source
from tests.conftest import free_number

pytestmark = pytest.mark.usefixtures("domain")


def test_what_goes_before_a_topic_is_heard_again_is_counted() -> None:
    number = free_number(with_dds=False)
    with rtmw.Domain(number, pool="1M", reserve=0) as domain:
        timely = rtmw.Reliability.TIMELY
        publisher = rtmw.Publisher("t", domain=domain, reliability=timely, history=3)
        for _ in range(3):
            publisher.publish(b"kept")
        subscriber = rtmw.Subscriber("t", domain=domain, reliability=timely, history=3, depth=100)
        for _ in range(60):
            publisher.publish(bytes(100_000))
        source = Source(subscriber, (2,) * 8)
        found = [sample.sequence for sample in subscriber.take_many(100)]
        assert found == [*range(64 - len(found), 64)]
        assert source.missed == 63 - 2 - len(found) > 0
    rtmw.Domain.unlink(number)


def test_a_source_without_a_subscriber_is_refused() -> None:
    pattern = rtmw.PatternSubscriber("t/+")
    bare = cast("Any", Source)
    for use in (pattern._add, pattern._advance):
        with pytest.raises(TypeError, match="not a Source with a subscriber"):
            use(bare.__new__(bare))
