"""The contents of the recordings of a read: from their indexes alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rtmw.errors import RecordingError
from rtmw.patterns import is_among, is_meant, is_pattern
from rtmw.recording import Channel, Chunk, Recording
from rtmw.recording.frames.scan import Stream, sightings
from rtmw.recording.frames.scan import stream_of as table_stream
from rtmw.recording.places import place
from rtmw.recording.versions import LATEST, Version, chosen_version, dds_name, some, versions_of
from rtmw.spark.files import local, recordings_of
from rtmw.spark.options import ReadOptions


@dataclass(frozen=True)
class Surveyed:
    """A recording: its chunks, and the channels that are wanted."""

    path: Path
    chunks: tuple[Chunk, ...]
    streams: dict[int, Stream]


def survey(options: ReadOptions) -> list[Surveyed]:
    """The recordings of a read. Raises RecordingError, and ValueError when no topic is as it was asked for."""
    found = [*_found(recordings_of(options.paths), options)]
    check_found(found, options)
    surveyed = [surveyed for surveyed, _ in found]
    return surveyed if options.type_version is None else of_version(surveyed, options)


def _found(paths: list[Path], options: ReadOptions) -> Iterator[tuple[Surveyed, set[str]]]:
    """A file in a folder, or of a pattern, that is no recording, or whose beginning or index is damaged, is left out,
    unless incomplete ones are refused."""
    named = {place(local(path)).absolute() for path in options.paths}
    for path in paths:
        try:
            yield look_into(path, options)
        except (RecordingError, FileNotFoundError) as error:
            if path in named or options.incomplete == "fail" or len(paths) == 1:
                raise
            if options.incomplete == "warn":
                warnings.warn(f"{error}; it is left out", stacklevel=2)


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
    if not is_wanted(channel.topic, recording.type_name(channel), options):
        return None
    return table_stream(recording, channel, has_columns(options) or options.type_version is not None)


def is_wanted(topic: str, type_name: str, options: ReadOptions) -> bool:
    if options.type is not None and dds_name(type_name) != dds_name(options.type):
        return False
    return not options.topics or is_among(topic, options.topics)


def check_found(found: list[tuple[Surveyed, set[str]]], options: ReadOptions) -> None:
    """Each topic and type that was asked for has to be somewhere. Raises ValueError."""
    topics = sorted({topic for _, there in found for topic in there})
    wanted = {stream.topic for surveyed, _ in found for stream in surveyed.streams.values()}
    for pattern in options.topics:
        if not any(is_meant(topic, pattern) for topic in wanted):
            what = f"topic {pattern!r}" + (f" with messages of {options.type}" if options.type else "")
            raise ValueError(f"no {what} in {len(found)} recording(s); there are {some(topics)}")
    if options.type is not None and not wanted:
        raise ValueError(f"no messages of type {options.type!r} in {len(found)} recording(s)")


# ---- of which type the columns are ----


def versions_in(surveyed: Iterable[Surveyed]) -> list[Version]:
    """The versions of all types whose messages are wanted."""
    return versions_of(sighting for one in surveyed for sighting in sightings(one.chunks, one.streams))


def of_version(surveyed: list[Surveyed], options: ReadOptions) -> list[Surveyed]:
    """The recordings with only the streams of the version that is asked for. Raises ValueError where there is none."""
    chosen = chosen_version(versions_in(surveyed), options.type_version or LATEST)
    return [_only(one, chosen) for one in surveyed]


def _only(one: Surveyed, version: Version) -> Surveyed:
    found = {n: s for n, s in one.streams.items() if version.has(s.type_name, s.description, s.problem)}
    return replace(one, streams=found)


def merged_of(surveyed: Iterable[Surveyed], options: ReadOptions) -> tuple[bytes, ...]:
    """The type whose members become columns: descriptions of its versions, the oldest first; none: payloads.

    Raises ValueError where one topic, or a type, is asked for by name, and has several types, or one that cannot be
    read; several topics, or a pattern, get columns if their messages are of one type.
    """
    versions = versions_in(surveyed) if has_columns(options) else []
    names = {dds_name(version.type_name) for version in versions}
    problems = [version.problem for version in versions if version.problem]
    if is_named(options) and len(names) > 1:
        raise ValueError(
            f"messages of {len(names)} types are meant, and columns can be those of one; there are {some(versions)}. "
            'Choose with .option("type", …), or take payloads with .option("typed", "false")'
        )
    if is_named(options) and problems:
        raise ValueError(f"{problems[0]}; {remedy(versions)}")
    if len(names) != 1 or problems:
        return ()
    return tuple(version.description for version in versions if version.description is not None)


def remedy(versions: Sequence[Version]) -> str:
    """The remedy where the versions of a type have no columns in common."""
    if len(versions) == 1:
        return f'.option("typed", "false") gives payloads of {versions[0].type_name}'
    numbers = ", ".join(str(version.number) for version in versions if not version.problem)
    choice = f'choose one with .option("type_version", …), of {numbers}, or ' if numbers else ""
    return f'there are {some(versions)}; {choice}take payloads with .option("typed", "false")'


def has_columns(options: ReadOptions) -> bool:
    """May members become columns? Otherwise types are not looked up."""
    return options.typed and bool(options.topics or options.type)


def is_named(options: ReadOptions) -> bool:
    return options.type is not None or (len(options.topics) == 1 and not is_pattern(options.topics[0]))
