"""Bags of ROS 2 in SQLite (rosbag2's storage `sqlite3`) as recordings."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rtmw.errors import RecordingError
from rtmw.recording.contents import UNSET_NS
from rtmw.recording.places import written_whole
from rtmw.recording.schemas import ROS2
from rtmw.recording.schemas.ros2 import QOS_KEY
from rtmw.recording.tools.copying import Progress, no_progress
from rtmw.recording.writer import Definitions, RecordingWriter

SUFFIX: Final = ".db3"
_NEEDED: Final = {
    "topics": {"id", "name", "type", "serialization_format"},
    "messages": {"topic_id", "timestamp", "data"},
}
_LOOK: Final = 4096
"""Messages after which progress is told."""


@dataclass(slots=True)
class Converted:
    """The outcome of a conversion."""

    messages: int = 0
    untyped: list[str] = field(default_factory=list[str])
    """Types for which the bag has no definition: their messages are kept, and cannot be read as columns."""


def bags_in(path: Path) -> list[Path]:
    """The files of a bag, in the order of their numbers. Raises FileNotFoundError."""
    if not path.is_dir():
        if not path.exists():
            raise FileNotFoundError(f"there is no bag {path}")
        return [path]
    found = sorted(path.glob(f"*{SUFFIX}"), key=lambda file: [int(n) for n in re.findall(r"\d+", file.stem)][-1:])
    if not found:
        raise FileNotFoundError(f"the folder {path} has no file whose name ends in {SUFFIX}")
    return found


def convert(source: Path, target: Path, compression: str = "lz4", progress: Progress = no_progress) -> Converted:
    """Writes the files of a bag as one recording, of the profile of ROS 2, in the order of the times of its messages.

    `compression`: lz4, zstd or none. Messages have one time each, which is their log time and their publish time.
    Raises FileExistsError, RecordingError for what is no such bag, or is damaged, OSError.
    """
    converted = Converted()
    with written_whole(target) as temporary:
        definitions = Definitions(ROS2)
        with RecordingWriter(temporary, compression=compression, definitions=definitions) as writer:
            for path in bags_in(source):
                _add(path, writer, converted, progress)
    return converted


def _add(path: Path, writer: RecordingWriter, converted: Converted, progress: Progress) -> None:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as bag:
            _check(path, bag)
            channels = _channels(bag, writer, converted)
            (count,) = bag.execute("SELECT count(*) FROM messages").fetchone()
            for done, (topic, time, data) in enumerate(_messages(bag), 1):
                if topic not in channels:
                    raise RecordingError(f"{path} is damaged: a message is of topic {topic}, which it has not")
                if not (isinstance(time, int) and 0 <= time < UNSET_NS and isinstance(data, bytes)):
                    raise RecordingError(f"{path} is damaged: message {done} has no time, or no data")
                writer.write(channels[topic], data, log_time=time, publish_time=time)
                converted.messages += 1
                if done % _LOOK == 0:
                    progress(done, count)
    except sqlite3.DatabaseError as error:
        raise RecordingError(f"{path} cannot be read as a bag in SQLite: {error}") from error


def _check(path: Path, bag: sqlite3.Connection) -> None:
    for table, columns in _NEEDED.items():
        missing = columns - _columns(bag, table)
        if missing:
            raise RecordingError(
                f"{path} is no bag of ROS 2: it has no table {table} with {', '.join(sorted(missing))}"
            )


def _columns(bag: sqlite3.Connection, table: str) -> set[str]:
    """Returns the names of a table's columns; none where there is no such table."""
    return {row[1] for row in bag.execute(f"PRAGMA table_info({table})")}


def _messages(bag: sqlite3.Connection) -> Iterator[Sequence[Any]]:
    return iter(bag.execute("SELECT topic_id, timestamp, data FROM messages ORDER BY timestamp, rowid"))


def _channels(bag: sqlite3.Connection, writer: RecordingWriter, converted: Converted) -> dict[int, int]:
    """Makes the channels. Returns the number of each topic's channel by the topic's number in the bag."""
    texts = _definitions(bag)
    qos = "offered_qos_profiles" if "offered_qos_profiles" in _columns(bag, "topics") else "''"
    found: dict[int, int] = {}
    for number, name, type, encoding, profiles in bag.execute(
        f"SELECT id, name, type, serialization_format, {qos} FROM topics"
    ):
        if type not in texts and type not in converted.untyped:
            converted.untyped.append(type)
        kind, text = texts.get(type, ("", ""))
        schema = writer.schema(type, kind, text.encode())
        metadata = {QOS_KEY: profiles} if profiles else {}
        found[number] = writer.channel(name, schema, encoding, metadata)
    return found


def _definitions(bag: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    """Language and text of each type; bags from before ROS 2 Iron have none."""
    if not _columns(bag, "message_definitions"):
        return {}
    rows = bag.execute("SELECT topic_type, encoding, encoded_message_definition FROM message_definitions")
    return {type: (encoding, text) for type, encoding, text in rows if text}
