"""What lies in the recordings of a read: from their indexes alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from rtmw.errors import RecordingError
from rtmw.recording import Channel, Chunk, Recording
from rtmw.recording.topics import is_meant
from rtmw.spark.files import recordings_of
from rtmw.spark.options import ReadOptions


@dataclass(frozen=True)
class Stream:
    """A channel as a read sees it."""

    topic: str
    type_name: str
    description: bytes | None
    """Of its type, if that was looked up and has members."""
    problem: str = ""
    """Why its type cannot be read."""


@dataclass(frozen=True)
class Surveyed:
    """A recording: its chunks, and the channels that are wanted."""

    path: Path
    chunks: tuple[Chunk, ...]
    streams: dict[int, Stream]


def survey(options: ReadOptions) -> list[Surveyed]:
    """The recordings of a read. Raises RecordingError, and ValueError when no topic is as it was asked for."""
    found = [look_into(path, options) for path in recordings_of(options.paths)]
    check_found(found, options)
    return [surveyed for surveyed, _ in found]


def look_into(path: Path, options: ReadOptions) -> tuple[Surveyed, set[str]]:
    """A recording, and all topics in it."""
    with Recording(path) as recording:
        check_complete(recording, options.incomplete)
        found = {number: stream_of(recording, channel, options) for number, channel in recording.channels.items()}
        wanted = {number: stream for number, stream in found.items() if stream is not None}
        return Surveyed(path, recording.chunks, wanted), {*recording.topics()}


def check_complete(recording: Recording, how: str) -> None:
    if how == "read" or recording.complete:
        return
    message = f"{recording.path} is not complete: {recording.incomplete_because}"
    if how == "fail":
        raise RecordingError(f'{message}; .option("incomplete", "read") reads what is whole')
    warnings.warn(f"{message}; what is whole is read", stacklevel=2)


def stream_of(recording: Recording, channel: Channel, options: ReadOptions) -> Stream | None:
    """None: not wanted. What the type consists of is only looked up where members may become columns."""
    stream = Stream(channel.topic, type_name(recording, channel), None)
    if not is_wanted(stream, options):
        return None
    if not options.typed or not (options.topics or options.type):
        return stream
    kind = recording.message_type(channel)
    if kind is None:
        return replace(stream, problem=recording.type_problem(channel) or "it has no type")
    return replace(stream, description=kind.description if kind.kind != "bytes" else None)


def type_name(recording: Recording, channel: Channel) -> str:
    schema = recording.schemas.get(channel.schema_id)
    if schema is not None:
        return schema.name
    kind = recording.message_type(channel)
    return kind.name if kind else "bytes"


def is_wanted(stream: Stream, options: ReadOptions) -> bool:
    if options.type is not None and dds_name(stream.type_name) != dds_name(options.type):
        return False
    return not options.topics or any(is_meant(stream.topic, pattern) for pattern in options.topics)


def dds_name(name: str) -> str:
    """`plant.Speed`, `plant::Speed` and `plant/Speed` are one name."""
    return name.replace("::", ".").replace("/", ".")


def check_found(found: list[tuple[Surveyed, set[str]]], options: ReadOptions) -> None:
    """What was asked for by name has to be somewhere."""
    topics = sorted({topic for _, there in found for topic in there})
    wanted = {stream.topic for surveyed, _ in found for stream in surveyed.streams.values()}
    for pattern in options.topics:
        if not any(is_meant(topic, pattern) for topic in wanted):
            what = f"topic {pattern!r}" + (f" with messages of {options.type}" if options.type else "")
            raise ValueError(f"no {what} in {len(found)} recording(s); there are {some(topics)}")
    if options.type is not None and not wanted:
        raise ValueError(f"no messages of type {options.type!r} in {len(found)} recording(s)")


def some(names: list[str], most: int = 20) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "") or "none"


def type_of(streams: Iterable[Stream], options: ReadOptions) -> bytes | None:
    """The description of the type whose members become columns; None: payloads. Raises ValueError.

    One topic, or a type, asked for by name has to have one type; several topics, or a pattern, get columns if they do.
    """
    if not options.typed or not (options.topics or options.type):
        return None
    kinds = {(stream.type_name, stream.description, stream.problem) for stream in streams}
    if len(kinds) == 1:
        name, description, problem = kinds.pop()
        if problem and is_named(options):
            raise ValueError(f'{problem}; .option("typed", "false") gives payloads of {name}')
        return description
    if kinds and is_named(options):
        names = some(sorted({name for name, _, _ in kinds}))
        raise ValueError(
            f"messages of {len(kinds)} types are meant, {names}, and columns can be those of one: "
            'choose with .option("type", …), or take payloads with .option("typed", "false")'
        )
    return None


def is_named(options: ReadOptions) -> bool:
    return options.type is not None or (len(options.topics) == 1 and not set(options.topics[0]) & set("*?["))
