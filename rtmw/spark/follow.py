"""Recordings that grow: which chunks are there now, and a position behind each of them that a restart understands.

A recorder writes NAME_0.mcap, NAME_1.mcap and so on: one series, in which a file is final as soon as the next one is
there. A position in a series is (number of the file, number of the chunk), the next one to be read; behind a complete
file it is (number + 1, 0). Any other file is a series of itself. Several recorders may write to one folder.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rtmw.errors import RecordingError
from rtmw.recording import Chunk, Recording
from rtmw.spark.files import recordings_of

NUMBERED = re.compile(r"(.*)_(0|[1-9]\d{0,5})")
"""Names that a series consists of; a date is no number of a file."""
SHORTEST = 64
"""Bytes below which a recording has only been created."""

Series = dict[int, Path]


class Position(NamedTuple):
    """The next chunk to be read of a series."""

    file: int
    chunk: int


Positions = Mapping[str, Position]


@dataclass(frozen=True)
class Budget:
    """How much one batch may have; a chunk is never divided, and one is always taken."""

    rows: int | None = None
    bytes: int | None = None
    files: int | None = None

    def allows(self, rows: int, bytes: int, files: int) -> bool:
        pairs = ((self.rows, rows), (self.bytes, bytes), (self.files, files))
        return all(limit is None or found <= limit for limit, found in pairs)


class Step(NamedTuple):
    """A chunk that can be read, and where its series stands behind it. Earlier ones come first."""

    start_ns: int
    series: str
    path: Path
    chunk: Chunk
    behind: Position


def to_json(positions: Positions) -> dict[str, Any]:
    """Returns positions in the form that Spark keeps in a checkpoint."""
    return {series: {"file": at.file, "chunk": at.chunk} for series, at in sorted(positions.items())}


def from_json(offset: Mapping[str, Any]) -> dict[str, Position]:
    return {series: Position(at["file"], at["chunk"]) for series, at in offset.items()}


def series_of(paths: list[Path]) -> dict[str, Series]:
    """Files by series and number."""
    found: dict[str, Series] = {}
    for path in paths:
        numbered = NUMBERED.fullmatch(path.stem)
        name, number = (numbered[1], int(numbered[2])) if numbered else (path.stem, 0)
        found.setdefault(str(path.with_name(name if not numbered else name + "_*")), {})[number] = path
    return found


class Follower:
    """Looks at the recordings of some paths again and again. For one thread."""

    def __init__(self, paths: tuple[str, ...], tolerant: bool = False) -> None:
        self._paths = paths
        self._tolerant = tolerant
        """Files that are gone unread are passed over."""
        self._open: dict[Path, Recording] = {}

    def look(self) -> dict[str, Series]:
        """The files that there are; none yet is no error."""
        try:
            return series_of(recordings_of(self._paths, growing=True))
        except FileNotFoundError:
            return {}

    def recording(self, path: Path, is_last: bool) -> Recording | None:
        """A recording as it is now; None: it has only just been created."""
        known = self._open.get(path)
        if known is not None:
            if not known.complete:
                known.refresh()
            return known
        try:
            self._open[path] = Recording(path)
        except RecordingError:
            if is_last and path.stat().st_size < SHORTEST:
                return None
            raise
        return self._open[path]

    def forget(self, but: set[Path]) -> None:
        """Close all files except these."""
        for path in [*self._open]:
            if path not in but:
                self._open.pop(path).close()

    def steps(self, name: str, files: Series, start: Position | None, end: Position | None) -> Iterator[Step]:
        """The chunks of a series from one position to before another, as far as they are there."""
        numbers = self._numbers(name, files, start, end)
        for number in numbers:
            first = start.chunk if start and number == start.file else 0
            is_last = number == max(files)
            recording = self.recording(files[number], is_last)
            if recording is None:
                return
            chunks = recording.chunks
            is_final = not is_last or recording.complete
            for at in range(first, len(chunks)):
                if end is not None and (number, at) >= end:
                    return
                is_over = is_final and at + 1 == len(chunks)
                behind = Position(number + 1, 0) if is_over else Position(number, at + 1)
                yield Step(chunks[at].start_ns, name, files[number], chunks[at], behind)

    def _numbers(self, name: str, files: Series, start: Position | None, end: Position | None) -> list[int]:
        """The files between two positions. RecordingError: one is gone."""
        numbers = sorted(n for n in files if (start is None or n >= start.file) and (end is None or (n, 0) < end))
        if start is None or self._tolerant:
            return numbers
        last = end.file - (end.chunk == 0) if end else max(files, default=-1)
        missing = sorted({*range(start.file, last + 1)} - {*numbers})
        if missing:
            raise RecordingError(
                f"{name.replace('*', str(missing[0]))}.mcap is gone before it was read to its end. "
                '.option("fail_on_loss", "false") goes on without what is lost'
            )
        return numbers

    def between(self, start: Positions, end: Positions) -> list[Step]:
        """The chunks of a batch. The same for ever, while the files are there."""
        files = self.look()
        moved = [(name, at) for name, at in end.items() if start.get(name) != at]
        return [step for name, at in moved for step in self.steps(name, files.get(name, {}), start.get(name), at)]

    def ends(self) -> dict[str, Position]:
        """Returns the position behind all that there is; it looks at the newest file of each series only."""
        found: dict[str, Position] = {}
        for name, files in self.look().items():
            newest = max(files)
            recording = self.recording(files[newest], True)
            is_over = recording is not None and recording.complete
            chunks = len(recording.chunks) if recording else 0
            found[name] = Position(newest + 1, 0) if is_over else Position(newest, chunks)
        return found

    def latest(self, start: Positions, budget: Budget, until: Positions | None = None) -> dict[str, Position]:
        """How far a batch may go that begins at `start`, oldest chunks first. `until`: not behind these positions."""
        files = self.look()
        lost = [name for name in start if name not in files and start[name].chunk]
        if lost and not self._tolerant:
            raise RecordingError(f"{lost[0]}.mcap is gone before it was read to its end")
        ends: dict[str, Position | None] = {**until} if until is not None else dict.fromkeys(files)
        flows = [self.steps(name, files[name], start.get(name), end) for name, end in ends.items() if name in files]
        reached, rows, size, seen = dict(start), 0, 0, set[Path]()
        for step in heapq.merge(*flows):
            rows, size = rows + step.chunk.message_count, size + step.chunk.uncompressed_size
            if seen and not budget.allows(rows, size, len(seen | {step.path})):
                break
            seen.add(step.path)
            reached[step.series] = step.behind
        self.forget({files[name][at.file] for name, at in reached.items() if at.file in files.get(name, {})})
        return reached
