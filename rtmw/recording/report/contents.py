"""The contents of recordings by their indexes and side records, before a message is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtmw.errors import RecordingError
from rtmw.recording.recording import Recording
from rtmw.recording.report.grid import Run
from rtmw.recording.report.measure import Measuring
from rtmw.recording.tools.copying import Progress, no_progress
from rtmw.recording.tools.info import RecordingInfo, RunInfo, info, recorder_of, run_of

if TYPE_CHECKING:
    from rtmw.recording.report.grid import Grid


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
