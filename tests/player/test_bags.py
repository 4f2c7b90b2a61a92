"""Replay of bags of ROS 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from rosbags.rosbag2 import CompressionMode

import rtmw
from tests.recording.bags import NAMES, write_bag
from tests.recording.ros2_values import sample


@pytest.mark.usefixtures("domain")
def test_messages_that_were_compressed_one_by_one_are_published_as_they_were(tmp_path: Path) -> None:
    path = write_bag(tmp_path / "bag", CompressionMode.MESSAGE)
    with (
        rtmw.Subscriber("/topic1", rtmw.ANY, depth=10) as subscriber,
        rtmw.Replay(path, rate=None, topics=["/topic1"]) as replay,
    ):
        stats = replay.run()
        texts = [found.value.data for found in subscriber.take_many(10)]
    assert stats.published == 3
    assert texts == [sample(NAMES[1], number).data for number in range(3)]
