"""What an honest peer never sends ends the line, in words; what is damaged ends the connection."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability, RtmwError
from rtmw.net.link.library import Connection, Line, Route, TlsError
from rtmw.net.link.links import ssl_error
from rtmw.net.session.errors import tls_in_words
from tests.net.link.conftest import contexts
from tests.net.link.ends import PATIENCE, Ends, Wire, shake, tcp_pair, wait_until
from tests.net.link.format import ack, begin, control, drop, frame, more
from tests.net.security.site import Site

SECRET = b"the plain text of a message"


def flip(at: int, byte: int) -> Callable[[int, bytes], bytes]:
    """A wire that turns a bit of what passes."""

    def change(begin: int, data: bytes) -> bytes:
        if not begin <= at < begin + len(data):
            return data
        changed = bytearray(data)
        changed[at - begin] ^= byte
        return bytes(changed)

    return change


@pytest.mark.parametrize("fixture", ["ends", "tls_ends"])
def test_a_bit_that_is_turned_ends_the_connection_and_loses_nothing(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    ends: Ends = request.getfixturevalue(fixture)
    ends.route("all")
    ends.join(None, Wire(change=flip(40_000, 4)))
    with (
        rtmw.Publisher("all", domain=ends.here.domain, reliability=Reliability.RELIABLE) as publisher,
        rtmw.Subscriber("all", domain=ends.there.domain, reliability=Reliability.RELIABLE) as subscriber,
    ):
        ends.up()
        publisher.publish(bytes(100_000))
        assert ends.there.await_news("down")[1] == 4
        ends.join()
        assert bytes(subscriber.receive(timeout=PATIENCE).data) == bytes(100_000)


def test_plain_text_is_never_on_the_wire(tls_ends: Ends) -> None:
    wires = Wire(), Wire()
    tls_ends.route("secret/topic")
    tls_ends.join(*wires)
    with (
        rtmw.Publisher("secret/topic", domain=tls_ends.here.domain, reliability=Reliability.RELIABLE) as publisher,
        rtmw.Subscriber("secret/topic", domain=tls_ends.there.domain, reliability=Reliability.RELIABLE) as subscriber,
    ):
        for priority in (0, 7):
            publisher.publish(SECRET, priority=priority)
            assert bytes(subscriber.receive(timeout=PATIENCE).data) == SECRET
    tls_ends.here.line.say(SECRET)
    tls_ends.there.await_news("control")
    seen = [bytes(way) for wire in wires for way in wire.seen]
    assert all(len(way) > 500 for way in seen)
    assert not any(SECRET in way for way in seen)


def test_without_tls_it_is(ends: Ends) -> None:
    """So the test before can fail."""
    wire = Wire()
    ends.join(wire)
    ends.here.line.say(SECRET)
    ends.there.await_news("control")
    assert SECRET in wire.seen[0]


class Stranger:
    """The peer of a line, as bytes."""

    urgent: socket.socket
    bulk: socket.socket

    def __init__(self, line: Line) -> None:
        self.urgent, one = tcp_pair()
        self.bulk, other = tcp_pair()
        line.carry(Connection(one.fileno()), Connection(other.fileno()))
        one.close()
        other.close()

    def close(self) -> None:
        self.urgent.close()
        self.bulk.close()


IN = 5
"""The route that the stranger sends."""
VIOLATIONS = {
    "a frame that does not exist": [(0, frame(77, b""))],
    "a length that none has": [(0, b"\x03\x00\x01\x00\x00\x00\x00\x00")],
    "a length beyond the most": [(0, b"\xff\xff\x04\x80\x00\x00\x00\x00")],
    "a frame without a CRC": [(0, struct.pack("<HBBI", 8, 2, 0, 0))],
    "a frame of the hello": [(0, frame(1, b"hello"))],
    "flags that it has not": [(0, frame(2, b"", flags=1))],
    "a route that it has not": [(0, frame(2, b"", route=1))],
    "a RESUME with a body": [(0, frame(2, b"x"))],
    "a second RESUME": [(0, frame(2, b"")), (0, frame(2, b""))],
    "a route that was never opened": [(1, begin(99, 1, b"x"))],
    "a message of route 0": [(1, begin(0, 1, b"x"))],
    "a message on the other connection": [(0, begin(IN, 1, b"x"))],
    "an urgent message on the bulk connection": [(1, begin(IN, 1, b"x", priority=4))],
    "a message with a number of 0": [(1, begin(IN, 0, b"x"))],
    "a message that comes again": [(1, begin(IN, 1, b"x")), (1, begin(IN, 1, b"x"))],
    "a number that cannot be": [(1, begin(IN, 1 << 40, b"x"))],
    "a size beyond all pools": [(1, begin(IN, 1, b"x", size=1 << 50))],
    "a message shorter than its bytes": [(1, begin(IN, 1, b"xx", size=1))],
    "no byte of a message that has some": [(1, begin(IN, 1, b"", size=5))],
    "a priority that is not its band": [(1, begin(IN, 1, b"x", band=2))],
    "hops of 0": [(1, begin(IN, 1, b"x", hops=0))],
    "a pack": [(1, begin(IN, 1, b"x", version=2))],
    "a second message in the midst of one": [(1, begin(IN, 1, b"x", size=5)), (1, begin(IN, 2, b"x"))],
    "more of nothing": [(1, more(IN, b"x"))],
    "more than there is": [(1, begin(IN, 1, b"x", size=5)), (1, more(IN, b"xxxxx"))],
    "more of another route": [(1, begin(IN, 1, b"x", size=5)), (1, more(6, b"xxx"))],
    "an end of another message": [(1, begin(IN, 1, b"x", size=5)), (1, drop(IN, 2))],
    "an end of what came": [(1, begin(IN, 1, b"x")), (1, drop(IN, 1))],
    "an acknowledgement of what was not sent": [(0, ack(1, 100, [1]))],
    "an acknowledgement of no route": [(0, ack(9, 100, []))],
    "an acknowledgement on the bulk connection": [(1, ack(1, 100, []))],
    "a control out of its order": [(0, control(2, b"x"))],
    "a control on the bulk connection": [(1, control(1, b"x"))],
}


@pytest.mark.parametrize("what", VIOLATIONS)
def test_a_rule_that_is_broken_ends_the_line_in_words(ends: Ends, what: str) -> None:
    ends.route("out")
    opened = ends.here.line.inbound(IN, "in", None, 2, 0, 8, 0, "rtmw bus 1", True, 1000)
    stranger = Stranger(ends.here.line)
    for channel, data in VIOLATIONS[what]:
        (stranger.urgent, stranger.bulk)[channel].sendall(data)
    kind, code, words = ends.here.await_news("down")
    opened.close()
    stranger.close()
    assert (kind, code) == ("down", 2)
    assert len(words) > 15


def test_a_damaged_frame_is_told_apart_from_a_violation(ends: Ends) -> None:
    stranger = Stranger(ends.here.line)
    data = bytearray(frame(2, b""))
    data[-1] ^= 1
    stranger.urgent.sendall(data)
    assert ends.here.await_news("down")[1] == 4
    stranger.close()


def test_why_a_connection_has_ended_is_told_before_its_memory_is_gone() -> None:
    """In a program of its own, which gives the memory of a channel back to the kernel when it is freed."""
    test = f"{__file__}::{test_a_damaged_frame_is_told_apart_from_a_violation.__name__}"
    child = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-2000:] + child.stdout[-2000:]


@contextmanager
def full(ends: Ends, window: int) -> Generator[tuple[Stranger, Route]]:
    """A stranger whose route IN leads to a RELIABLE subscriber that has one message, and takes no other."""
    opened = ends.here.line.inbound(IN, "in", None, 2, 0, 8, 0, "rtmw bus 1", True, window)
    stranger = Stranger(ends.here.line)
    reliable = Reliability.RELIABLE
    with rtmw.Subscriber("in", domain=ends.here.domain, reliability=reliable, depth=1, lease=PATIENCE):
        yield stranger, opened
        stranger.close()
        opened.close()


def test_a_peer_that_sends_beyond_its_room_does_not_fill_the_memory(ends: Ends) -> None:
    with full(ends, 10_000) as (stranger, _), suppress(OSError):
        for number in range(1, 1000):
            stranger.bulk.sendall(begin(IN, number, bytes(1_000)))
    assert ends.here.await_news("down")[1:] == (2, b"more messages of a route than it has room for")


def test_the_last_message_within_the_room_may_be_large_and_come_first(ends: Ends) -> None:
    with full(ends, 10_000) as (stranger, opened):
        stranger.urgent.sendall(begin(IN, 1, b"", 0, 7) + begin(IN, 2, bytes(15_000), priority=7) + control(1, b"1"))
        ends.here.await_news("control")
        stranger.bulk.sendall(b"".join(begin(IN, number, bytes(1_000)) for number in range(1, 10)))
        wait_until(lambda: opened.counters()["received"] + opened.counters()["delayed"] == 11)
    assert ends.here.line.info()["resumes"] == 1
    assert not [one for one in ends.here.look() if one[0] == "down" and one[1] == 2]


def test_frames_of_a_route_that_was_closed_are_passed_over(ends: Ends) -> None:
    closed = ends.here.line.inbound(3, "in", None, 2, 0, 8, 0, "rtmw bus 1", True, 1000)
    closed.close()
    stranger = Stranger(ends.here.line)
    stranger.urgent.sendall(frame(2, b"") + control(1, b"before"))
    for data in (begin(3, 1, b"x"), begin(2, 1, b"x", size=5), more(2, b"xxxx"), drop(3, 2)):
        stranger.bulk.sendall(data)
    assert ends.here.await_news("control")[2] == b"before"
    stranger.urgent.sendall(control(2, b"after"))
    assert ends.here.await_news("control", 2)[2] == b"after"
    assert not [one for one in ends.here.news if one[0] == "down"]
    stranger.close()


def test_a_silent_peer_is_left(ends: Ends) -> None:
    ends.here.line.lease(200_000_000)
    stranger = Stranger(ends.here.line)
    assert ends.here.await_news("down")[1] == 3
    stranger.close()


def test_two_ends_that_say_nothing_stay_together(ends: Ends) -> None:
    for end in (ends.here, ends.there):
        end.line.lease(300_000_000)
    ends.join()
    ends.up()
    with rtmw.Subscriber("clock", domain=ends.here.domain) as nothing, pytest.raises(TimeoutError):
        nothing.receive(timeout=1.0)
    assert not [one for one in ends.here.look() + ends.there.look() if one[0] == "down"]
    assert ends.here.line.info()["rtt_ns"] > 0


# ---- before a line ----


Sockets = tuple[socket.socket, socket.socket]


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    """A connection on loopback."""
    both = tcp_pair()
    yield both
    for end in both:
        end.close()


def said(connection: Connection) -> list[bytes]:
    """What comes next of a connection that no line has yet."""
    heard: list[bytes] = []
    wait_until(lambda: heard.__iadd__(connection.heard() or []))
    return heard


def test_a_hello_crosses_before_a_line_takes_over(tls_ends: Ends, sockets: Sockets) -> None:
    assert tls_ends.here.contexts
    assert tls_ends.there.contexts
    one, other = sockets
    here = Connection(one.fileno(), tls_ends.here.contexts[0])
    there = Connection(other.fileno(), tls_ends.there.contexts[1])
    shake(here, there)
    assert here.peer
    assert there.peer
    assert here.peer != there.peer
    assert here.cipher.startswith("TLS_")
    here.say(b"hello")
    here.say(b"and more")
    assert b"".join(said(there)).startswith(b"hello")
    there.say(bytes(16_000))
    assert said(here) == [bytes(16_000)]
    there.close()
    assert there.fileno() == -1


def test_a_frame_of_a_line_before_the_hello_is_refused(sockets: Sockets) -> None:
    one, other = sockets
    connection = Connection(one.fileno())
    other.sendall(frame(2, b""))
    with pytest.raises(RtmwError, match="before the peer has said who it is"):
        wait_until(connection.heard)


def test_what_is_no_frame_is_refused_in_words(sockets: Sockets) -> None:
    one, other = sockets
    connection = Connection(one.fileno())
    other.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(RtmwError, match="frame"):
        wait_until(connection.heard)


def test_a_peer_of_another_authority_is_refused_with_the_reason(tmp_path: Path, sockets: Sockets) -> None:
    here = contexts(Site(tmp_path / "one").keys("rtmw://plant/hub"))
    there = contexts(Site(tmp_path / "two").keys("rtmw://plant/press"))
    one, other = sockets
    with pytest.raises(TlsError) as error:
        shake(Connection(one.fileno(), here[0]), Connection(other.fileno(), there[1]))
    found = ssl_error(error.value)
    assert isinstance(found, ssl.SSLCertVerificationError)
    assert tls_in_words(found)[0] == "unknown authority"


def test_a_peer_without_a_certificate_is_refused_at_both_ends(tmp_path: Path, sockets: Sockets) -> None:
    """Python's own TLS is the peer, and has no keys."""
    here = contexts(Site(tmp_path).keys("rtmw://plant/hub"))
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    connection = Connection(sockets[0].fileno(), here[1])
    client = threading.Thread(target=lambda: drain(bare, sockets[1]))
    client.start()
    with pytest.raises(TlsError) as error:
        wait_until(lambda: connection.handshake() == "done")
    connection.close()
    sockets[0].close()
    client.join()
    assert tls_in_words(ssl_error(error.value))[0] == "no certificate"


def drain(context: ssl.SSLContext, end: socket.socket) -> None:
    with suppress(OSError), context.wrap_socket(end.dup()) as wrapped:
        wrapped.recv(1)


def test_tls_before_1_3_is_refused(tmp_path: Path, sockets: Sockets) -> None:
    here = contexts(Site(tmp_path).keys("rtmw://plant/hub"))
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    connection = Connection(sockets[0].fileno(), here[1])
    client = threading.Thread(target=lambda: drain(old, sockets[1]))
    client.start()
    with pytest.raises(TlsError) as error:
        wait_until(lambda: connection.handshake() == "done")
    connection.close()
    sockets[0].close()
    client.join()
    assert tls_in_words(ssl_error(error.value))[0] == "no TLS 1.3"


def test_a_dead_connection_is_an_error_and_no_signal(sockets: Sockets) -> None:
    one, other = sockets
    connection = Connection(one.fileno())
    other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    other.close()
    with pytest.raises(OSError, match=r"reset|pipe"):
        wait_until(lambda: connection.say(b"x"))
