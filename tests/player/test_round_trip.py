"""From the bus into a recording and back: what was published is published again, as it was."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct, types

import rtmw

pytestmark = pytest.mark.usefixtures("domain")

RELIABLE = rtmw.Reliability.RELIABLE


@dataclass
class Speed(IdlStruct, typename="plant.Speed"):
    pump: types.int32
    rpm: types.float64
    remark: str


def taken(subscriber: rtmw.Subscriber[Any]) -> list[Any]:
    """Value, priority, source time, and whether it has a lifetime, of all that came."""
    return [(s.value, s.priority, s.source_time_ns, s.expires_ns is None) for s in iter(subscriber.take, None)]


def test_messages_come_back_with_their_value_priority_and_source_time(tmp_path: Path) -> None:
    with (
        rtmw.Subscriber("speed", Speed, depth=1000) as live,
        rtmw.Publisher("speed", Speed, priority=2, lifetime=3600.0, reliability=RELIABLE, depth=1000) as publisher,
        rtmw.Recorder("speed", tmp_path / "run"),
    ):
        for number in range(300):
            publisher.publish(Speed(number, number / 3, "x" * (number % 200)), priority=number % 3)
        first = taken(live)
    with (
        rtmw.Subscriber("speed", Speed, depth=1000, reliability=RELIABLE) as again,
        rtmw.Replay(tmp_path / "run", rate=None) as replay,
    ):
        stats = replay.run()
        second = taken(again)
    assert stats.topics["speed"].published == 300
    assert len(first) == 300
    assert second == first


def test_arrays_and_bytes_of_any_size_come_back(tmp_path: Path) -> None:
    image = np.arange(300_000, dtype="u2")
    with (
        rtmw.Publisher("image", np.dtype("u2"), history=1) as images,
        rtmw.Publisher("raw", history=2) as raw,
        rtmw.Recorder(["image", "raw"], tmp_path / "run"),
    ):
        images.publish(image)
        raw.publish(b"")
        raw.publish(bytes(range(256)))
    with (
        rtmw.Subscriber("image", np.dtype("u2")) as pictures,
        rtmw.Subscriber("raw") as texts,
        rtmw.Replay(tmp_path / "run", rate=None) as replay,
    ):
        replay.run()
        assert np.array_equal(pictures.receive(60).value, image)
        assert [sample.value for sample in iter(texts.take, None)] == [b"", bytes(range(256))]


def test_a_recording_of_a_replay_holds_the_same_messages(tmp_path: Path) -> None:
    with rtmw.Publisher("t", history=50) as publisher, rtmw.Recorder("t", tmp_path / "one"):
        for number in range(50):
            publisher.publish(bytes([number]))
    with rtmw.Replay(tmp_path / "one", remap={"t": "again"}) as replay, rtmw.Recorder("again", tmp_path / "two"):
        replay.run()
    found: list[list[tuple[bytes, int]]] = []
    for folder in ("one", "two"):
        with rtmw.Recording(next((tmp_path / folder).glob("*.mcap"))) as recording:
            found.append([(m.payload, m.publish_time) for m in recording.messages()])
    assert len(found[0]) == 50
    assert found[0] == found[1]


@pytest.mark.parametrize("form", ["ros2msg", "ros2idl"])
def test_a_bag_of_ros_2_is_played_with_its_qos(tmp_path: Path, form: str) -> None:
    """As rosbag2 writes it: MCAP, CDR, and the definition of the type as text."""
    from mcap.writer import Writer

    texts = {
        "ros2msg": b"float64 x\nfloat64 y\nfloat64 z\n",
        "ros2idl": b"module geometry_msgs { module msg { struct Point { double x; double y; double z; }; }; };",
    }
    profile = "- history: 1\n  depth: 5\n  reliability: 1\n  durability: 1\n"
    path = tmp_path / "bag.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start(profile="ros2", library="rosbag2")
        schema = writer.register_schema("geometry_msgs/msg/Point", form, texts[form])
        channel = writer.register_channel("/point", "cdr", schema, {"offered_qos_profiles": profile})
        payload = b"\x00\x01\x00\x00" + np.array([1.0, 2.5, -3.0]).tobytes()
        writer.add_message(channel, 1_700_000_000 * 10**9, payload, 1_700_000_000 * 10**9)
        writer.finish()
    with rtmw.Replay(path) as replay:
        assert replay.skipped == {}
        replay.run()
        with rtmw.Subscriber("/point", rtmw.ANY, reliability=RELIABLE, history=5) as late:
            value = late.receive(60).value
    assert (value.x, value.y, value.z) == (1.0, 2.5, -3.0)
