"""Our recordings as the libraries of others read them: each message, channel, schema, statistic and CRC."""

from __future__ import annotations

from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest
from mcap.reader import SeekingReader
from mcap.stream_reader import StreamReader

from rtmw.recording import Recording, RecordingWriter
from rtmw.recording.schemas import define
from rtmw.recording.writer import Definitions
from rtmw.types import resolve
from tests.recording.readers import made
from tests.recording.readers.conftest import Reader

EVERY = [
    pytest.param({"compression": compression, "index": index}, id=f"{compression}-{'index' if index else 'plain'}")
    for compression in ("lz4", "zstd", "none")
    for index in (True, False)
]


def ours(path: Path) -> list[tuple[Any, ...]]:
    with Recording(path) as recording:
        return [
            (m.channel.topic, m.log_time, m.publish_time, m.sequence, sha1(m.payload).hexdigest())
            for m in recording.messages()
        ]


def theirs(messages: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(m["topic"], int(m["log"]), int(m["publish"]), m["sequence"], m["sha"]) for m in messages]


@pytest.mark.parametrize("options", EVERY)
def test_mcap_for_javascript_reads_what_we_wrote(tmp_path: Path, read_by_node: Reader, options: dict[str, Any]) -> None:
    path = made.write(tmp_path / "made.mcap", **options)
    found = read_by_node(path)
    assert theirs(found["inOrder"]) == ours(path)
    if options["index"]:
        assert theirs(found["messages"]) == ours(path)
    with Recording(path) as recording:
        assert int(found["statistics"]["messageCount"]) == recording.message_count
        assert found["statistics"]["chunkCount"] == len(recording.chunks) > 5
        channels = {channel["id"]: channel for channel in found["channels"]}
        for number, channel in recording.channels.items():
            assert channels[number]["metadata"] == channel.metadata
            assert (channels[number]["topic"], channels[number]["messageEncoding"]) == (channel.topic, "cdr")
            assert channels[number]["schema"] == recording.schemas[channel.schema_id].name
    assert found["metadata"]["rtmw.recorder"] == {"host": "here", "reason": "a test"}
    assert found["header"]["library"].startswith("rtmw ")


# Proves G158.
def test_foxglove_decodes_every_message_by_our_idl(tmp_path: Path, read_by_node: Reader) -> None:
    found = read_by_node(made.write(tmp_path / "made.mcap"))
    values = {topic: made.plain(value) for topic, value in made.VALUES}
    assert len(found["values"]) == 20 * len(values)
    for message, value in zip(found["messages"], found["values"], strict=True):
        assert value == values[message["topic"]]


@pytest.mark.parametrize("options", EVERY)
def test_mcap_for_python_reads_what_we_wrote(tmp_path: Path, options: dict[str, Any]) -> None:
    path = made.write(tmp_path / "made.mcap", **options)
    with path.open("rb") as file:
        reader = SeekingReader(file, validate_crcs=True)
        found = [
            (channel.topic, m.log_time, m.publish_time, m.sequence, sha1(m.data).hexdigest())
            for _, channel, m in reader.iter_messages()
        ]
        summary = reader.get_summary()
    assert found == ours(path)
    assert summary is not None
    assert summary.statistics is not None
    with Recording(path) as recording:
        assert summary.statistics.message_count == recording.message_count
        assert {c.id: dict(c.metadata) for c in summary.channels.values()} == {
            c.id: dict(c.metadata) for c in recording.channels.values()
        }
        for number, schema in recording.schemas.items():
            other = summary.schemas[number]
            assert (other.name, other.encoding, other.data) == (schema.name, schema.encoding, schema.data)
    with path.open("rb") as file:
        records = [type(record).__name__ for record in StreamReader(file, validate_crcs=True).records]
    assert records.count("Message") == recording.message_count
    assert records[-1] == "Footer"


def test_foxglove_decodes_types_whose_names_are_keywords_of_idl(tmp_path: Path, read_by_node: Reader) -> None:
    text = resolve(str)
    path = tmp_path / "text.mcap"
    definitions = Definitions("")
    with RecordingWriter(path, definitions=definitions) as writer:
        writer.write(define(definitions, "chatter", text), text.encode("grün"), log_time=1, publish_time=1, sequence=1)
    assert read_by_node(path)["values"] == [{"data": "grün"}]
    with Recording(path) as recording:
        (channel,) = recording.channels.values()
        assert recording.type_name(channel) == "std_msgs::msg::String"
