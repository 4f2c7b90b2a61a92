"""The twin of a line: an alarm whose packet is late comes in time by its copy, and nothing depends on the copy."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.link.library import Connection, Route
from tests.net.link.ends import PATIENCE, Ends, Wire, tcp_pair, wait_until
from tests.net.link.format import CHECKED, ack, begin, drop, frame, more

RELIABLE = Reliability.RELIABLE
ALARM = 7


class HeldUp(Wire):
    """Passes nothing on from here to there while it is shut, as TCP does not behind a packet that was lost."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        super().__init__(change=self._wait)

    def _wait(self, _: int, data: bytes) -> bytes:
        self.open.wait(PATIENCE)
        return data

    def close(self) -> None:
        self.open.set()
        super().close()


def info(ends: Ends, name: str) -> tuple[int, int]:
    return ends.here.line.info()[name], ends.there.line.info()[name]


@contextmanager
def beside_a_twin_that_nobody_reads(ends: Ends) -> Generator[tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]]]:
    """Both ends of a topic of alarms."""
    twin = HeldUp()
    ends.route("alarm")
    ends.join()
    ends.up()
    ends.twin(twin)
    twin.open.clear()
    with (
        rtmw.Publisher("alarm", domain=ends.here.domain, reliability=RELIABLE, priority=ALARM) as out,
        rtmw.Subscriber("alarm", domain=ends.there.domain, reliability=RELIABLE) as into,
    ):
        yield out, into


# Proves G226.
def test_an_alarm_that_is_held_up_comes_by_its_copy_and_each_comes_once(ends: Ends) -> None:
    urgent = HeldUp()
    outbound, inbound = ends.route("alarm")
    ends.join(urgent)
    ends.up()
    ends.twin()
    with (
        rtmw.Publisher("alarm", domain=ends.here.domain, reliability=RELIABLE, priority=ALARM) as out,
        rtmw.Subscriber("alarm", domain=ends.there.domain, reliability=RELIABLE) as into,
    ):
        for number in range(40):
            if number == 20:
                urgent.open.clear()
            out.publish(b"%d" % number)
            assert into.receive(timeout=PATIENCE).value == b"%d" % number
        assert info(ends, "copies_first")[1] >= 20
        urgent.open.set()
        wait_until(outbound.delivered)
        assert inbound.counters()["received"] == 40
        assert inbound.counters()["lost"] == 0
    assert outbound.counters()["resent"] == 0


@pytest.mark.parametrize("kind", ["ends", "tls_ends"])
def test_twins_that_come_and_go_lose_nothing_and_bring_nothing_twice(kind: str, request: pytest.FixtureRequest) -> None:
    ends: Ends = request.getfixturevalue(kind)
    ends.route("alarm")
    ends.join()
    ends.up()
    with (
        rtmw.Publisher("alarm", domain=ends.here.domain, reliability=RELIABLE, priority=ALARM) as out,
        rtmw.Subscriber("alarm", domain=ends.there.domain, reliability=RELIABLE, depth=64) as into,
    ):
        for number in range(300):
            if number % 30 == 0:
                ends.twin()
            out.publish(b"%d" % number, priority=4 + number % 4)
            assert into.receive(timeout=PATIENCE).value == b"%d" % number
    assert [5 <= twins <= 10 for twins in info(ends, "twins")] == [True, True], "the next one may come first"
    assert info(ends, "copies")[0] > 150, "most, if not one whose twin was just being taken in"
    assert info(ends, "resumes") == (1, 1)


def test_of_large_messages_and_of_those_that_are_not_urgent_there_are_no_copies(ends: Ends) -> None:
    outbound, _ = ends.route("a")
    ends.join()
    ends.up()
    ends.twin()
    with (
        rtmw.Publisher("a", domain=ends.here.domain, reliability=RELIABLE) as out,
        rtmw.Subscriber("a", domain=ends.there.domain, reliability=RELIABLE) as into,
    ):
        for size, priority in ((20_000, ALARM), (10, 3), (20_000, 0), (10, 4)):
            out.publish(bytes(size), priority=priority)
            assert len(into.receive(timeout=PATIENCE).data) == size
    wait_until(outbound.delivered)
    assert info(ends, "twin") == (1, 1)
    assert info(ends, "copies") == (1, 0)
    assert info(ends, "copies_left_out") == (0, 0)


# Proves G226.
def test_a_twin_that_nobody_reads_holds_nothing_up_and_copies_are_left_out(ends: Ends) -> None:
    with beside_a_twin_that_nobody_reads(ends) as (out, into):

        def is_full() -> bool:
            out.publish(bytes(15_000))
            assert into.receive(timeout=PATIENCE)
            return info(ends, "copies_left_out")[0] > 10

        wait_until(is_full)
    assert info(ends, "twin") == (1, 1)


def test_bytes_of_a_twin_that_has_ended_stay_in_the_counters_of_the_line(ends: Ends) -> None:
    ends.route("alarm")
    ends.join()
    ends.up()
    with (
        rtmw.Publisher("alarm", domain=ends.here.domain, reliability=RELIABLE, priority=ALARM) as out,
        rtmw.Subscriber("alarm", domain=ends.there.domain, reliability=RELIABLE) as into,
    ):
        ends.twin()
        for _ in range(8):
            out.publish(bytes(10_000))
            assert into.receive(timeout=PATIENCE)
        wait_until(lambda: sum(info(ends, name)[1] for name in ("copies_first", "copies_passed_over")) == 8)
        # A copy is counted at its head, and its body may still be on the way.
        wait_until(lambda: min(info(ends, "sent")[0], info(ends, "received")[1]) > 160_000)
        ends.twin()
        wait_until(lambda: info(ends, "twins") == (2, 2))
        assert min(info(ends, "sent")[0], info(ends, "received")[1]) > 160_000
    ends.join()
    ends.up(2)
    assert info(ends, "sent")[0] < 80_000, "they begin anew with the connections"


def test_a_line_that_has_no_connections_closes_a_twin_that_it_is_given(ends: Ends) -> None:
    one, other = tcp_pair()
    with one, other:
        ends.here.line.twin(Connection(one.fileno()))
        one.close()
        other.settimeout(PATIENCE)
        assert other.recv(1) == b""
    assert info(ends, "twins") == (0, 0)


@pytest.mark.parametrize("later", [0, 8 << 20])
def test_copies_that_used_up_the_share_of_a_low_rate_do_not_count_for_long_at_a_higher_one(
    ends: Ends, later: int
) -> None:
    ends.route("alarm")
    ends.join()
    ends.up()
    ends.twin()
    with (
        rtmw.Publisher("alarm", domain=ends.here.domain, reliability=RELIABLE, priority=ALARM) as out,
        rtmw.Subscriber("alarm", domain=ends.there.domain, reliability=RELIABLE) as into,
    ):
        ends.here.line.limit(8192)
        for left_out in (0, 1):
            out.publish(bytes(4000))
            assert into.receive(timeout=PATIENCE)
            assert info(ends, "copies_left_out")[0] == left_out
        ends.here.line.limit(later)
        time.sleep(0.1)
        out.publish(b"alarm")
        assert into.receive(timeout=PATIENCE)
        assert info(ends, "copies")[0] == 2


def switches() -> int:
    """How often threads of this process have gone to sleep."""
    texts = (path.read_text() for path in Path("/proc/self/task").glob("*/status"))
    return sum(int(text.split("voluntary_ctxt_switches:")[1].split()[0]) for text in texts)


def test_a_twin_that_has_nothing_to_send_wakes_nobody(ends: Ends) -> None:
    with beside_a_twin_that_nobody_reads(ends) as (out, into):
        full = ends.here.line.info()["queued"]
        while full < 8192:  # what the kernel has and cannot send is more than may lie there at such a rate
            out.publish(bytes(15_000))
            assert into.receive(timeout=PATIENCE)
            full = ends.here.line.info()["queued"]
        ends.here.line.limit(1 << 20)
        time.sleep(0.1)
        before = switches()
        time.sleep(0.5)
        assert switches() - before < 250


# ---- a peer, byte by byte ----


@pytest.fixture
def raw(ends: Ends) -> Iterator[tuple[socket.socket, socket.socket, Route]]:
    """The peer's ends of the urgent connection and of the twin, and the route into here that they carry."""
    _, inbound = ends.route("a", back=True)
    pairs = [tcp_pair() for _ in range(3)]
    urgent, bulk, twin = (Connection(one.fileno()) for _, one in pairs)
    ends.here.line.carry(urgent, bulk)
    pairs[0][0].sendall(ack(0, 256, []) + frame(2, b""))
    ends.here.await_news("up")
    ends.here.line.twin(twin)
    wait_until(lambda: ends.here.line.info()["twin"])
    yield pairs[0][0], pairs[2][0], inbound
    assert [one for one in ends.here.look() if one[0] == "down"] == []
    for pair in pairs:
        for one in pair:
            one.close()


def passed_over(ends: Ends, count: int) -> None:
    wait_until(lambda: ends.here.line.info()["copies_passed_over"] == count)


def test_a_copy_is_passed_over_whose_message_is_here_in_part_or_that_is_not_the_next_one(
    ends: Ends, raw: tuple[socket.socket, socket.socket, Route]
) -> None:
    urgent, twin, inbound = raw
    with rtmw.Subscriber("a", domain=ends.here.domain, reliability=RELIABLE) as into:
        urgent.sendall(begin(1, 1, b"in ", size=8, priority=5) + begin(1, 1, b"whole", priority=6))
        assert into.receive(timeout=PATIENCE).value == b"whole"  # so the part is here, too
        twin.sendall(begin(1, 1, b"in parts", priority=5) + begin(1, 3, b"later", priority=6))
        passed_over(ends, 2)
        urgent.sendall(more(1, b"parts", 5) + begin(1, 2, b"next", priority=6))
        got = sorted(bytes(into.receive(timeout=PATIENCE).data) for _ in range(2))
    assert got == [b"in parts", b"next"]
    assert inbound.counters()["received"] == 3


def test_what_the_twin_has_brought_may_come_in_parts_or_be_dropped(
    ends: Ends, raw: tuple[socket.socket, socket.socket, Route]
) -> None:
    """As after a cut of the line, when the twin has brought what an earlier connection of the peer had sent."""
    urgent, twin, inbound = raw
    with rtmw.Subscriber("a", domain=ends.here.domain, reliability=RELIABLE) as into:
        for number, data in ((1, b"in parts"), (2, b"dropped"), (3, b"dropped in part")):
            twin.sendall(begin(1, number, data, priority=5))
            assert into.receive(timeout=PATIENCE).value == data
        urgent.sendall(begin(1, 1, b"in ", size=8, priority=5) + more(1, b"parts", 5) + drop(1, 2, 5))
        urgent.sendall(begin(1, 3, b"dr", size=8, priority=5) + drop(1, 3, 5) + begin(1, 4, b"last", priority=5))
        assert into.receive(timeout=PATIENCE).value == b"last"
    assert (inbound.counters()["received"], inbound.counters()["expired"]) == (4, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        begin(1, 1, b"of a band that is not urgent", priority=3),
        begin(1, 1, b"in ", size=8, priority=5),
        drop(1, 1, 5),
        ack(0, 256, []),
        struct.pack("<HBBI", 12, 2, CHECKED, 0) + bytes(4),
    ],
    ids=["bulk", "a part", "drop", "ack", "damaged"],
)
# Proves G226.
def test_what_no_twin_carries_ends_the_twin_alone(
    ends: Ends, raw: tuple[socket.socket, socket.socket, Route], wrong: bytes
) -> None:
    urgent, twin, _ = raw
    twin.sendall(wrong)
    wait_until(lambda: not ends.here.line.info()["twin"])
    with rtmw.Subscriber("a", domain=ends.here.domain, reliability=RELIABLE) as into:
        urgent.sendall(begin(1, 1, b"goes on", priority=5))
        assert into.receive(timeout=PATIENCE).value == b"goes on"
