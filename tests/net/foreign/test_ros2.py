"""`ros2 = true`: topics and types are called as ROS 2 calls them, so that its programs are peers. Plain programs of
cyclonedds and Fast DDS, with which ROS 2 is delivered, stand for such."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import final
from cyclonedds.idl.types import float64

import rtmw
from rtmw import Reliability
from tests.conftest import free_number
from tests.net.foreign.peer import Peer
from tests.net.hosts import PATIENCE, Host


@final
@dataclass
class String(IdlStruct, typename="std_msgs.msg.String"):
    data: str


@final
@dataclass
class Vector3(IdlStruct, typename="geometry_msgs.msg.Vector3"):
    x: float64
    y: float64
    z: float64


@final
@dataclass
class Twist(IdlStruct, typename="geometry_msgs.msg.Twist"):
    linear: Vector3
    angular: Vector3


TWIST = Twist(Vector3(1.0, 2.0, 3.0), Vector3(4.0, 5.0, 6.0))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host whose node names things as ROS 2 does."""
    alone = Host(free_number(), free_number(), tmp_path_factory.mktemp("host"))
    alone.start("--ros2")
    yield alone
    alone.end()


def as_ros2(message: Any, compiled: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same message of the type that ROS 2 would have."""
    monkeypatch.syspath_prepend(str(compiled))
    if isinstance(message, String):
        return importlib.import_module("std_msgs.msg.dds_").String_(message.data)
    there: Any = importlib.import_module("geometry_msgs.msg.dds_")
    return there.Twist_(*(there.Vector3_(part.x, part.y, part.z) for part in (message.linear, message.angular)))


@pytest.mark.parametrize("message", [String("hello ü"), TWIST], ids=["String", "Twist"])
def test_a_ros2_program_reads_what_rtmw_publishes(
    host: Host, peer: Peer, topic: str, message: Any, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = as_ros2(message, compiled, monkeypatch)
    peer.open("reader", f"rt/{topic}", type(theirs))
    with rtmw.Publisher(topic, type(message), domain=host.domain, reliability=Reliability.RELIABLE) as publisher:
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        assert peer.next(f"rt/{topic}", "matched") == "1"
        publisher.publish(message)
        assert peer.next(f"rt/{topic}", "sample") == peer.value(theirs)


def test_a_str_is_the_string_of_ros_both_ways(
    host: Host, peer: Peer, topic: str, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = as_ros2(String("hello ü"), compiled, monkeypatch)
    there, back = f"rt/{topic}", f"rt/{topic}/back"
    peer.open("reader", there, type(theirs))
    with rtmw.Publisher(topic, str, domain=host.domain, reliability=Reliability.RELIABLE) as publisher:
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        assert peer.next(there, "matched") == "1"
        publisher.publish("hello ü")
        assert peer.next(there, "sample") == peer.value(theirs)
    peer.open("writer", back, type(theirs))
    with rtmw.Subscriber(f"{topic}/back", str, domain=host.domain, reliability=Reliability.RELIABLE) as subscriber:
        assert peer.next(back, "matched") == "1"
        peer.write(back, theirs)
        assert subscriber.receive(timeout=PATIENCE).value == "hello ü"


@pytest.mark.parametrize("message", [String("hello ü"), TWIST], ids=["String", "Twist"])
@pytest.mark.parametrize("known", [True, False], ids=["known type", "any type"])
def test_rtmw_receives_what_a_ros2_program_writes(
    host: Host, peer: Peer, topic: str, message: Any, known: bool, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if peer.vendor == "fastdds" and not known:
        pytest.skip("Fast DDS 2.9 does not describe its types")
    theirs = as_ros2(message, compiled, monkeypatch)
    peer.open("writer", f"rt/{topic}", type(theirs))
    kind: Any = type(message) if known else rtmw.ANY
    with rtmw.Subscriber(topic, kind, domain=host.domain, reliability=Reliability.RELIABLE) as subscriber:
        assert peer.next(f"rt/{topic}", "matched") == "1"
        peer.write(f"rt/{topic}", theirs)
        sample = subscriber.receive(timeout=PATIENCE)
        assert sample.type_name == str(type(message).__idl_typename__)
        assert type(message).deserialize(bytes(sample.data)) == message
