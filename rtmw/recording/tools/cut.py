"""A part of a recording: some topics, some time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rtmw.errors import RecordingError
from rtmw.patterns import is_among, is_meant
from rtmw.recording.recording import Recording
from rtmw.recording.tools.copying import Copier, Progress, Written, no_progress, writer_like
from rtmw.recording.tools.latched import latched
from rtmw.recording.tools.whole import written_whole


@dataclass(frozen=True, slots=True)
class Section:
    """What is wanted."""

    topics: tuple[str, ...] | None = None
    """Names or patterns; None: all."""
    start: float | None = None
    """Seconds since the recording began."""
    end: float | None = None
    """The first moment that does not belong to it any more."""

    def names(self, recording: Recording) -> list[str] | None:
        """The topics that are meant. Raises RecordingError for a pattern that fits none."""
        known = sorted(recording.topics())
        if self.topics is None:
            return None
        for pattern in self.topics:
            if not any(is_meant(name, pattern) for name in known):
                raise RecordingError(f"{recording.path} has no topic {pattern}; it has {', '.join(known) or 'none'}")
        return [name for name in known if is_among(name, self.topics)]

    def span(self, recording: Recording) -> tuple[int | None, int | None]:
        """In nanoseconds, of its log times. Raises RecordingError where it ends before it begins."""
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise RecordingError(f"a section from {self.start} s to {self.end} s has no time in it")
        moments = (None if s is None else recording.start_ns + round(s * 1e9) for s in (self.start, self.end))
        first, last = moments
        return first, last


def cut(source: Path, target: Path, section: Section, progress: Progress = no_progress) -> Written:
    """Writes a section of a recording as a new one, with what was latched at its start and attachments of its time.

    Raises FileExistsError, RecordingError for topics that are not there, RecordingDamaged, OSError.
    """
    with Recording(source) as recording, written_whole(target) as temporary:
        names, (start_ns, end_ns) = section.names(recording), section.span(recording)
        chosen = {n: c for n, c in recording.channels.items() if names is None or c.topic in names}
        chunks = recording.select(names, start_ns, end_ns)
        with writer_like(temporary, [recording]) as writer:
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
    return copier.written()
