"""The `metadata.yaml` by which tools of ROS 2 open a folder of recordings as one bag."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rtmw.disk import DISK
from rtmw.errors import RecordingError
from rtmw.recording.recording import Recording
from rtmw.recording.schemas import CDR
from rtmw.recording.schemas.ros2_qos import QOS_KEY

__all__ = ["Ros2Folder"]

_METADATA: Final = "metadata.yaml"
_VERSION: Final = 8
"""The last version of the format in which qualities are a text, as they are in the metadata of our channels."""

_Topic = tuple[str, str, str]
"""Name, type and offered qualities."""


@dataclass(frozen=True)
class _File:
    name: str
    start_ns: int
    end_ns: int
    messages: int
    topics: Counter[_Topic] = field(default_factory=Counter[_Topic])
    """Messages by topic. Tools of ROS 2 know messages of CDR with a schema, so only these are counted."""


class Ros2Folder:
    """Describes a folder again whenever a recording in it is complete; the index of each is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Path, _File] = {}

    def describe(self, paths: Sequence[Path]) -> None:
        """Writes metadata.yaml anew, for these recordings, without those that cannot be read. Raises OSError."""
        known = {path: self._files[path] for path in paths if path in self._files}
        for path in paths:
            if path not in known:
                with suppress(RecordingError, FileNotFoundError):
                    known[path] = _look_into(path)
        self._files = known
        text = "\n".join(_lines([known[path] for path in paths if path in known])) + "\n"
        DISK.replace(self._folder / _METADATA, text.encode())


def _look_into(path: Path) -> _File:
    with Recording(path) as recording:
        begin, end = (recording.start_ns, recording.end_ns) if recording.message_count else (0, 0)
        found = _File(path.name, begin, end, recording.message_count)
        for chunk in recording.chunks:
            for number, count in chunk.counts.items():
                channel = recording.channels[number]
                schema = recording.schemas.get(channel.schema_id)
                if schema is not None and channel.message_encoding == CDR:
                    found.topics[channel.topic, schema.name, channel.metadata.get(QOS_KEY, "")] += count
        return found


def _lines(files: Sequence[_File]) -> Iterator[str]:
    """YAML. A text of JSON is one of YAML too."""
    topics: Counter[tuple[str, str]] = Counter()
    offered: dict[tuple[str, str], str] = {}
    for file in files:
        for (name, type, qos), count in file.topics.items():
            topics[name, type] += count
            offered[name, type] = qos
    full = [file for file in files if file.messages]
    begin, end = min((f.start_ns for f in full), default=0), max((f.end_ns for f in full), default=0)
    yield "rosbag2_bagfile_information:"
    yield f"  version: {_VERSION}"
    yield "  storage_identifier: mcap"
    yield f"  duration: {{nanoseconds: {end - begin}}}"
    yield f"  starting_time: {{nanoseconds_since_epoch: {begin}}}"
    yield f"  message_count: {topics.total()}"
    yield "  compression_format: ''"
    yield "  compression_mode: ''"
    yield "  ros_distro: ''"
    yield "  custom_data: {}"
    yield "  topics_with_message_count:" + ("" if topics else " []")
    for (name, type), count in topics.items():
        about = f"name: {json.dumps(name)}, type: {json.dumps(type)}, serialization_format: cdr"
        quality = f"offered_qos_profiles: {json.dumps(offered[name, type])}, type_description_hash: ''"
        yield f"    - {{topic_metadata: {{{about}, {quality}}}, message_count: {count}}}"
    yield f"  relative_file_paths: {json.dumps([file.name for file in files])}"
    yield "  files:" + ("" if files else " []")
    for f in files:
        first, took = f"{{nanoseconds_since_epoch: {f.start_ns}}}", f"{{nanoseconds: {f.end_ns - f.start_ns}}}"
        about = f"path: {json.dumps(f.name)}, starting_time: {first}, duration: {took}"
        yield f"    - {{{about}, message_count: {f.messages}}}"
