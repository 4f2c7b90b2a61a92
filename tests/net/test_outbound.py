"""How much of a topic waits on the bus of its host to be sent."""

from __future__ import annotations

import rtmw
from rtmw import Reliability, observe
from tests.net.hosts import PATIENCE, Host, wait_until

LARGE = 200_000


def test_of_reliable_messages_that_are_large_fewer_may_wait(pair: tuple[Host, Host]) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("large", domain=there.domain, reliability=Reliability.RELIABLE)
    publisher = rtmw.Publisher("large", domain=here.domain, reliability=Reliability.RELIABLE, depth=40)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)

    def crosses(size: int) -> bool:
        return publisher.publish(bytes(size)) and len(subscriber.receive(timeout=PATIENCE).data) == size

    assert depth_of_the_node(here, "large") == 40
    assert crosses(LARGE)
    wait_until(lambda: depth_of_the_node(here, "large") == here.domain.pool // 8 // LARGE, "as many may wait")
    wait_until(lambda: crosses(10) and depth_of_the_node(here, "large") == 40, "fewer may wait for good")


def depth_of_the_node(host: Host, topic: str) -> int:
    view = next(view for view in observe.topics(host.domain) if view.name == topic)
    return view.subscribers[0].depth
