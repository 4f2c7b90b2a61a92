"""How many messages of a RELIABLE route wait on the bus of the sender before its publisher does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import rtmw
from rtmw import Reliability
from tests.net.link.ends import PATIENCE, Ends, wait_until

RELIABLE = Reliability.RELIABLE
LOOKAHEAD = 64
"""Messages that a route has taken from the bus in advance."""


@contextmanager
def stuck(ends: Ends, depth: int = 64) -> Iterator[rtmw.Publisher[bytes]]:
    """The publisher of a topic whose subscriber at the other end stands still."""
    with (
        rtmw.Publisher("stuck", domain=ends.here.domain, reliability=RELIABLE, max_blocking=0, depth=depth) as out,
        rtmw.Subscriber("stuck", domain=ends.there.domain, reliability=RELIABLE, depth=4, lease=PATIENCE),
    ):
        yield out


def accepted(publisher: rtmw.Publisher[bytes], size: int) -> int:
    """How many messages, until none was for a while."""
    count, last = 0, time.monotonic()
    while time.monotonic() - last < 0.3:
        if publisher.publish(bytes(size)):
            count, last = count + 1, time.monotonic()
    return count


def test_of_small_messages_more_than_the_usual_depth_wait(ends: Ends) -> None:
    ends.route("stuck", window=10_000)
    ends.join()
    ends.up()
    with stuck(ends) as publisher:
        assert 512 < accepted(publisher, 100) < 512 + 64 + LOOKAHEAD + 100


def test_of_a_route_with_less_than_the_usual_depth_no_more_than_that_wait(ends: Ends) -> None:
    ends.route("stuck", window=10_000, depth=16)
    ends.join()
    ends.up()
    with stuck(ends, 16) as publisher:
        assert accepted(publisher, 100) < 16 + LOOKAHEAD + 100


def test_of_large_messages_no_more_wait_than_a_share_of_the_pool(ends: Ends) -> None:
    outbound, _ = ends.route("stuck", window=100_000, depth=200)
    ends.join()
    ends.up()
    with stuck(ends, 200) as publisher:
        assert publisher.publish(bytes(100_000)), "the first one, by which the route knows that they are large"
        wait_until(lambda: outbound.counters()["sent"])
        assert accepted(publisher, 100_000) < ends.here.zero_copy_most // 100_000 + 20


def test_after_a_cut_no_more_than_the_depth_wait(ends: Ends) -> None:
    ends.route("stuck", window=10_000)
    ends.join()
    ends.up()
    with stuck(ends) as publisher:
        assert publisher.publish(bytes(100))
        ends.here.line.cut("pulled")
        ends.here.await_news("down")
        assert accepted(publisher, 100) < 64 + LOOKAHEAD + 100


def test_on_a_slow_way_no_more_than_the_depth_wait(ends: Ends) -> None:
    ends.route("stuck", window=10_000)
    ends.here.line.limit(1 << 20)
    ends.join()
    ends.up()
    with stuck(ends) as publisher:
        assert accepted(publisher, 100) < 64 + LOOKAHEAD + 100
