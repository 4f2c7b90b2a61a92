"""Recordings that are made for ROS 2, as the rosbags library reads them: a bag like any other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from rosbags.highlevel import AnyReader
from rosbags.interfaces import ConnectionExtRosbag2, QosDurability, QosReliability
from rosbags.typesys import Stores, get_typestore

import rtmw
from rtmw.recording import Recording, RecordingWriter
from rtmw.recording.schemas import define
from rtmw.recording.tools.copying import Section, cut, merge
from rtmw.recording.tools.recover import recover
from rtmw.recording.writer import Definitions
from rtmw.types import resolve
from tests.recording.readers import made
from tests.recording.test_bags import NAMES, write_bag
from topics.river import Quality, Reading


# Proves G158.
def test_rosbags_opens_our_recording_as_a_bag_and_decodes_each_message(tmp_path: Path) -> None:
    path = made.write(tmp_path / "made.mcap", profile="ros2")
    values = dict(made.VALUES)
    with AnyReader([path], default_typestore=get_typestore(Stores.EMPTY)) as reader:
        names = {connection.topic: connection.msgtype for connection in reader.connections}
        assert names["river/reading"] == "river/msg/Reading"
        found = 0
        for connection, time, raw in reader.messages():
            value = reader.deserialize(raw, connection.msgtype)
            assert time == made.START + 1000 * found + 100
            assert bytes(reader.typestore.serialize_cdr(value, connection.msgtype)) == bytes(raw)
            assert bytes(raw) == values[connection.topic].serialize()
            found += 1
        assert found == reader.message_count == 20 * len(values)


def test_rosbags_finds_what_publishers_offered(tmp_path: Path) -> None:
    path = made.write(tmp_path / "made.mcap", profile="ros2")
    with AnyReader([path], default_typestore=get_typestore(Stores.EMPTY)) as reader:
        for connection in reader.connections:
            assert isinstance(connection.ext, ConnectionExtRosbag2)
            (qos,) = connection.ext.offered_qos_profiles
            assert (qos.reliability, qos.durability) == (QosReliability.BEST_EFFORT, QosDurability.TRANSIENT_LOCAL)
            assert (qos.depth, qos.lifespan.sec, qos.lifespan.nsec) == (3, 1, 500_000_000)


def test_what_ros_2_cannot_hold_is_in_the_bag_too_and_comes_back_by_our_description(tmp_path: Path) -> None:
    path, definitions = tmp_path / "made.mcap", Definitions("ros2")
    payloads = {"floats": np.arange(4, dtype="f4").tobytes(), "octets": b"octets", "river/reading": b""}
    payloads["river/reading"] = Reading("A1").serialize()
    kinds = {"floats": np.dtype("f4"), "octets": bytes, "river/reading": Reading}
    with RecordingWriter(path, definitions=definitions) as writer:
        for topic, type in kinds.items():
            writer.write(define(definitions, topic, resolve(type)), payloads[topic], log_time=1, publish_time=1)
    with AnyReader([path], default_typestore=get_typestore(Stores.EMPTY)) as reader:
        assert {c.topic: bytes(raw) for c, _, raw in reader.messages()} == payloads
    with Recording(path) as recording:
        for channel in recording.channels.values():
            type = recording.message_type(channel)
            assert type is not None
            assert type.identity == resolve(kinds[channel.topic]).identity


def test_what_a_recorder_writes_for_ros_2_is_a_bag(tmp_path: Path, domain: rtmw.Domain) -> None:
    values = [Reading("A1", "ph", number / 4, Quality.GOOD, number) for number in range(50)]
    with (
        rtmw.Recorder("river/reading", tmp_path / "bag", domain=domain, ros2=True, reliable=True) as recorder,
        rtmw.Publisher("river/reading", Reading, domain=domain, reliability=rtmw.Reliability.RELIABLE) as publisher,
    ):
        assert publisher.wait_for_subscribers(timeout=60)
        assert all(publisher.publish(value) for value in values)
    with AnyReader([*recorder.paths], default_typestore=get_typestore(Stores.EMPTY)) as reader:
        found = [reader.deserialize(raw, connection.msgtype) for connection, _, raw in reader.messages()]
    assert [(one.station, one.value, one.quality, one.measured_ns) for one in found] == [
        (value.station, value.value, value.quality.value, value.measured_ns) for value in values
    ]


def test_what_is_made_of_a_bag_is_a_bag_again(tmp_path: Path) -> None:
    """Of one that rosbags wrote itself."""
    bag = write_bag(tmp_path / "bag")
    made_of_it = [tmp_path / name for name in ("cut.mcap", "merged.mcap", "recovered.mcap")]
    cut(bag, made_of_it[0], Section())
    merge([bag, made_of_it[0]], made_of_it[1])
    recover(bag, made_of_it[2])
    for path, times in zip(made_of_it, (1, 2, 1), strict=True):
        with AnyReader([path], default_typestore=get_typestore(Stores.EMPTY)) as reader:
            found = Counter(reader.deserialize(raw, c.msgtype).__msgtype__ for c, _, raw in reader.messages())
        assert found == {name: 3 * times for name in NAMES}


def test_what_is_merged_of_a_bag_and_something_else_is_no_bag(tmp_path: Path) -> None:
    bag, other = write_bag(tmp_path / "bag"), made.write(tmp_path / "other.mcap")
    merge([bag, other], tmp_path / "merged.mcap")
    with Recording(tmp_path / "merged.mcap") as recording:
        assert recording.header.profile == ""


# Proves G167.
def test_rosbags_opens_the_folder_of_a_recorder_as_one_bag(domain: rtmw.Domain, tmp_path: Path) -> None:
    store, folder = get_typestore(Stores.EMPTY), tmp_path / "run"
    for _ in range(2):  # the second recorder goes on in the folder
        with (
            rtmw.Recorder(["river/reading", "octets"], folder, domain=domain, ros2=True, append=True) as recorder,
            rtmw.Publisher("river/reading", Reading, domain=domain, history=1) as publisher,
            rtmw.Publisher("octets", domain=domain) as octets,
        ):
            for number in range(10):
                publisher.publish(Reading(f"A{number}"))
                octets.publish(b"no type of ROS 2")
                if number == 4:
                    recorder.split()
    with AnyReader([folder], default_typestore=store) as reader:
        (topic,) = [c for c in reader.connections if c.topic == "river/reading"]
        assert topic.msgtype == "river/msg/Reading"
        found = [raw for connection, _, raw in reader.messages() if connection.topic == "river/reading"]
        names = {reader.deserialize(raw, topic.msgtype).station for raw in found}
    assert names == {f"A{number}" for number in range(10)}
    assert len(found) >= 20
    assert len([*folder.glob("*.mcap")]) == 4
