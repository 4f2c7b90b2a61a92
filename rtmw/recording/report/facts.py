"""All that a report tells: what the files say, and the figures of their messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rtmw.recording.recording import Recording
from rtmw.recording.report.gather import Gathered, numbered
from rtmw.recording.tools.copying import Progress

if TYPE_CHECKING:
    from rtmw.recording.contents import Chunk
    from rtmw.recording.report.contents import Contents
    from rtmw.recording.report.figures import TopicFigures
    from rtmw.recording.report.grid import Grid

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
