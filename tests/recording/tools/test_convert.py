"""Bags of ROS 2 in SQLite as recordings: each message, its type and QoS."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from rosbags.rosbag2 import StoragePlugin, Writer

from rtmw.cli import main
from rtmw.errors import RecordingError
from rtmw.recording import Recording
from rtmw.recording.tools.check import check
from rtmw.recording.tools.convert import convert
from tests.recording.bags import NAMES, START
from tests.recording.ros2_values import STORE, sample


def write(folder: Path) -> Path:
    """A bag with three messages of each type, the last ones written first."""
    with Writer(folder, version=9, storage_plugin=StoragePlugin.SQLITE3) as bag:
        for at, name in enumerate(NAMES):
            connection = bag.add_connection(f"/topic{at}", name, typestore=STORE)
            for number in (2, 0, 1):
                bag.write(connection, START + number, STORE.serialize_cdr(sample(name, number), name))
    return folder


def test_a_bag_is_a_recording_with_each_message_and_its_type_in_the_order_of_time(tmp_path: Path) -> None:
    converted = convert(write(tmp_path / "bag"), tmp_path / "a.mcap")
    assert (converted.messages, converted.untyped) == (3 * len(NAMES), [])
    assert check(tmp_path / "a.mcap").problems == []
    with Recording(tmp_path / "a.mcap") as recording:
        assert recording.header.profile == "ros2"
        assert {c.topic: recording.type_name(c) for c in recording.channels.values()} == {
            f"/topic{at}": name for at, name in enumerate(NAMES)
        }
        assert [recording.type_problem(channel) for channel in recording.channels] == [None] * len(NAMES)
        for at, name in enumerate(NAMES):
            found = [(m.log_time, m.publish_time, m.payload) for m in recording.messages(f"/topic{at}")]
            expected = [bytes(STORE.serialize_cdr(sample(name, number), name)) for number in range(3)]
            assert found == [(START + number, START + number, expected[number]) for number in range(3)]


def test_several_files_of_a_bag_are_one_recording_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 2):
        write(tmp_path / f"part{number}")
        (file,) = (tmp_path / f"part{number}").glob("*.db3")
        file.rename(tmp_path / f"bag_{number}.db3")
    assert convert(tmp_path, tmp_path / "a.mcap").messages == 6 * len(NAMES)


def test_a_bag_without_definitions_keeps_its_messages_and_says_which_types_are_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = write(tmp_path / "bag").glob("*.db3")
    with sqlite3.connect(file) as bag:
        bag.execute("DROP TABLE message_definitions")
        bag.execute("ALTER TABLE topics DROP COLUMN offered_qos_profiles")
    bag.close()
    assert main(["recording", "convert", str(tmp_path / "bag"), "-o", str(tmp_path / "a.mcap")]) == 0
    told = capsys.readouterr()
    assert told.out.startswith(f"{tmp_path / 'a.mcap'} has 12 messages\n")
    assert "the bag does not say what these types are: sensor_msgs/msg/Imu, " in told.err
    with Recording(tmp_path / "a.mcap") as recording:
        assert recording.message_count == 12
        assert all(recording.type_problem(channel) for channel in recording.channels)


def test_the_command_says_what_it_has_written_as_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "a.mcap"
    assert main(["recording", "convert", str(write(tmp_path / "bag")), "-o", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(target), "messages": 12, "untyped": []}


@pytest.mark.parametrize("content", [b"", b"no database at all", b"SQLite format 3\0" + bytes(100)])
def test_what_is_no_bag_is_an_error_and_leaves_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.db3").write_bytes(content)
    with pytest.raises(RecordingError, match=r"a\.db3"):
        convert(tmp_path / "a.db3", tmp_path / "a.mcap")
    assert [item.name for item in tmp_path.iterdir()] == ["a.db3"]


def test_a_message_of_no_topic_is_damage(tmp_path: Path) -> None:
    (file,) = write(tmp_path / "bag").glob("*.db3")
    with sqlite3.connect(file) as bag:
        bag.execute("DELETE FROM topics WHERE id = 1")
    bag.close()
    with pytest.raises(RecordingError, match="is damaged: a message is of topic 1, which it has not"):
        convert(file, tmp_path / "a.mcap")


@pytest.mark.parametrize("change", ["timestamp = -1", "timestamp = 'soon'", "data = 'text'"])
def test_a_message_without_a_time_or_data_is_damage(tmp_path: Path, change: str) -> None:
    (file,) = write(tmp_path / "bag").glob("*.db3")
    with sqlite3.connect(file) as bag:
        bag.execute(f"UPDATE messages SET {change} WHERE id = 2")
    bag.close()
    with pytest.raises(RecordingError, match=r"is damaged: message .* has no time, or no data"):
        convert(file, tmp_path / "a.mcap")
    assert not (tmp_path / "a.mcap").exists()


def test_a_bag_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recording", "convert", str(tmp_path / "bag"), "-o", str(tmp_path / "a.mcap")]) == 1
    assert "there is no bag" in capsys.readouterr().err
    assert main(["recording", "convert", str(tmp_path), "-o", str(tmp_path / "a.mcap")]) == 1
    assert "has no file whose name ends in .db3" in capsys.readouterr().err


def test_a_bag_in_sqlite_that_is_read_as_a_recording_leads_to_the_command(tmp_path: Path) -> None:
    (file,) = write(tmp_path / "bag").glob("*.db3")
    with pytest.raises(RecordingError, match=r"rtmw recording convert BAG -o NEW\.mcap"):
        Recording(file)
