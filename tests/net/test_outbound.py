"""How much of a topic waits on the bus of its host to be sent."""

from __future__ import annotations

import time

import rtmw
from rtmw import Reliability, observe
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until

LARGE = 200_000
LOOK_S = 0.02
"""The sender looks at its routes that often whatever happens: WAIT_NS."""


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


def test_a_route_for_which_dds_has_no_room_is_tried_again_soon(pair: tuple[Host, Host]) -> None:
    """Every 0.2 ms. When it waited for the next look, 1 MiB messages crossed at a tenth of the rate."""
    here, there = pair
    subscriber = rtmw.Subscriber("large", domain=there.domain, reliability=Reliability.RELIABLE)
    publisher = rtmw.Publisher("large", domain=here.domain, reliability=Reliability.RELIABLE, max_blocking=0)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    halt(there)

    def blocked() -> int:
        return here.crossed("out", "large")["blocked"]

    wait_until(lambda: not publisher.publish(bytes(LARGE)) and blocked() > 0, "there is room for everything")
    start, before = time.monotonic(), blocked()
    wait_until(lambda: time.monotonic() > start + 100 * LOOK_S, "time stands still")
    tries, looks = blocked() - before, (time.monotonic() - start) / LOOK_S
    go_on(there)
    assert subscriber.receive(timeout=PATIENCE)
    assert tries > 3 * looks


def depth_of_the_node(host: Host, topic: str) -> int:
    view = next(view for view in observe.topics(host.domain) if view.name == topic)
    return view.subscribers[0].depth
