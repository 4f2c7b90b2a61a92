"""Frames without CRCs, too, are read into the place of a large message: under TLS, however records divide them, and
within a host, in whatever pieces they come."""

from __future__ import annotations

import random
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.link.library import Connection, Context, Line
from tests.net.link.ends import Ends, tcp_pair, wait_until
from tests.net.link.format import CHECKED, begin, drop, frame, more
from tests.net.link.test_hostile import IN, Stranger
from tests.net.link.test_landing import Landing
from tests.net.security.site import Site

BODY = 16384 - 8
"""Of the longest frame."""
FIRST = b"the first bytes"
CUTS = {
    "a frame": [16384, 2 * 16384, 3 * 16384],
    "a part of a header": [3, 16384 + 7],
    "a header": [8, 16384 + 8],
    "a part of a body": [100, 9000, 16384 + 8 + 1],
    "a byte beyond a frame": [16384 + 1, 3 * 16384 + 1],
    "all": [],
}
"""Where a record or a piece ends, besides a record behind 16384 bytes."""
Open = Callable[[bytes], Landing]


class StrangerWithinHost(Stranger):
    """The peer of a line, on the same host."""

    def __init__(self, line: Line) -> None:
        self.urgent, one = tcp_pair()
        self.bulk, other = tcp_pair()
        connections = Connection(one.fileno()), Connection(other.fileno())
        for connection in connections:
            connection.omit_crc()
        line.carry(*connections)
        one.close()
        other.close()


class TlsStranger(Stranger):
    """The peer of a line, as what its records hold."""

    def __init__(self, line: Line, here: Context, there: ssl.SSLContext) -> None:
        pairs = [self._meet(here, there) for _ in range(2)]
        self.urgent, self.bulk = (end for end, _ in pairs)
        line.carry(pairs[0][1], pairs[1][1])

    @staticmethod
    def _meet(here: Context, there: ssl.SSLContext) -> tuple[socket.socket, Connection]:
        end, other = tcp_pair()
        connection = Connection(other.fileno(), here)
        other.close()
        end = there.wrap_socket(end, do_handshake_on_connect=False)
        thread = Thread(target=end.do_handshake)
        thread.start()
        wait_until(lambda: connection.handshake() == "done")
        thread.join()
        return end, connection


def unchecked(checked: bytes) -> bytes:
    """The frame without its CRC."""
    length, kind, flags, route = struct.unpack_from("<HBBI", checked)
    return struct.pack("<HBBI", length - 4, kind, flags & ~CHECKED, route) + checked[8:-4]


def message(seed: int, first: bytes, frames: int = 5) -> bytes:
    return first + random.Random(seed).randbytes(frames * BODY + 77)


def rest_of(data: bytes, first: bytes = FIRST, band: int = 0) -> list[bytes]:
    """The frames behind the beginning."""
    return [unchecked(more(IN, data[at : at + BODY], band)) for at in range(len(first), len(data), BODY)]


@pytest.fixture(params=["under TLS", "within a host"])
def open_landing(request: pytest.FixtureRequest, ends: Ends, tmp_path: Path) -> Iterator[Open]:
    """A line that has heard these bytes of its peer over the bulk connection."""
    site, opened = Site(tmp_path), list[Landing]()
    here, there = site.node("rtmw://plant/hub"), site.node("rtmw://plant/press")

    def opens(heard: bytes) -> Landing:
        if request.param == "under TLS":
            stranger: Stranger = TlsStranger(ends.here.line, Context(*here.material(), True), there.client_context())
        else:
            stranger = StrangerWithinHost(ends.here.line)
        opened.append(Landing(ends, stranger))
        opened[0].bring(heard)
        return opened[0]

    yield opens
    opened[0].close()


@pytest.mark.parametrize("first", [FIRST, b"seven b"], ids=["begun", "hardly begun"])
@pytest.mark.parametrize("where", CUTS)
# Proves G242.
def test_a_large_message_arrives_whole_in_whatever_records_or_pieces_it_comes(
    open_landing: Open, where: str, first: bytes
) -> None:
    data = message(1, first)
    landing = open_landing(unchecked(begin(IN, 1, first, len(data))))
    stream = b"".join(rest_of(data, first))
    for start, end in pairwise([0, *CUTS[where], len(stream)]):
        landing.bring(stream[start:end])
    assert landing.take() == data


def test_other_frames_may_come_between_those_of_a_large_message(open_landing: Open) -> None:
    low, high = message(2, FIRST), message(3, FIRST, frames=2)
    frames, ping = rest_of(low), unchecked(frame(8, bytes(8)))
    urged = [unchecked(begin(IN, 1, FIRST, len(high), priority=3)), *rest_of(high, band=3)]
    landing = open_landing(unchecked(begin(IN, 1, FIRST, len(low))))
    landing.bring(b"".join([frames[0], ping, frames[1], *urged[:2]]))
    landing.bring(b"".join([ping, *urged[2:], *frames[2:]]))
    assert landing.take() == high
    assert landing.take() == low


@pytest.mark.parametrize("come", [4, 8, 3000, 8 + BODY - 1])
def test_a_route_may_be_closed_while_a_frame_of_it_has_come_in_part(open_landing: Open, ends: Ends, come: int) -> None:
    """Its memory is given back: what comes of the frame yet goes elsewhere, and the line goes on."""
    data = message(5, FIRST)
    frames = rest_of(data)
    landing = open_landing(unchecked(begin(IN, 1, FIRST, len(data))))
    other = landing.line.inbound(IN + 1, "in", None, 2, 0, 8, 0, "rtmw bus 1", True, 1 << 20)
    landing.bring(frames[0] + frames[1][:come])
    landing.route.close()
    with rtmw.Publisher("mine", domain=ends.here.domain, reliability=Reliability.RELIABLE) as taken:
        loan = taken.loan(len(data))
        loan.data[:] = bytes(len(data))
        ends_it = unchecked(drop(IN, 1, why=2)) + unchecked(begin(IN + 1, 1, b"the next one"))
        landing.bring(frames[1][come:] + frames[2] + ends_it)
        assert landing.take() == b"the next one"
        assert bytes(loan.data) == bytes(len(data))
        loan.drop()
    assert not [one for one in landing.news.look() if one[0] == "down"]
    other.close()


def test_a_frame_with_a_crc_ends_the_line_in_words(open_landing: Open) -> None:
    data = message(6, FIRST)
    landing = open_landing(unchecked(begin(IN, 1, FIRST, len(data))))
    landing.stranger.bulk.sendall(more(IN, data[len(FIRST) : len(FIRST) + BODY - 4]))
    _, code, words = landing.news.await_news("down")
    assert (code, words) == (2, b"a frame with a CRC where none is due, or without one where one is")
