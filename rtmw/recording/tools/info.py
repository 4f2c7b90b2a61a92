"""The contents of a recording, from its index and its side records: no message is read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rtmw.errors import ClosedError, RecordingDamaged, RecordingError
from rtmw.notebook import moment, table
from rtmw.recording.contents import Cause
from rtmw.recording.versions import Sighting, numbered, seen_in
from rtmw.text.units import counted, size

if TYPE_CHECKING:
    from rtmw.recording.contents import Channel
    from rtmw.recording.recording import Recording


_CAUSES: Final = {cause.value: cause.name.lower() for cause in Cause}


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic with messages of one structure: one version of one type."""

    topic: str
    type: str
    """Name of the type or schema; `bytes` for raw bytes."""
    messages: int
    rate: float | None
    """Messages a second, over the whole recording; None: it has no length."""
    missing: dict[str, int]
    """Messages that are missing in this file, by cause."""
    problem: str | None
    """Why its payloads cannot be decoded; None: they can."""
    version: int = 1
    """Version of the type on this topic, from 1, in the order of the versions' first messages in this file."""
    versions: int = 1
    """How many of them there are."""


class _Totals:
    """Totals that follow from the other fields, of a file and of a run."""

    __slots__ = ()
    start_ns: int
    end_ns: int
    topics: tuple[TopicInfo, ...]

    @property
    def topic_count(self) -> int:
        return len({topic.topic for topic in self.topics})

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class RecordingInfo(_Totals):
    """A recording at a glance. Times are wall clock nanoseconds."""

    path: Path
    size: int
    """Bytes of the file."""
    library: str
    """The library that wrote the file."""
    complete: bool
    incomplete_because: str
    messages: int
    start_ns: int
    end_ns: int
    chunks: int
    compression: str
    compresses_messages: bool
    """Each message is compressed by itself, as in bags of ROS 2 with `compression_mode: message`."""
    uncompressed: int
    """Bytes of all chunks."""
    topics: tuple[TopicInfo, ...]
    """Several of one name where its type changed."""
    attachments: int
    host: str
    """Where it was recorded; "" if nobody says."""
    failed: str
    """How the disk failed, as its recorder says; "" if it does not."""
    unknown_missing: int
    """Chunks whose side record is damaged: what was missing before them is not counted."""


def info_of(recording: Recording) -> RecordingInfo:
    """Returns what is known of an open recording. Raises RecordingError, OSError."""
    about = recorder_of(recording)
    missing, unknown = _missing(recording, about)
    return RecordingInfo(
        recording.path,
        recording._file.size,
        recording.header.library,
        recording.complete,
        recording.incomplete_because,
        recording.message_count,
        recording.start_ns,
        recording.end_ns,
        len(recording.chunks),
        ", ".join(sorted({chunk.compression or "none" for chunk in recording.chunks})) or "none",
        recording.compresses_messages,
        sum(chunk.uncompressed_size for chunk in recording.chunks),
        tuple(_topics(recording, missing)),
        len(recording.attachments),
        about.get("host", ""),
        about.get("failed", ""),
        unknown,
    )


@dataclass(frozen=True, slots=True)
class RunInfo(_Totals):
    """Several recordings as one run."""

    files: int
    size: int
    """Bytes of all files."""
    messages: int
    start_ns: int
    end_ns: int
    chunks: int
    topics: tuple[TopicInfo, ...]
    """Several of one name where its type changed. Rates are over the whole run."""
    incomplete: int
    """Files that are not complete."""


def run_of(recordings: Sequence[RecordingInfo]) -> RunInfo:
    """The totals of several recordings, and their overall span."""
    filled = [one for one in recordings if one.messages]
    start_ns, end_ns = min((o.start_ns for o in filled), default=0), max((o.end_ns for o in filled), default=0)
    found: dict[tuple[str, str], list[TopicInfo]] = {}
    for topic in (topic for one in recordings for topic in one.topics):
        found.setdefault((topic.topic, topic.type), []).append(topic)
    return RunInfo(
        len(recordings),
        sum(one.size for one in recordings),
        sum(one.messages for one in recordings),
        start_ns,
        end_ns,
        sum(one.chunks for one in recordings),
        tuple(_summed(found[key], (end_ns - start_ns) / 1e9) for key in sorted(found)),
        sum(not one.complete for one in recordings),
    )


def _summed(parts: Sequence[TopicInfo], seconds: float) -> TopicInfo:
    messages, missing = sum(part.messages for part in parts), Counter[str]()
    for part in parts:
        missing.update(part.missing)
    problem = next((part.problem for part in parts if part.problem), None)
    rate = messages / seconds if seconds else None
    first = parts[0]  # versions are numbered in each file by itself, so they are not those of the run
    return TopicInfo(first.topic, first.type, messages, rate, dict(missing), problem)


def recorder_of(recording: Recording) -> dict[str, str]:
    """The metadata that the recorder wrote about itself at the end; empty where it could not."""
    for name, values in reversed(recording.metadata):
        if name == "rtmw.recorder":
            return values
    return {}


def _missing(recording: Recording, about: dict[str, str]) -> tuple[Counter[tuple[int, str]], int]:
    """Returns how many messages are missing by channel and cause, and how many side records could not be read.

    The counts are from the side records: the recorder's own totals are of all its files until then. Only what the
    disk did not take is in no side record; the recorder ended there, so its total is of this file.
    """
    found, unknown = Counter[tuple[int, str]](), 0
    for chunk in recording.chunks:
        try:
            for missed in recording.missed(chunk):
                found[missed.channel, _CAUSES.get(missed.cause, f"cause {missed.cause}")] += missed.count
        except RecordingDamaged:
            unknown += 1
    for topic, channels in recording.topics().items():
        if unwritten := _unwritten(about, topic):
            found[channels[-1].id, "unwritten"] += unwritten
    return found, unknown


def _unwritten(about: dict[str, str], topic: str) -> int:
    try:
        return int(json.loads(about.get("topics", "{}")).get(topic, {}).get("unwritten", 0))
    except (ValueError, AttributeError, TypeError):
        return 0


def _topics(recording: Recording, missing: Counter[tuple[int, str]]) -> Iterator[TopicInfo]:
    """Yields the topics by name; a topic whose type changed comes once for each structure that its messages have."""
    counts, seconds = seen_in(recording.chunks), (recording.end_ns - recording.start_ns) / 1e9
    for topic, channels in sorted(recording.topics().items()):
        seen = {channel.id: _sighting(recording, channel, counts.get(channel.id, (0, 0))) for channel in channels}
        for version in numbered(seen.values()):
            alike = {number for number, one in seen.items() if version.has(one.type_name, one.description, one.problem)}
            causes = Counter[str]()
            for (number, cause), count in missing.items():
                causes[cause] += count if number in alike else 0
            rate = version.messages / seconds if seconds else None
            about = (topic, version.type_name, version.messages, rate, dict(+causes), version.problem or None)
            yield TopicInfo(*about, version.number, version.of)


def _sighting(recording: Recording, channel: Channel, seen: tuple[int, int]) -> Sighting:
    description, problem = recording.described(channel)
    return Sighting(recording.type_name(channel), description, problem, channel.topic, *seen)


def as_html(title: str, recordings: Sequence[Recording], left_out: Sequence[str] = ()) -> str:
    """Returns a table for notebooks: topics, types, messages, span, and what is missing."""
    try:
        infos = [info_of(recording) for recording in recordings]
    except (RecordingError, ClosedError) as error:
        return table(title, (), (), [str(error), *left_out])
    run = run_of(infos)
    span = f", from {moment(run.start_ns)} to {moment(run.end_ns)}" if run.messages else ""
    about = f"{counted(run.messages, 'message')} in {counted(run.files, 'file')} of {size(run.size)}{span}"
    rows = [(one.topic, one.type, one.messages, one.rate, _missing_words(one), one.problem) for one in run.topics]
    incomplete = [f"{one.path} is not complete: {one.incomplete_because}" for one in infos if not one.complete]
    notes = (about, *incomplete, *(f"left out: {reason}" for reason in left_out))
    return table(title, ("topic", "type", "messages", "per second", "missing", "not decoded"), rows, notes)


def _missing_words(topic: TopicInfo) -> str:
    return ", ".join(f"{count:,} {cause}" for cause, count in topic.missing.items())
