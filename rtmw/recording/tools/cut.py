"""A part of a recording: some topics, some time.

A section has the messages latched at the moment at which it begins, too, as the next file of a recorder has: the last
message of each publisher, that is, of channels whose publishers kept some for late subscribers. Recordings of others do
not say who published what: of them, as many messages as the channel had publishers of that kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rtmw.errors import RecordingError
from rtmw.patterns import is_meant
from rtmw.recording.batch import CARRIED, CARRIED_MOST, Batch
from rtmw.recording.recording import Recording
from rtmw.recording.schemas.ros2_qos import QOS_KEY, is_latched, offered
from rtmw.recording.times import Moment, moment_ns, moment_said
from rtmw.recording.tools.copying import Copier, Progress, Written, no_progress, writer_like
from rtmw.recording.tools.whole import written_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.contents import Chunk


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
