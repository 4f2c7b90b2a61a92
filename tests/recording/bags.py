"""Bags of ROS 2, written by the rosbags library."""

from __future__ import annotations

from pathlib import Path

from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

from tests.recording.ros2_values import STORE, sample

NAMES = ("sensor_msgs/msg/Imu", "std_msgs/msg/String", "nav_msgs/msg/Odometry", "sensor_msgs/msg/PointCloud2")
ZSTD = b"\x28\xb5\x2f\xfd"
START = 1_700_000_000_000_000_000


def write_bag(folder: Path, compression: CompressionMode = CompressionMode.NONE) -> Path:
    """A bag of ROS 2 with three messages of each type; its MCAP file."""
    writer = Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP)
    writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer as bag:
        for at, name in enumerate(NAMES):
            connection = bag.add_connection(f"/topic{at}", name, typestore=STORE)
            for number in range(3):
                bag.write(connection, START + number, STORE.serialize_cdr(sample(name, number), name))
    (path,) = folder.glob("*.mcap")
    return path
