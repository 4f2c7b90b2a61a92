"""One session without I/O, step by step: signs of life of the peer, and what a new connection says of the old one."""

from __future__ import annotations

from rtmw.net.session import events as e
from rtmw.net.session.core import Core
from rtmw.net.session.errors import Code
from rtmw.net.session.frames import ACK, DATA, HEAD, MOST, PING, Kind, frame, resume
from rtmw.net.session.hello import Agreed, Terms

LEASE = 8.0


def attached(send_buffer: int = 1 << 20) -> Core:
    """The core of a session whose peer has resumed."""
    core = Core(Agreed(True, LEASE, 1 << 20, 1 << 20, 8), Terms(lease=LEASE, send_buffer=send_buffer), 0.0)
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


def test_what_a_resume_says_that_came_is_acknowledged_and_makes_room_though_its_ack_was_lost_and_says_no_more() -> None:
    core = attached(send_buffer=1000)
    core.step(e.Open("x", 0, 0), 0.0)
    assert e.Wrote(1, 1000) in core.step(e.Write(1, memoryview(bytes(1500))), 0.0)
    for event in (e.Detached(), e.Attached(crc=True), e.Room(1 << 20)):
        core.step(event, 1.0)
    told = core.step(e.Received(resume(1, [(1, 1000)], crc=True)), 1.0)
    assert [one for one in told if isinstance(one, (e.Acknowledged, e.Drained))] == [
        e.Acknowledged(1, 1000, 0),
        e.Drained(1),
    ]
    told = core.step(e.Received(frame(Kind.ACK, 1, ACK.pack(1000, 0, 1 << 20), crc=True)), 1.0)
    assert not any(isinstance(one, (e.Acknowledged, e.Drained)) for one in told)
