"""Messages of every type reach programs of other vendors' DDS, and theirs reach us, member by member."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import rtmw
from tests.net.foreign.peer import Peer
from tests.net.hosts import PATIENCE, Host
from topics.airport import DelayAlarm, Direction, Movement
from topics.river import Alarm, Parameter, Quality, Reading, Station
from topics.telemetry import Alarm as HostAlarm
from topics.telemetry import Cpu, Disk, Memory, Network, Process, Severity

RELIABLE = rtmw.Reliability.RELIABLE

MESSAGES: list[Any] = [
    Cpu("host ü", 12.5, 7.25, 5.25, [0.0, 100.0, 0.5], 1.1, 2**63 + 5),
    Cpu("", 0.0, 0.0, 0.0, [], -0.0, 0),
    Memory("a", 2**40, 1, 2, 3, 4, 2**64 - 1),
    Disk("a", "sda", 1, 2, 3, 4, 5),
    Network("a", "eth0", 1, 2, 3, 4, 5, 6),
    Process("a", -1, "python -c 'print(\"x\\y\")'", "S", 1e-300, 3.5, 5, 6),
    HostAlarm("a", "cpu", Severity.CRITICAL, "too hot\n".strip(), 99.5, 90.0),
    Station("s1", "Weir", "Danube", 48.2, -16.3, 1930.5),
    Parameter("O2", "oxygen", "mg/l", "optical", 4.0, 20.0),
    Reading("s1", "O2", 7.1, Quality.UNCERTAIN, -(2**63)),
    Alarm("s1", "O2", False, 3.9, 4.0, 2**63 - 1, "low oxygen"),
    Movement("VIE", Direction.ARRIVAL, "JFK", "OS", 88, "OE-LPA", 1, 2, 3.5, 500.25, 4228, True),
    DelayAlarm("VIE", "OS", 88, Direction.DEPARTURE, 45.5, False),
]


def everything() -> Any:
    kinds: Any = importlib.import_module("kinds")
    points = [kinds.Point(float(n), -float(n)) for n in range(3)]
    return kinds.Everything(
        id=2**32 - 1, name="n", flag=True, raw=255, letter="x", small=-(2**15), small_positive=2**16 - 1,
        middle=-(2**31), middle_positive=2**32 - 1, large=-(2**63), large_positive=2**64 - 1, single=0.5, real=1e308,
        short_text="twelve chars", hue=kinds.Colour.BLUE, chosen=kinds.Choice(text="chosen"), place=points[1],
        corners=points, grid=[[1, 2, 3], [4, 5, 6]], octets=[0, 255, 7], words=["", "one", "two words"],
        path=points[:2], few=[1, 2, 3, 4, 5], flags=[True, False, True], hues=[kinds.Colour.RED, kinds.Colour.GREEN],
    )  # fmt: skip


def fixed_size() -> Any:
    kinds: Any = importlib.import_module("kinds")
    return kinds.Measured(7, -0.5, [1, 2, 3])


def lone() -> Any:
    kinds: Any = importlib.import_module("kinds")
    return kinds.Lone(255)


def bounded() -> Any:
    """As long as its bounds let it be."""
    kinds: Any = importlib.import_module("kinds")
    return kinds.Bounded("twelve chars", [1, 2, 3, 4, 5], True)


@pytest.fixture(
    params=[*MESSAGES, everything, fixed_size, lone, bounded],
    ids=lambda given: getattr(given, "__name__", type(given).__name__),
)
def message(request: pytest.FixtureRequest, compiled: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(compiled))
    return request.param() if callable(request.param) else request.param


def test_a_foreign_program_reads_each_type_of_rtmw(host: Host, peer: Peer, topic: str, message: Any) -> None:
    peer.open("reader", topic, type(message))
    with rtmw.Publisher(topic, type(message), domain=host.domain, reliability=RELIABLE) as publisher:
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        assert peer.next(topic, "matched") == "1"
        publisher.publish(message)
        assert peer.next(topic, "sample") == peer.value(message)


def test_rtmw_reads_each_type_of_a_foreign_program(host: Host, peer: Peer, topic: str, message: Any) -> None:
    peer.open("writer", topic, type(message))
    with rtmw.Subscriber(topic, type(message), domain=host.domain, reliability=RELIABLE) as subscriber:
        assert peer.next(topic, "matched") == "1"
        peer.write(topic, message)
        assert subscriber.receive(timeout=PATIENCE).value == message


@dataclass
class Track:
    """`kinds::Track` as a program writes it that has no IDL."""

    __idl_typename__ = "kinds.Track"
    id: rtmw.uint32
    name: str
    hue: Hue
    path: list[Spot]
    raw: bytes
    steps: list[rtmw.int16]


@dataclass
class Spot:
    __idl_typename__ = "kinds.Point"
    x: float
    y: float


class Hue(Enum):
    __idl_typename__ = "kinds.Colour"
    RED = 0
    GREEN = 1
    BLUE = 2


def test_a_plain_dataclass_is_read_and_written_by_foreign_programs(
    host: Host, peer: Peer, topic: str, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(compiled))
    kinds: Any = importlib.import_module("kinds")
    mine = Track(5, "ü", Hue.BLUE, [Spot(0.5, -1.0)], b"\0\xff", [1, -2])
    theirs = kinds.Track(5, "ü", kinds.Colour.BLUE, [kinds.Point(0.5, -1.0)], [0, 255], [1, -2])
    peer.open("reader", topic, type(theirs))
    with rtmw.Publisher(topic, Track, domain=host.domain, reliability=RELIABLE) as publisher:
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        assert peer.next(topic, "matched") == "1"
        publisher.publish(mine)
        assert peer.next(topic, "sample") == peer.value(theirs)
    back = f"{topic}/back"
    peer.open("writer", back, type(theirs))
    with rtmw.Subscriber(back, Track, domain=host.domain, reliability=RELIABLE) as subscriber:
        assert peer.next(back, "matched") == "1"
        peer.write(back, theirs)
        assert subscriber.receive(timeout=PATIENCE).value == mine


@pytest.mark.parametrize("message", ["Perhaps", "Perhaps of nothing", "Grown"])
def test_optional_members_and_types_that_may_grow_cross_where_the_other_side_knows_them(
    host: Host, peer: Peer, topic: str, message: str, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if peer.vendor == "fastdds":
        pytest.skip("Fast DDS 2.9 has no code for optional members, and none for appendable types")
    monkeypatch.syspath_prepend(str(compiled))
    growing: Any = importlib.import_module("growing")
    value = {
        "Perhaps": growing.Perhaps("n", 5, "text", [0.5, 1.5], 2.5),
        "Perhaps of nothing": growing.Perhaps("n", None, None, None, 2.5),
        "Grown": growing.Grown(7, "text", [1, -2, 3]),
    }[message]
    peer.open("reader", topic, type(value))
    with rtmw.Publisher(topic, type(value), domain=host.domain, reliability=RELIABLE) as publisher:
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        assert peer.next(topic, "matched") == "1"
        publisher.publish(value)
        assert peer.next(topic, "sample") == peer.value(value)
    back = f"{topic}/back"
    peer.open("writer", back, type(value))
    with rtmw.Subscriber(back, type(value), domain=host.domain, reliability=RELIABLE) as subscriber:
        assert peer.next(back, "matched") == "1"
        peer.write(back, value)
        assert subscriber.receive(timeout=PATIENCE).value == value


def test_a_type_that_nobody_here_knows_is_looked_up(host: Host, peer: Peer, topic: str) -> None:
    if peer.vendor == "fastdds":
        pytest.skip("Fast DDS 2.9 does not describe its types")
    with rtmw.Subscriber(topic, rtmw.ANY, domain=host.domain, reliability=RELIABLE) as subscriber:
        peer.open("writer", topic, Reading)
        assert peer.next(topic, "matched") == "1"
        peer.write(topic, Reading("s1", "pH", 7.5, Quality.BAD, 1))
        value = subscriber.receive(timeout=PATIENCE).value
        assert (value.station, value.value, value.quality.name) == ("s1", 7.5, "BAD")
