"""Recordings of others: what rosbags and the mcap library write is decoded by the types that lie in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cyclonedds.idl.types as t
import pytest
import zstandard
from cyclonedds.idl import make_idl_struct
from mcap.writer import Writer
from rosbags.rosbag2 import CompressionMode

from rtmw.errors import RecordingDamaged
from rtmw.recording import Recording
from rtmw.recording.recordings import info
from rtmw.recording.tools.check import check
from rtmw.recording.tools.copying import Section, cut
from tests.recording.bags import NAMES, START, ZSTD, write_bag
from tests.recording.ros2_values import STORE, plain, sample


# Proves G159.
def test_a_bag_of_ros_2_is_decoded_by_the_types_that_lie_in_it(tmp_path: Path) -> None:
    with Recording(write_bag(tmp_path / "bag")) as recording:
        found: dict[str, list[Any]] = {}
        for message in recording.messages():
            type = recording.message_type(message.channel)
            assert type is not None
            assert type.decode is not None
            found.setdefault(message.channel.topic, []).append(plain(type.decode(message.payload)))
    assert found == {f"/topic{at}": [plain(sample(name, n)) for n in range(3)] for at, name in enumerate(NAMES)}


def test_messages_that_a_bag_has_compressed_one_by_one_are_read_as_they_were_published(tmp_path: Path) -> None:
    path = write_bag(tmp_path / "bag", CompressionMode.MESSAGE)
    with Recording(path) as recording, Recording(write_bag(tmp_path / "plain")) as plainly:
        stored = [batch for chunk in recording.chunks if len(batch := recording.read_stored(chunk))]
        assert all(bytes(batch.payload(row)[:4]) == ZSTD for batch in stored for row in range(len(batch)))
        rows, expected = [*recording.messages()], [*plainly.messages()]
        assert [(m.channel.topic, m.log_time, m.payload) for m in rows] == [
            (m.channel.topic, m.log_time, m.payload) for m in expected
        ]
    assert check(path).problems == []
    assert (info(path).compresses_messages, info(tmp_path / "plain" / "plain.mcap").compresses_messages) == (
        True,
        False,
    )


def test_a_type_has_one_name_whether_it_can_be_read_or_not(tmp_path: Path) -> None:
    path = write_bag(tmp_path / "bag")
    assert {topic.topic: topic.type for topic in info(path).topics} == {f"/topic{at}": n for at, n in enumerate(NAMES)}
    with Recording(path) as recording:
        assert {recording.type_name(channel) for channel in recording.channels.values()} == {*NAMES}
    with Recording(write_mcap(tmp_path / "a.mcap", "no IDL at all", [b"\0\1\0\0"])) as recording:
        channel = recording.channels[1]
        assert recording.message_type(channel) is None
        assert recording.type_name(channel) == recording.schemas[channel.schema_id].name


def test_what_is_cut_from_such_a_bag_is_a_plain_recording(tmp_path: Path) -> None:
    path = write_bag(tmp_path / "bag", CompressionMode.MESSAGE)
    cut(path, tmp_path / "cut.mcap", Section(("/topic1",)))
    assert not info(tmp_path / "cut.mcap").compresses_messages
    with Recording(tmp_path / "cut.mcap") as recording:
        expected = [bytes(STORE.serialize_cdr(sample(NAMES[1], number), NAMES[1])) for number in range(3)]
        assert [m.payload for m in recording.messages()] == expected


def test_such_a_bag_is_exported_with_its_members(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from rtmw.recording.tools.tables import tables

    with Recording(write_bag(tmp_path / "bag", CompressionMode.MESSAGE)) as recording:
        (found,) = tables(recording, Section(("/topic1",)))
    assert found.table.column("data").to_pylist() == [sample(NAMES[1], number).data for number in range(3)]


@pytest.mark.parametrize("change", ["cut", "turned", "bomb"])
def test_a_damaged_message_of_such_a_bag_is_named(tmp_path: Path, change: str) -> None:
    """In a recording without a CRC: others write such."""
    packed = {
        "cut": lambda: zstandard.compress(b"\0\1\0\0" + b"x" * 99)[:-3],
        "turned": lambda: ZSTD + b"\xff" * 40,
        "bomb": lambda: zstandard.compress(bytes(1 << 20))[:20],
    }[change]()
    path = write_mcap(tmp_path / "a.mcap", "struct Text { string data; };", [packed])
    with (
        Recording(path) as recording,
        pytest.raises(RecordingDamaged, match=r"message 0 of a chunk is compressed by its"),
    ):
        next(recording.messages())
    (problem,) = check(path).problems
    assert "is compressed by itself, and cannot be read" in problem


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
            type = recording.message_type(message.channel)
            assert type is not None
            assert type.decode is not None
            assert type.decode(message.payload).litres == 8.5
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
