"""All that a report tells: what indexes and side records say before a message is read, and the figures of messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtmw.errors import RecordingError
from rtmw.recording.recording import Recording
from rtmw.recording.recordings import info
from rtmw.recording.report.figures import Gathered, Measuring, Run, numbered
from rtmw.recording.tools.copying import Progress, no_progress
from rtmw.recording.tools.info import RecordingInfo, RunInfo, recorder_of, run_of

if TYPE_CHECKING:
    from rtmw.recording.contents import Chunk
    from rtmw.recording.report.figures import Grid, TopicFigures


@dataclass(frozen=True)
class File:
    """A recording, and what its recorder said of itself."""

    info: RecordingInfo
    recorder: dict[str, str]
    """Empty: it said nothing, because it was killed or is not rtmw's."""

    def moment(self, name: str, otherwise: int) -> int:
        """A time that the recorder told."""
        try:
            return int(self.recorder[name])
        except (KeyError, ValueError):
            return otherwise

    @property
    def known(self) -> list[str]:
        """Topics that were there, or were named, when the recorder began."""
        try:
            told: Any = json.loads(self.recorder.get("known", "[]"))
            return [str(topic) for topic in told]
        except (ValueError, TypeError):
            return []


@dataclass(frozen=True)
class Contents:
    """Several recordings as one."""

    files: tuple[File, ...]
    unreadable: tuple[str, ...]
    """A sentence for each file that is no recording, or is damaged where it begins."""

    @cached_property
    def run(self) -> RunInfo:
        return run_of([file.info for file in self.files])

    @property
    def known(self) -> frozenset[str]:
        return frozenset(topic for file in self.files for topic in file.known)

    @property
    def since_ns(self) -> int:
        """When the first recorder began; of one that does not say, its first message."""
        return min((file.moment("started_ns", file.info.start_ns) for file in self._filled), default=0)

    @property
    def until_ns(self) -> int:
        """When the last recorder ended; of one that does not say, its last message."""
        return max((file.moment("ended_ns", file.info.end_ns) for file in self._filled), default=0)

    @property
    def _filled(self) -> list[File]:
        return [file for file in self.files if file.info.messages or "ended_ns" in file.recorder]

    @property
    def bases(self) -> tuple[int, ...]:
        """The number of the first message of each file."""
        return tuple(accumulate((file.info.messages for file in self.files[:-1]), initial=0))

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of recorders, by their begin. Files that do not say it go with those that lie before them."""
        found: dict[str, list[File]] = {}
        begun = ""
        for file in self.files:
            begun = file.recorder.get("started_ns", begun)
            found.setdefault(begun, []).append(file)
        runs = [_run([file for file in files if file.info.messages or file.recorder]) for files in found.values()]
        return tuple(sorted((run for run in runs if run is not None), key=lambda run: run.since_ns))

    def measuring(self, grid: Grid) -> Measuring:
        return Measuring(grid, self.runs, self.bases)


def _run(files: Sequence[File]) -> Run | None:
    """Returns the run that files make up together; None: there are no files."""
    if not files:
        return None
    known = frozenset(topic for file in files for topic in file.known)
    return Run(
        min(file.moment("started_ns", file.info.start_ns) for file in files),
        max(file.moment("ended_ns", file.info.end_ns) for file in files),
        known,
        known | {topic.topic for file in files for topic in file.info.topics},
    )


def contents_of(paths: Sequence[Path], progress: Progress = no_progress) -> Contents:
    """Raises OSError, and RecordingError if none of the files can be read."""
    files, unreadable, errors = list[File](), list[str](), list[Exception]()
    for number, path in enumerate(paths):
        progress(number, len(paths))
        try:
            with Recording(path) as recording:
                told = recorder_of(recording)
            files.append(File(info(path), told))
        except (RecordingError, FileNotFoundError) as error:
            errors.append(error)
            unreadable.append(str(error) if isinstance(error, RecordingError) else f"{path} is a link to nothing")
    if not files and errors:
        raise errors[0]
    return Contents(tuple(files), tuple(unreadable))


Measured = tuple[tuple["TopicFigures", ...], tuple[str, ...]]
"""The figures of each topic, by name, and a sentence for each chunk that could not be read."""

Measure = Callable[["Contents", "Grid", Progress], Measured]
"""The function that reads the messages of recordings; it reports how much is done, and how much that is of."""


@dataclass(frozen=True)
class Facts:
    """The facts about recordings from which a report is made."""

    contents: Contents
    grid: Grid
    topics: tuple[TopicFigures, ...]
    """The topics with messages, by name."""
    damage: tuple[str, ...]

    @property
    def has_deadline(self) -> bool:
        return self.grid.deadline_ns is not None

    @cached_property
    def never_heard(self) -> list[str]:
        """Topics that were known, or have a channel, and of which there is no message."""
        there = {topic.topic for topic in self.contents.run.topics} | self.contents.known
        return sorted(there - {one.topic for one in self.topics}) if not self.damage else []

    @cached_property
    def _missing(self) -> Counter[str]:
        found = Counter[str]()
        for topic in self.contents.run.topics:
            found[topic.topic] += sum(topic.missing.values())
        return found

    def missing_of(self, topic: str) -> int:
        """Messages that the recorder says are missing, of whatever cause."""
        return self._missing[topic]

    @cached_property
    def changed(self) -> set[str]:
        """Topics whose type changed within a file, or from one to another."""
        types: dict[str, set[str]] = {}
        for file in self.contents.files:
            for topic in file.info.topics:
                types.setdefault(topic.topic, set()).add(topic.type)
        several = {t.topic for file in self.contents.files for t in file.info.topics if t.versions > 1}
        return several | {topic for topic, names in types.items() if len(names) > 1}


def measured_here(contents: Contents, grid: Grid, progress: Progress) -> Measured:
    """Measures in this process: it reads each chunk once, and takes about 16 bytes of memory a message, and 46 more
    for each message of the largest topic. Raises OSError."""
    gathered, measuring, counter = Gathered(), contents.measuring(grid), _Counter(contents.run.messages, progress)
    for file, base in zip(contents.files, contents.bases, strict=True):
        with Recording(file.info.path) as recording:
            gathered.add(recording, counter.read(numbered(recording)), base)
    figures: list[TopicFigures] = []
    for topic, rows in gathered.topics():
        figures.append(measuring.figures(topic, rows))
        counter.add(figures[-1].messages)
    return tuple(figures), tuple(gathered.damage)


class _Counter:
    """Tells progress: each message counts when it was read, and again when its topic was measured."""

    def __init__(self, messages: int, progress: Progress) -> None:
        self._done, self._all, self._progress = 0, 2 * messages, progress

    def add(self, messages: int) -> None:
        self._done += messages
        self._progress(self._done, self._all)

    def read(self, chunks: Iterable[tuple[Chunk, int]]) -> Iterator[tuple[Chunk, int]]:
        """The chunks, each counted when the next one is asked for."""
        for chunk, first in chunks:
            yield chunk, first
            self.add(chunk.message_count)


def busiest(topics: Iterable[TopicFigures], most: int) -> list[TopicFigures]:
    """Returns the `most` topics with the most messages, or fewer if there are fewer."""
    return sorted(topics, key=lambda one: (-one.messages, one.topic))[:most]
