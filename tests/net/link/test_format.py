"""The page on the bytes of links, the golden files, and what C reads and writes, say the same."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.link.library import Connection
from tests.net.link.ends import PATIENCE, Ends, Wire, tcp_pair, wait_until
from tests.net.link.format import crc32c
from tests.net.link.make_golden import BEFORE, BULK, GOLDEN, TWIN, URGENT
from tests.page import Page

PAGE = Page(Path(__file__).parents[3] / "docs" / "formats" / "link-format.md")
NAMES = {int(kind): name for kind, name in re.findall(r"^\| (\d+) \| ([A-Z]+) \|", PAGE.path.read_text(), re.MULTILINE)}


def frames_of(data: bytes) -> Iterator[tuple[str, int, int, bytes]]:
    """Kind, flags, route and body, read as the page says; the last frame may be cut off."""
    while len(data) >= 8:
        length = PAGE.field(data, "Frame", "length")
        if len(data) < length:
            return
        flags, one = PAGE.field(data, "Frame", "flags"), data[:length]
        assert flags & 0x80
        assert struct.unpack("<I", one[-4:])[0] == crc32c(one[:-4])
        yield NAMES[PAGE.field(data, "Frame", "kind")], flags & 7, PAGE.field(data, "Frame", "route"), one[8:-4]
        data = data[length:]


@pytest.mark.parametrize(("name", "frames"), [("before", BEFORE), ("urgent", URGENT), ("bulk", BULK), ("twin", TWIN)])
def test_golden_files_are_what_the_page_says(name: str, frames: tuple[bytes, ...]) -> None:
    data = (GOLDEN / name).read_bytes()
    assert data == b"".join(frames)
    assert len(list(frames_of(data))) == len(frames)


def test_a_line_reads_the_golden_files(ends: Ends) -> None:
    _, inbound = ends.route("golden", back=True)
    (urgent, one), (bulk, other), (twin, third) = tcp_pair(), tcp_pair(), tcp_pair()
    first = Connection(one.fileno())
    urgent.sendall((GOLDEN / "before").read_bytes())
    heard: list[bytes] = []
    wait_until(lambda: heard.__iadd__(first.heard() or []))
    assert heard == [b"hello"]
    with rtmw.Subscriber("golden", domain=ends.here.domain, reliability=Reliability.RELIABLE) as subscriber:
        ends.here.line.carry(first, Connection(other.fileno()))
        bulk.sendall((GOLDEN / "bulk").read_bytes())
        wait_until(lambda: inbound.counters()["received"] == 2)
        ends.here.line.twin(Connection(third.fileno()))
        twin.sendall((GOLDEN / "twin").read_bytes())
        wait_until(lambda: inbound.counters()["received"] == 3)
        urgent.sendall((GOLDEN / "urgent").read_bytes())
        samples = [subscriber.receive(timeout=PATIENCE) for _ in range(5)]
        got = sorted((sample.priority, bytes(sample.data)) for sample in samples)
    assert got == [(0, b""), (0, b"two were lost before"), (5, b"in parts."), (6, b"an alarm"), (6, b"overtakes")]
    ends.here.await_news("down")
    assert ends.here.news == [
        ("up", 0, b""), ("control", 0, b"a control"), ("down", 5, b"the peer says: the end")
    ]  # fmt: skip
    counters = inbound.counters()
    assert (counters["lost"], counters["expired"]) == (3, 1)  # band 0: 1 and 2; band 5: 1
    for end in (urgent, one, bulk, other, twin, third):
        end.close()


def test_a_line_writes_what_the_page_says(ends: Ends) -> None:
    urgent, bulk, twin = Wire(), Wire(), Wire()
    ends.route("written")
    ends.here.line.say(b"a control")
    ends.join(urgent, bulk)
    ends.twin(twin)
    with (
        rtmw.Publisher("written", domain=ends.here.domain, reliability=Reliability.RELIABLE) as publisher,
        rtmw.Subscriber("written", domain=ends.there.domain, reliability=Reliability.RELIABLE) as subscriber,
    ):
        publisher.publish(b"urgent", priority=7)
        publisher.publish(bytes(40_000), priority=2, lifetime=60.0)
        samples = sorted((subscriber.receive(timeout=PATIENCE) for _ in range(2)), key=lambda one: -one.priority)
    wait_until(ends.routes[0].delivered)
    forth, back = list(frames_of(bytes(urgent.seen[0]))), list(frames_of(bytes(urgent.seen[1])))
    assert [kind for kind, *_ in forth if kind not in ("PING", "PONG")] == ["ACK", "RESUME", "CONTROL", "BEGIN"]
    assert [body for kind, _, _, body in forth if kind == "CONTROL"] == [struct.pack("<Q", 1) + b"a control"]
    (alarm,) = (one for one in forth if one[0] == "BEGIN")
    assert alarm[1:3] == (7, 1)
    wait_until(lambda: sum(ends.there.line.info()[name] for name in ("copies_first", "copies_passed_over")) == 1)
    assert list(frames_of(bytes(twin.seen[0]))) == [alarm]
    assert twin.seen[1] == b""
    assert alarm[3][64:] == b"urgent"
    check_begin(alarm[3], samples[0], 6)
    chunks = [one for one in frames_of(bytes(bulk.seen[0])) if one[0] not in ("PING", "PONG")]
    assert [(kind, band, route) for kind, band, route, _ in chunks] == [("BEGIN", 2, 1), *[("MORE", 2, 1)] * 2]
    assert chunks[0][3][64:] + chunks[1][3] + chunks[2][3] == bytes(40_000)
    check_begin(chunks[0][3], samples[1], 40_000)
    last = [body for kind, _, route, body in back if kind == "ACK" and route == 1][-1]
    assert PAGE.field(last, "ACK", "room") == 1 << 20
    assert struct.unpack("<8Q", last[8:]) == (0, 0, 1, 0, 0, 0, 0, 1)


def check_begin(body: bytes, sample: rtmw.Sample[bytes], size: int) -> None:
    assert PAGE.field(body, "BEGIN", "size") == size
    assert PAGE.field(body, "BEGIN", "source time") == sample.source_time_ns
    assert PAGE.field(body, "BEGIN", "site") == 0
    assert PAGE.field(body, "BEGIN", "hops") == 1
    assert PAGE.field(body, "BEGIN", "zero") == 0
    magic, version, priority, padding, messages, _, number, lifetime = struct.unpack("<IBBBBQQQ", body[32:64])
    assert (magic, version, priority, padding, messages, number) == (0x776D7472, 1, sample.priority, 0, 0, 1)
    assert (lifetime > 0) == (sample.expires_ns is not None)
