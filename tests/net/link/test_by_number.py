"""A frame finds its route as fast beside thousands of routes as beside none, whatever numbers a peer chooses."""

from __future__ import annotations

import time

import pytest

from rtmw.net.link.library import Route
from tests.net.link.ends import Ends
from tests.net.link.format import ack, begin, control, frame
from tests.net.link.test_hostile import Stranger

ROUTES = 1700
FRAMES = 4000
ROUNDS = 8
STEP = 1 << 20
"""Between two numbers."""


class Timed:
    """A stranger that sends many frames of one route, and how long they take."""

    def __init__(self, ends: Ends) -> None:
        self._ends, self._controls, self._messages = ends, 0, 0
        self._stranger = Stranger(ends.here.line)
        self._stranger.urgent.sendall(frame(2, b""))

    def close(self) -> None:
        self._stranger.close()

    def inbound(self) -> float:
        """Messages of route 1."""
        frames = list[bytes]()
        for _ in range(FRAMES):
            self._messages += 1
            frames.append(begin(1, self._messages, b"", priority=7))
        return self._seconds(frames)

    def outbound(self) -> float:
        """Acknowledgements of route 1."""
        return self._seconds([ack(1, 1000, [])] * FRAMES)

    def _seconds(self, frames: list[bytes]) -> float:
        self._controls += 1
        data = b"".join([*frames, control(self._controls, b"the end")])
        begun = time.monotonic()
        self._stranger.urgent.sendall(data)
        self._ends.here.await_news("control", self._controls)
        return time.monotonic() - begun


def opened(ends: Ends, way: str, number: int) -> Route:
    line = ends.here.line
    if way == "outbound":
        return line.outbound(number, "out", None, 1, 8, 0, 0, 0)
    return line.inbound(number, "in", None, 1, 7, 8, 0, "rtmw bus 1", True, 1 << 20)


@pytest.mark.parametrize("way", ["inbound", "outbound"])
# Proves G235.
def test_a_frame_of_the_oldest_of_many_routes_is_found_as_fast_as_that_of_a_single_one(ends: Ends, way: str) -> None:
    timed, routes = Timed(ends), [opened(ends, way, 1)]
    alone = min(getattr(timed, way)() for _ in range(ROUNDS))
    routes += [opened(ends, way, 1 + number * STEP) for number in range(1, ROUTES)]
    among_many = min(getattr(timed, way)() for _ in range(ROUNDS))
    timed.close()
    for route in routes:
        route.close()
    assert among_many < 8 * alone, f"{among_many / alone:.1f} times as long"


@pytest.mark.parametrize("way", ["inbound", "outbound"])
def test_routes_that_are_closed_in_any_order_leave_the_others_where_they_are(ends: Ends, way: str) -> None:
    timed, routes = Timed(ends), [opened(ends, way, number) for number in (1, 2, 5, 9, 4_000_000_000)]
    for number in (2, 1, 4, 0):
        routes[number].close()
    timed.close()
    assert ends.here.await_news("down")[1] != 2
    again = Timed(ends)
    if way == "inbound":
        again._stranger.urgent.sendall(begin(9, 1, b"x", priority=7) + control(1, b"x"))
        ends.here.await_news("control")
        assert routes[3].counters()["received"] == 1
    with pytest.raises(ValueError, match="a higher one was opened before"):
        opened(ends, way, 4_000_000_000)
    again.close()
    routes[3].close()
