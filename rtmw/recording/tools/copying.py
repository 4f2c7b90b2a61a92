"""From recordings into a new one: a part of one, several as one in the order of their times, or with attachments put
in.

Schemas and channels get new numbers, and messages are copied in bulk.

A part of a recording has the messages latched at the moment at which it begins, too, as the next file of a recorder
has: the last message of each publisher, that is, of channels whose publishers kept some for late subscribers.
Recordings of others do not say who published what: of them, as many messages as the channel had publishers of that
kind.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from rtmw.clock import CLOCK
from rtmw.errors import RecordingError
from rtmw.recording.batch import (
    CARRIED,
    CARRIED_MOST,
    COLUMNS,
    Batch,
    CarriedOver,
    MessageFilter,
    Stretch,
    in_order,
    placed,
)
from rtmw.recording.contents import Attachment, Channel, Moment, Schema, moment_ns, moment_said
from rtmw.recording.places import written_whole
from rtmw.recording.recording import Recording
from rtmw.recording.schemas.ros2 import QOS_KEY, is_latched, offered
from rtmw.recording.versions import some
from rtmw.recording.writer import Definitions, RecordingWriter
from rtmw.text.patterns import is_meant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.contents import Chunk


Progress = Callable[[int, int], None]
"""Told now and then: so much is done, of so much."""


def no_progress(_done: int, _all: int) -> None:
    """A progress that nobody looks at."""


@dataclass(frozen=True, slots=True)
class Written:
    """The messages and attachments that a new recording has of its sources."""

    messages: int
    attachments: int = 0
    attachments_left_out: int = 0
    """Logged outside of the time that was asked for."""
    carried: int = 0
    """Messages from before that time, that late subscribers would have got at its begin."""

    @property
    def is_empty(self) -> bool:
        return not self.messages + self.attachments + self.carried


class Copier:
    """Writes what others hold."""

    def __init__(self, writer: RecordingWriter) -> None:
        self.writer = writer
        self._latest_ns = 0
        """Log time of what was written."""
        self.messages = self.attachments = self.attachments_left_out = self.carried = 0

    def written(self) -> Written:
        """All until now."""
        return Written(self.messages, self.attachments, self.attachments_left_out, self.carried)

    def define(self, schemas: Mapping[int, Schema], channels: Mapping[int, Channel]) -> dict[int, int]:
        """Enters channels with their schemas; from their numbers to the new ones."""
        return {number: self._channel(schemas, channel) for number, channel in channels.items()}

    def _channel(self, schemas: Mapping[int, Schema], channel: Channel) -> int:
        schema = schemas.get(channel.schema_id)
        number = self.writer.schema(schema.name, schema.encoding, schema.data) if schema else 0
        return self.writer.channel(channel.topic, number, channel.message_encoding, channel.metadata)

    def add(self, batch: Batch, numbers: Mapping[int, int]) -> None:
        """Messages, and what the recorder missed before them, of channels that have a number."""
        if len(batch):
            rows: Any = placed(batch, self._latest_ns)
            self._latest_ns = max(self._latest_ns, int(rows.log_time.max()))
            self.writer.write_batch(rows, numbers)
            self.messages += len(batch)
        for missed in batch.missed:
            if missed.channel in numbers:
                self.writer.missed(numbers[missed.channel], missed.cause, missed.count)

    def carry(self, batches: Iterable[Batch], numbers: Mapping[int, int]) -> None:
        """Add the messages that were latched before the first message."""
        before = self.messages
        for batch in batches:
            self.add(batch, numbers)
        self.carried += self.messages - before

    def add_attachments(self, recording: Recording, start_ns: int | None = None, end_ns: int | None = None) -> None:
        """Copies attachments with start_ns <= log time < end_ns. Raises RecordingDamaged for one that does not match
        its CRC."""
        for about in recording.attachments:
            is_late = end_ns is not None and about.log_time >= end_ns
            if is_late or (start_ns is not None and about.log_time < start_ns):
                self.attachments_left_out += 1
            else:
                self.add_attachment(about, recording.attachment(about))

    def add_attachment(self, about: Attachment, data: bytes) -> None:
        times = {"log_time": about.log_time, "create_time": about.create_time}
        self.writer.attachment(about.name, data, media_type=about.media_type, **times)
        self.attachments += 1

    def add_metadata(self, recording: Recording) -> None:
        """All of its metadata records."""
        for name, values in recording.metadata:
            self.writer.metadata(name, values)


def writer_like(path: Path, recordings: Sequence[Recording], compression: str | None = None) -> RecordingWriter:
    """Returns a writer for a new recording, with the profile that all have. `compression` None: as in the first
    chunk of the first recording."""
    chunks = (chunk.compression for chunk in recordings[0].chunks if not chunk.is_run)
    (profile, *others) = {recording.header.profile for recording in recordings}
    definitions = Definitions("" if others else profile)
    return RecordingWriter(path, compression=compression or next(chunks, "lz4") or "none", definitions=definitions)


_Found = tuple[int, Batch]
"""A message: when it came, and a batch that has it alone."""


def latched(recording: Recording, channels: Collection[int], at_ns: int) -> list[Batch]:
    """The messages of these channels, one a batch, in the order in which they came; without those expired by then."""
    counts = {number: _count(recording, number) for number in channels}
    search = _Search(recording, {number: count for number, count in counts.items() if count}, at_ns)
    earlier = [chunk for chunk in recording.chunks if chunk.counts and chunk.start_ns < at_ns]
    for chunk in sorted(earlier, key=lambda chunk: -chunk.end_ns):
        search.look_into(chunk)
    return search.carried()


def _count(recording: Recording, channel: int) -> int:
    """How many messages are latched: of each publisher, or, where nobody says whose they are, of all."""
    metadata = recording.channels[channel].metadata
    if recording.header.is_ours and metadata.get("rtmw.history", "0") != "0":
        return 1
    return sum(map(is_latched, offered(metadata.get(QOS_KEY, ""))))


class _Search:
    def __init__(self, recording: Recording, counts: Mapping[int, int], at_ns: int) -> None:
        self._recording, self._counts, self._at_ns = recording, counts, at_ns
        self._found: dict[int, dict[int, list[_Found]]] = {channel: {} for channel in counts}
        """Messages that were found, by channel and publisher, the newest last."""

    def look_into(self, chunk: Chunk) -> None:
        """All chunks that end later have been looked into."""
        channels = self._counts.keys() & chunk.counts.keys()
        wanted = [channel for channel in channels if self._lacks(channel, chunk.end_ns)]
        if not wanted:
            return
        batch = self._recording.read(chunk)
        early = batch.where(batch.log_time < self._at_ns)
        times = np.where(early.flags & CARRIED, early.publish_time, early.log_time)
        for channel in wanted:
            rows = np.flatnonzero(early.channel == channel)
            self._see(channel, early, times, rows[np.argsort(times[rows], kind="stable")])

    def _lacks(self, channel: int, end_ns: int) -> bool:
        """Could a chunk that ends then have a message that is missing?"""
        found = self._found[channel]
        if self._recording.header.is_ours:
            return len(found) < CARRIED_MOST
        return sum(time > end_ns for time, _ in found.get(0, ())) < self._counts[channel]

    def _see(self, channel: int, batch: Batch, times: NDArray[np.int64], rows: NDArray[np.intp]) -> None:
        """Rows of this channel, in the order in which they came. No more than what is wanted is kept in memory."""
        count = self._counts[channel]
        for publisher in np.unique(batch.publisher[rows]).tolist():
            found = self._found[channel].setdefault(publisher, [])
            for row in rows[batch.publisher[rows] == publisher][-count:]:
                found.append((int(times[row]), _alone(batch, row)))
            found.sort(key=lambda item: item[0])
            del found[:-count]

    def carried(self) -> list[Batch]:
        found = [item for publishers in self._found.values() for items in publishers.values() for item in items]
        found.sort(key=lambda item: item[0])
        return [self._carry(batch) for _, batch in found if not 0 < int(batch.expires[0]) <= self._at_ns]

    def _carry(self, batch: Batch) -> Batch:
        begin = np.full_like(batch.log_time, self._at_ns)
        return batch.having(log_time=begin, flags=batch.flags | CARRIED)


def _alone(batch: Batch, row: np.intp) -> Batch:
    """A message, without the chunk in which it lies: there may be many."""
    one = batch.where(np.array([row]))
    columns = one.having(position=np.zeros_like(one.position))
    return Batch(one.chunk, bytes(one.payload(0)), columns.make)


@dataclass(frozen=True, slots=True)
class Section:
    """The topics and the time range of a section."""

    topics: tuple[str, ...] | None = None
    """Names or patterns; None: all."""
    start: Moment | None = None
    """Seconds since the recording began, or a date and time."""
    end: Moment | None = None
    """The first moment that does not belong to it any more."""

    def names(self, *recordings: Recording) -> list[str] | None:
        """The topics that are meant. Raises RecordingError for a pattern that fits none of any."""
        known = sorted({name for recording in recordings for name in recording.topics()})
        if self.topics is None:
            return None
        for pattern in self.topics:
            if not any(is_meant(name, pattern) for name in known):
                where = ", ".join(str(recording.path) for recording in recordings)
                has = "has" if len(recordings) == 1 else "have"
                raise RecordingError(f"{where} {has} no topic {pattern}; there are {', '.join(known) or 'none'}")
        return self.meant(known)

    def meant(self, known: Iterable[str]) -> list[str] | None:
        """Returns those of the known topics that are wanted; an empty list: it has none of them; None: all are
        wanted."""
        if self.topics is None:
            return None
        return [name for name in known if any(is_meant(name, pattern) for pattern in self.topics)]

    def span(self, *recordings: Recording) -> tuple[int | None, int | None]:
        """In nanoseconds, of log times, from where the first one begins. Raises RecordingError where it ends before."""
        first_ns, last_ns = self._moments(recordings)
        if first_ns is not None and last_ns is not None and last_ns <= first_ns:
            raise RecordingError(f"a section from {_said(self.start)} to {_said(self.end)} has no time in it")
        return first_ns, last_ns

    def refuse_beside(self, *recordings: Recording) -> None:
        """Raises RecordingError where it is beside the time of all of these."""
        why = self._beside(recordings)
        if why is not None:
            raise RecordingError(why)

    def each(self, sources: Sequence[Path]) -> Iterator[Recording]:
        """Yields the recordings, open, that the section touches. Raises RecordingError if it touches none."""
        beside, found = dict[str, float](), False
        for path in sources:
            with Recording(path) as recording:
                why = self._beside([recording])
                if why is not None:
                    beside[why] = _seconds([recording])
                    continue
                found |= recording.message_count > 0
                yield recording
        if beside and not found:
            others = f"; there are {len(beside)} recordings, and this is the longest" if len(beside) > 1 else ""
            raise RecordingError(max(beside, key=beside.__getitem__) + others)

    def _moments(self, recordings: Sequence[Recording]) -> tuple[int | None, int | None]:
        begin_ns = min((recording.start_ns for recording in recordings if recording.message_count), default=0)
        first, last = (None if one is None else moment_ns(one, begin_ns) for one in (self.start, self.end))
        return first, last

    def _beside(self, recordings: Sequence[Recording]) -> str | None:
        """Why the section has nothing of any: it is before or behind all that they hold, as their indexes say."""
        full = [recording for recording in recordings if recording.message_count]
        first_ns, last_ns = self._moments(full)
        if not full or any(recording.select(None, first_ns, last_ns) for recording in full):
            return None
        if first_ns is not None and first_ns > max(one.end_ns for one in full):
            beside = f"a section from {_said(self.start)} on has nothing of {_ending(full, self.start)}"
            return f"{beside}: let it begin before that"
        begin_ns = min(one.start_ns for one in full)
        if last_ns is not None and last_ns <= begin_ns:
            least = _date(begin_ns) if isinstance(self.end, datetime) else "0 s"
            beside = f"a section up to {_said(self.end)} has nothing of {_ending(full, self.end)}"
            return f"{beside}: let it end after {least}"
        return None


def _seconds(full: Sequence[Recording]) -> float:
    """Returns the seconds from the first message of all to the last."""
    return (max(one.end_ns for one in full) - min(one.start_ns for one in full)) / 1e9


def _ending(full: Sequence[Recording], asked: Moment | None) -> str:
    """Says when recordings end, in the form in which the moment was asked for."""
    at = f"at {_date(max(one.end_ns for one in full))}, " if isinstance(asked, datetime) else ""
    if len(full) == 1:
        return f"{full[0].path}, which ends {at}{_seconds(full):.12g} s after it began"
    return f"{len(full)} recordings, which end {at}{_seconds(full):.12g} s after the first of them began"


def _said(moment: Moment | None) -> str:
    return "" if moment is None else moment_said(moment)


def _date(ns: int) -> str:
    return moment_said(datetime.fromtimestamp(ns / 1e9, UTC))


ALL = Section()


def cut(
    source: Path, target: Path, section: Section, progress: Progress = no_progress, compression: str | None = None
) -> Written:
    """Writes a section of a recording as a new one, with what was latched at its start and attachments of its time.

    `compression`: lz4, zstd or none; None: as it was.

    Raises FileExistsError, RecordingError for topics that are not there and where nothing was to be written because the
    section is beside the time of the recording, RecordingDamaged, OSError.
    """
    with Recording(source) as recording, written_whole(target) as temporary:
        names, (start_ns, end_ns) = section.names(recording), section.span(recording)
        chosen = {n: c for n, c in recording.channels.items() if names is None or c.topic in names}
        chunks = recording.select(names, start_ns, end_ns)
        with writer_like(temporary, [recording], compression) as writer:
            copier = Copier(writer)
            numbers = copier.define(recording.schemas, chosen)
            if start_ns is not None:
                copier.carry(latched(recording, chosen, start_ns), numbers)
            for done, batch in enumerate(recording.batches(names, start_ns, end_ns), 1):
                copier.add(batch, numbers)
                progress(min(done, len(chunks)), len(chunks))
            copier.add_attachments(recording, start_ns, end_ns)
            copier.add_metadata(recording)
            writer.metadata("rtmw.cut", {"from": source.name, "topics": ", ".join(names or ("*",))})
        if copier.written().is_empty:
            section.refuse_beside(recording)
    return copier.written()


@dataclass(slots=True)
class _Joined:
    """Rows of several chunks in one memory; the channels under their new numbers."""

    data: bytes | memoryview
    channel: NDArray[Any]
    sequence: NDArray[Any]
    log_time: NDArray[Any]
    publish_time: NDArray[Any]
    position: NDArray[Any]
    size: NDArray[Any]
    priority: NDArray[Any]
    publisher: NDArray[Any]
    expires: NDArray[Any]
    flags: NDArray[Any]

    def where(self, mask: NDArray[np.bool_]) -> _Joined:
        columns = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "data"}
        return _Joined(self.data, **{name: column[mask] for name, column in columns.items()})


def merge(
    sources: Sequence[Path],
    target: Path,
    progress: Progress = no_progress,
    section: Section = ALL,
    compression: str | None = None,
) -> Written:
    """Writes messages and attachments of several recordings as one. What was carried over comes once.

    `section`: topics that one of them has, and seconds since the first of them began; unlike `cut`, nothing is carried
    over from before. `compression`: lz4, zstd or none; None: as the first one is.
    Raises FileExistsError, RecordingError for topics that are not there and where nothing was to be written because the
    section is beside the time of all of them, RecordingDamaged, OSError.
    """
    with ExitStack() as opened:
        recordings = [opened.enter_context(Recording(path)) for path in sources]
        temporary = opened.enter_context(written_whole(target))
        with writer_like(temporary, recordings, compression) as writer:
            written = _merge(recordings, writer, progress, section)
        if written.is_empty:
            section.refuse_beside(*recordings)
        return written


def _merge(recordings: Sequence[Recording], writer: RecordingWriter, progress: Progress, section: Section) -> Written:
    copier = Copier(writer)
    names, (start_ns, end_ns) = section.names(*recordings), section.span(*recordings)
    numbers = [
        copier.define(one.schemas, {n: c for n, c in one.channels.items() if names is None or c.topic in names})
        for one in recordings
    ]
    topics = sorted({channel.topic for recording in recordings for channel in recording.channels.values()})
    table = _table(numbers)
    topic_of = np.zeros(1 << 16, np.int64)
    for recording, mapping in zip(recordings, numbers, strict=True):
        for number in mapping:
            topic_of[mapping[number]] = topics.index(recording.channels[number].topic)
    carried = CarriedOver(len(topics))
    identity = {number: number for mapping in numbers for number in mapping.values()}
    done, count = 0, sum(recording.message_count for recording in recordings)
    for stretch in in_order(recordings, MessageFilter([frozenset(mapping) for mapping in numbers], start_ns, end_ns)):
        joined = _join(stretch, table)
        again = carried.again(topic_of[joined.channel], joined.publish_time, joined.flags)
        rows: Any = joined.where(~again) if again.any() else joined
        writer.write_batch(rows, identity)
        _miss(stretch, numbers, writer)
        done += len(stretch)
        copier.messages += len(stretch) - int(again.sum())
        progress(done, count)
    for recording, mapping in zip(recordings, numbers, strict=True):
        for chunk in recording.chunks:
            if not chunk.message_count and recording.header.is_ours:
                copier.add(recording.read(chunk), mapping)  # it may say what was missed
        copier.add_attachments(recording, start_ns, end_ns)
        copier.add_metadata(recording)
    writer.metadata("rtmw.merged", {"from": ", ".join(recording.path.name for recording in recordings)})
    return copier.written()


def _miss(stretch: Stretch, numbers: Sequence[dict[int, int]], writer: RecordingWriter) -> None:
    for part in stretch.parts:
        if part.is_first:
            for missed in part.batch.missed:
                if missed.channel in numbers[part.recording]:
                    writer.missed(numbers[part.recording][missed.channel], missed.cause, missed.count)


def _table(numbers: Sequence[dict[int, int]]) -> NDArray[np.uint16]:
    """Returns a table of the new number of each channel of each recording."""
    table = np.zeros((len(numbers), 1 << 16), np.uint16)
    for at, mapping in enumerate(numbers):
        for number, new in mapping.items():
            table[at, number] = new
    return table


def _join(stretch: Stretch, table: NDArray[np.uint16]) -> _Joined:
    parts = stretch.parts
    begins = np.cumsum([0, *(len(part.batch.data) for part in parts)])
    data = parts[0].batch.data if len(parts) == 1 else b"".join(part.batch.data for part in parts)
    columns = {name: stretch.column(name) for name in COLUMNS if name not in ("channel", "position")}
    return _Joined(
        data,
        channel=stretch.each(lambda part: table[part.recording, part.batch.channel]),
        position=stretch.column("position") + begins[stretch.part()],
        **columns,
    )


@dataclass(frozen=True, slots=True)
class Additions:
    """The attachments and metadata that are added to a recording."""

    files: Sequence[Path] = ()
    """Attachments, under the names of the files."""
    metadata: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Tables of texts, by name."""


def attachment_named(recording: Recording, name: str) -> Attachment:
    """The attachment of this name; of several the last one. Raises RecordingError."""
    found = [one for one in recording.attachments if one.name == name]
    if not found:
        names = sorted({one.name for one in recording.attachments})
        raise RecordingError(f"{recording.path} has no attachment {name!r}; there are {some(names)}")
    return found[-1]


def metadata_named(recording: Recording, name: str) -> list[dict[str, str]]:
    """All metadata of this name, in the order of the file. Raises RecordingError."""
    found = [values for known, values in recording.metadata if known == name]
    if not found:
        names = sorted({known for known, _ in recording.metadata})
        raise RecordingError(f"{recording.path} has no metadata {name!r}; there are {some(names)}")
    return found


def file_name(attachment: Attachment) -> str:
    """The name of an attachment as that of a file, without what leads to another folder. Raises RecordingError."""
    name = PurePosixPath(attachment.name.replace("\\", "/")).name
    if not name or name == ".." or "\0" in name:
        raise RecordingError(f"the attachment {attachment.name!r} has no name that a file can have: say which")
    return name


def extract_to(source: Path, name: str, target: Path | None) -> tuple[Path, int]:
    """Writes an attachment as a file; which, and how many bytes. `target` None: under its own name, here.

    Raises FileExistsError, RecordingError, RecordingDamaged for one that does not match its CRC, OSError.
    """
    with Recording(source) as recording:
        about = attachment_named(recording, name)
        path = Path(file_name(about)) if target is None else target
        data = recording.attachment(about)
    with written_whole(path) as temporary:
        temporary.write_bytes(data)
    return path, len(data)


def attach_to(source: Path, target: Path | None, additions: Additions, progress: Progress = no_progress) -> Written:
    """Writes a recording anew, with more attachments and metadata. `target` None: in the place of the old one.

    Raises FileExistsError, RecordingError for one that is not complete, RecordingDamaged, OSError.
    """
    replaces = target is None
    with Recording(source) as recording, written_whole(target or source, replace=replaces) as temporary:
        if not recording.complete:
            raise RecordingError(f"{source} is not complete: {recording.incomplete_because}; recover it first")
        with writer_like(temporary, [recording]) as writer:
            copier = Copier(writer)
            numbers = copier.define(recording.schemas, recording.channels)
            for done, chunk in enumerate(recording.chunks, 1):
                copier.add(recording.read(chunk), numbers)
                progress(done, len(recording.chunks))
            copier.add_attachments(recording)
            copier.add_metadata(recording)
            for file in additions.files:
                copier.add_attachment(*_attachment(file))
            for name, values in additions.metadata.items():
                writer.metadata(name, values)
    return copier.written()


def _attachment(file: Path) -> tuple[Attachment, bytes]:
    """A file as it is attached: logged now, created when it was last written."""
    data, created = file.read_bytes(), file.stat().st_mtime_ns
    media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return Attachment(file.name, media_type, CLOCK.wall_ns(), created, len(data), 0), data
