"""One session without I/O, step by step: what counts as a sign of life of the peer."""

from __future__ import annotations

from rtmw.net.session import events as e
from rtmw.net.session.core import Core
from rtmw.net.session.errors import Code
from rtmw.net.session.frames import DATA, HEAD, MOST, PING, Kind, frame, resume
from rtmw.net.session.hello import Agreed, Terms

LEASE = 8.0


def attached() -> Core:
    """The core of a session whose peer has resumed."""
    core = Core(Agreed(True, LEASE, 1 << 20, 1 << 20, 8), Terms(lease=LEASE), 0.0)
    core.step(e.Attached(crc=True), 0.0)
    core.step(e.Room(1 << 20), 0.0)
    core.step(e.Received(resume(0, [], crc=True)), 0.0)
    return core


def cut_at(core: Core, data: bytes, until: float) -> float | None:
    """When the core leaves the connection on which such bytes come ten times a second."""
    for tenth in range(1, round(until * 10)):
        now = tenth / 10
        for effect in core.step(e.Received(data), now) + core.step(e.Timer(), now):
            if isinstance(effect, e.Cut):
                assert effect.code == Code.SILENT
                return now
    return None


def test_a_length_that_was_spoiled_on_the_way_ends_the_connection_although_pings_come() -> None:
    core = attached()
    core.step(e.Received(HEAD.pack(MOST, Kind.DATA, 0x80, 1)), 0.0)
    ping = frame(Kind.PING, 0, PING.pack(7), crc=True)
    assert cut_at(core, ping, 4 * LEASE) is not None


def test_a_large_frame_that_comes_slowly_keeps_its_connection() -> None:
    core = attached()
    core.step(e.Received(HEAD.pack(MOST, Kind.DATA, 0x80, 1) + DATA.pack(0)), 0.0)
    assert cut_at(core, bytes(30), 4 * LEASE) is None


def test_pings_alone_keep_a_connection() -> None:
    assert cut_at(attached(), frame(Kind.PING, 0, PING.pack(7), crc=True), 4 * LEASE) is None
