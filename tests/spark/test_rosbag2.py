"""Bags of ROS 2 that others wrote, in Spark: each row has what the rosbags library itself reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from rtmw.recording.frames.layout import METADATA
from rtmw.recording.schemas.ros2 import PLACEHOLDER
from tests.recording.ros2_values import STORE, plain, sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPICS = {
    "/arm/imu": "sensor_msgs/msg/Imu",
    "/base/imu": "sensor_msgs/msg/Imu",
    "/chatter": "std_msgs/msg/String",
    "/joints": "sensor_msgs/msg/JointState",
    "/odometry": "nav_msgs/msg/Odometry",
    "/points": "sensor_msgs/msg/PointCloud2",
    "/start": "std_msgs/msg/Empty",
}
ROUNDS = 40
START = 1_700_000_000_000_000_000
MS = 1_000_000


@pytest.fixture(scope="module", params=[CompressionMode.NONE, CompressionMode.STORAGE], ids=["plain", "zstd"])
def bag(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with metadata.yaml and one MCAP file."""
    folder = tmp_path_factory.mktemp("bags") / "bag"
    writer = Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP)
    writer.set_compression(request.param, CompressionFormat.ZSTD)
    with writer:
        connections = [writer.add_connection(topic, name, typestore=STORE) for topic, name in TOPICS.items()]
        for number in range(ROUNDS * len(connections)):
            connection = connections[number % len(connections)]
            payload = STORE.serialize_cdr(sample(connection.msgtype, number), connection.msgtype)
            writer.write(connection, START + number * MS + 7, payload)
    return folder


def expected(bag: Path, topics: set[str]) -> list[tuple[str, int, Any]]:
    """Topic, time and value of each message, read by rosbags."""
    with AnyReader([bag], default_typestore=get_typestore(Stores.EMPTY)) as reader:
        wanted = [connection for connection in reader.connections if connection.topic in topics]
        return [
            (connection.topic, time, plain(reader.deserialize(raw, connection.msgtype)))
            for connection, time, raw in reader.messages(wanted)
        ]


def found(frame: DataFrame) -> list[tuple[str, int, Any]]:
    rows = [row.asDict(recursive=True) for row in frame.orderBy("log_time_ns").collect()]
    return [
        (row["topic"], row["log_time_ns"], unpacked({k: v for k, v in row.items() if k not in METADATA}))
        for row in rows
    ]


def unpacked(value: Any) -> Any:
    """Octets as numbers, and without the member that stands for none."""
    if isinstance(value, dict):
        return {name: unpacked(part) for name, part in value.items() if name != PLACEHOLDER}
    if isinstance(value, list):
        return [unpacked(part) for part in value]
    return list(value) if isinstance(value, bytes) else value


@pytest.mark.parametrize("topic", ["/arm/imu,/base/imu", *list(TOPICS)[2:]])
# Proves G159.
def test_the_rows_of_a_topic_are_what_rosbags_reads(spark: SparkSession, bag: Path, topic: str) -> None:
    values = expected(bag, {*topic.split(",")})
    assert len(values) == ROUNDS * len(topic.split(","))
    assert found(spark.read.format("rtmw").load(str(bag), topic=topic)) == values


def test_a_type_of_ros_2_is_asked_for_by_its_name_and_the_file_alone_will_do(spark: SparkSession, bag: Path) -> None:
    (path,) = bag.glob("*.mcap")
    frame = spark.read.format("rtmw").load(str(path), type="sensor_msgs/msg/Imu")
    assert found(frame) == expected(bag, {"/arm/imu", "/base/imu"})
    fields = frame.schema
    assert fields["orientation"].dataType.simpleString() == "struct<x:double,y:double,z:double,w:double>"
    assert fields["orientation_covariance"].dataType.simpleString() == "array<double>"
    assert fields["header"].dataType.simpleString() == "struct<stamp:struct<sec:int,nanosec:bigint>,frame_id:string>"


def test_each_message_says_where_it_is_from(spark: SparkSession, bag: Path) -> None:
    (path,) = bag.glob("*.mcap")
    names = ("topic", "type", "log_time_ns", "publish_time_ns", "file", "offset", "priority", "publisher", "expires")
    rows = spark.read.format("rtmw").load(str(bag)).orderBy("offset").select(*names).collect()
    times = [START + number * MS + 7 for number in range(ROUNDS * len(TOPICS))]
    kinds = [*TOPICS.items()] * ROUNDS
    assert [tuple(row) for row in rows] == [
        (*kinds[number], time, time, str(path), number, 0, 0, None) for number, time in enumerate(times)
    ]
