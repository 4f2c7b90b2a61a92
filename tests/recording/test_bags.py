"""Recordings of others: what rosbags and the mcap library write is decoded by the types that lie in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cyclonedds.idl.types as t
import pytest
from cyclonedds.idl import make_idl_struct
from mcap.writer import Writer
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as BagWriter

from rtmw.errors import ValueMismatch
from rtmw.recording import Recording
from rtmw.recording.tools.cut import Section
from tests.recording.ros2_values import STORE, plain, sample

NAMES = ("sensor_msgs/msg/Imu", "std_msgs/msg/String", "nav_msgs/msg/Odometry", "sensor_msgs/msg/PointCloud2")
START = 1_700_000_000_000_000_000


def write_bag(folder: Path, compression: CompressionMode = CompressionMode.NONE) -> Path:
    """A bag of ROS 2 with three messages of each type; its MCAP file."""
    writer = BagWriter(folder, version=9, storage_plugin=StoragePlugin.MCAP)
    writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer as bag:
        for at, name in enumerate(NAMES):
            connection = bag.add_connection(f"/topic{at}", name, typestore=STORE)
            for number in range(3):
                bag.write(connection, START + number, STORE.serialize_cdr(sample(name, number), name))
    (path,) = folder.glob("*.mcap")
    return path


def test_a_bag_of_ros_2_is_decoded_by_the_types_that_lie_in_it(tmp_path: Path) -> None:
    with Recording(write_bag(tmp_path / "bag")) as recording:
        found: dict[str, list[Any]] = {}
        for message in recording.messages():
            kind = recording.message_type(message.channel)
            assert kind is not None
            assert kind.decode is not None
            found.setdefault(message.channel.topic, []).append(plain(kind.decode(message.payload)))
    assert found == {f"/topic{at}": [plain(sample(name, n)) for n in range(3)] for at, name in enumerate(NAMES)}


def test_messages_that_a_bag_has_compressed_one_by_one_are_refused_with_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from rtmw.recording.tools.tables import tables

    with Recording(write_bag(tmp_path / "bag", CompressionMode.MESSAGE)) as recording:
        found = tables(recording, Section(("/topic0",)))
        with pytest.raises(ValueMismatch, match=r"compressed by itself, .* without \(ros2 bag convert\)"):
            next(found)


def write_mcap(path: Path, idl: str, payloads: list[bytes], encoding: str = "omgidl") -> Path:
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start()
        schema = writer.register_schema("plant::Flow", encoding, idl.encode())
        for topic in ("empty", "flow"):
            channel = writer.register_channel(topic, "cdr", schema)
        for number, payload in enumerate(payloads):
            writer.add_message(channel, START + number, payload, START + number)
        writer.finish()
    return path


@pytest.mark.parametrize("extensibility", ["final", "appendable"])
def test_the_first_payload_says_how_the_idl_of_others_is_encoded(tmp_path: Path, extensibility: str) -> None:
    made = make_idl_struct("Flow", "plant.Flow", {"pump": t.int32, "litres": t.float64})
    made.__idl_annotations__["extensibility"] = extensibility
    payload = made(7, 8.5).serialize(use_version_2=True)
    path = write_mcap(tmp_path / "flow.mcap", "module plant { struct Flow { long pump; double litres; }; };", [payload])
    with Recording(path) as recording:
        for message in recording.messages():
            kind = recording.message_type(message.channel)
            assert kind is not None
            assert kind.decode is not None
            assert kind.decode(message.payload).litres == 8.5
        assert all(recording.message_type(channel) is not None for channel in recording.channels)


@pytest.mark.parametrize(
    ("idl", "encoding", "problem"),
    [
        ("module plant { struct Flow { wstring pump; }; };", "omgidl", "the IDL type wstring cannot be decoded"),
        ("{}", "jsonschema", "its messages are cdr, and its schema is jsonschema"),
    ],
)
def test_a_channel_without_a_type_says_why_and_keeps_its_payloads(
    tmp_path: Path, idl: str, encoding: str, problem: str
) -> None:
    with Recording(write_mcap(tmp_path / "flow.mcap", idl, [b"\0\1\0\0payload"], encoding)) as recording:
        (message,) = recording.messages()
        assert recording.message_type(message.channel) is None
        assert recording.type_problem(message.channel) == problem
        assert bytes(message.payload) == b"\0\1\0\0payload"
