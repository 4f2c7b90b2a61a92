"""Datagrams say how urgent they are: each priority has a code point (DSCP), which switches heed."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

import rtmw
from tests.net.hosts import PATIENCE, Host

CODE_POINTS = (0, 10, 18, 26, 34, 40, 44, 46)
"""Default, AF11, AF21, AF31, AF41, CS5, VOICE-ADMIT, EF (RFC 4594), by priority."""
_IPV4 = 0x0800
_ETHERNET = 14


@pytest.fixture
def line() -> Iterator[socket.socket]:
    """All IPv4 that goes over loopback."""
    try:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_IPV4))
    except PermissionError:
        pytest.skip("looking at frames needs root")
    with made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        made.bind(("lo", _IPV4))
        made.settimeout(PATIENCE)
        yield made


def code_point_of(line: socket.socket, mark: bytes) -> int:
    """Of the first frame with these bytes."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        frame = line.recv(1 << 16)
        if mark in frame:
            return frame[_ETHERNET + 1] >> 2
    raise AssertionError(f"no frame has {mark!r}")


# Proves G258.
def test_each_priority_has_its_code_point_on_the_line(pair: tuple[Host, Host], line: socket.socket) -> None:
    here, there = pair
    with rtmw.Subscriber("urgent", domain=there.domain) as subscriber:
        publisher = rtmw.Publisher("urgent", domain=here.domain)
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        for priority in (7, 0, 3, 1, 2, 6, 5, 4):
            mark = b"marked with priority %d" % priority
            publisher.publish(mark, priority=priority)
            assert subscriber.receive(timeout=PATIENCE).value == mark
            assert code_point_of(line, mark) == CODE_POINTS[priority]
