"""Frames of a large message are read straight into its place: whatever they come with, and in whatever pieces."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

import rtmw
from rtmw import Reliability
from tests.net.link.ends import Ends, wait_until
from tests.net.link.format import begin, drop, frame, more
from tests.net.link.test_hostile import IN, Stranger

BODY = 16384 - 8 - 4
"""Of the longest frame."""
FIRST = b"the first bytes"
CUTS = {
    "in a header": [3, 8, 16384 + 5],
    "in a body": [100, 9000, 16384 + 8 + 1],
    "in a CRC": [8 + BODY, 8 + BODY + 1, 2 * 16384 - 3],
    "between frames": [16384, 2 * 16384],
    "in the last one": [5 * 16384 + 8 + 10],
    "nowhere": [],
}
"""Where what comes behind the beginning of a message is cut into pieces."""


class Landing:
    """A line whose peer is given here as bytes, and what it publishes."""

    def __init__(self, ends: Ends, stranger: Stranger | None = None) -> None:
        self.line = ends.here.line
        self.news = ends.here
        self.subscriber = rtmw.Subscriber("in", domain=ends.here.domain, reliability=Reliability.RELIABLE, depth=64)
        self.route = self.line.inbound(IN, "in", None, 2, 0, 8, 0, "rtmw bus 1", True, 1 << 20)
        self.stranger = stranger or Stranger(self.line)

    def bring(self, data: bytes) -> None:
        """Over the bulk connection, and waits until the line has read it."""
        before = self.line.info()["received"]
        self.stranger.bulk.sendall(data)
        wait_until(lambda: self.line.info()["received"] == before + len(data))

    def take(self) -> bytes:
        return bytes(self.subscriber.receive(timeout=30.0).data)

    def close(self) -> None:
        self.route.close()
        self.stranger.close()
        self.subscriber.close()


def message(seed: int, frames: int = 5) -> bytes:
    """One whose frames behind the beginning are as long as they may be, but for the last one."""
    return FIRST + random.Random(seed).randbytes(frames * BODY + 77)


def rest_of(data: bytes, band: int = 0) -> list[bytes]:
    """The frames behind the beginning."""
    return [more(IN, data[at : at + BODY], band) for at in range(len(FIRST), len(data), BODY)]


@pytest.mark.parametrize("where", CUTS)
# Proves G242.
def test_a_large_message_arrives_whole_in_whatever_pieces_it_comes(ends: Ends, where: str) -> None:
    landing, data = Landing(ends), message(1)
    landing.bring(begin(IN, 1, FIRST, len(data)))
    stream = b"".join(rest_of(data))
    edges = [0, *CUTS[where], len(stream)]
    for first, last in pairwise(edges):
        landing.bring(stream[first:last])
    assert landing.take() == data
    landing.close()


def test_other_frames_may_come_between_those_of_a_large_message(ends: Ends) -> None:
    landing, low, high = Landing(ends), message(2), message(3, frames=2)
    frames = rest_of(low)
    short = [more(IN, low[len(FIRST) : len(FIRST) + 5]), more(IN, low[len(FIRST) + 5 : len(FIRST) + BODY])]
    ping = frame(8, bytes(8))
    urged = [begin(IN, 1, FIRST, len(high), priority=3), *rest_of(high, band=3)]
    landing.bring(begin(IN, 1, FIRST, len(low)))
    landing.bring(b"".join([*short, frames[1], ping, frames[2], *urged[:2]]))
    landing.bring(b"".join([ping, *urged[2:], *frames[3:]]))
    assert landing.take() == high
    assert landing.take() == low
    landing.close()


@pytest.mark.parametrize("at", [1, 4, 5000, 16384 - 1, 2 * 16384 + 500])
def test_a_bit_that_is_turned_in_a_large_message_ends_the_connections(ends: Ends, at: int) -> None:
    landing, data = Landing(ends), message(4)
    landing.bring(begin(IN, 1, FIRST, len(data)))
    stream = bytearray(b"".join(rest_of(data)))
    stream[at] ^= 1
    landing.stranger.bulk.sendall(stream)
    code = landing.news.await_news("down")[1]
    assert code == (2 if at % 16384 in (1, 2, 3) else 4)
    assert landing.subscriber.take() is None
    landing.close()


@pytest.mark.parametrize("come", [4, 8, 3000, 8 + BODY + 2])
# Proves G242.
def test_a_route_may_be_closed_while_a_frame_of_it_has_come_in_part(ends: Ends, come: int) -> None:
    """Its memory is given back: what comes of the frame yet goes elsewhere, and the line goes on."""
    landing, data = Landing(ends), message(5)
    other = landing.line.inbound(IN + 1, "in", None, 2, 0, 8, 0, "rtmw bus 1", True, 1 << 20)
    frames = rest_of(data)
    landing.bring(begin(IN, 1, FIRST, len(data)))
    landing.bring(frames[0] + frames[1][:come])
    landing.route.close()
    taken = rtmw.Publisher("mine", domain=ends.here.domain, reliability=Reliability.RELIABLE)
    loan = taken.loan(len(data))
    loan.data[:] = bytes(len(data))
    landing.bring(frames[1][come:] + frames[2] + drop(IN, 1, why=2) + begin(IN + 1, 1, b"the next one"))
    assert landing.take() == b"the next one"
    assert bytes(loan.data) == bytes(len(data))
    assert not [one for one in landing.news.look() if one[0] == "down"]
    loan.drop()
    taken.close()
    other.close()
    landing.close()
