"""A part of a recording: some topics, some time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rtmw.errors import RecordingError
from rtmw.patterns import is_meant
from rtmw.recording.recording import Recording
from rtmw.recording.times import Moment, moment_ns, moment_said
from rtmw.recording.tools.copying import Copier, Progress, Written, no_progress, writer_like
from rtmw.recording.tools.latched import latched
from rtmw.recording.tools.whole import written_whole


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
        """Of these topics those that are meant, and none if it has none of them."""
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
        """Those recordings, open, whose own time the section is not beside. Raises RecordingError if there is none."""
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
    """From the first message of all to the last."""
    return (max(one.end_ns for one in full) - min(one.start_ns for one in full)) / 1e9


def _ending(full: Sequence[Recording], asked: Moment | None) -> str:
    """When they end, as the moment that was asked for is said."""
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
