"""Several recordings read as one: a folder, a pattern, or files that are named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rtmw.errors import RecordingDamaged, RecordingError
from rtmw.recording.files import Source, find_recordings
from rtmw.recording.recording import Recording, Tabular
from rtmw.recording.tools.info import RecordingInfo, TopicInfo, as_html, info_of, run_of
from rtmw.recording.versions import some
from rtmw.text.units import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from rtmw.recording.frames.frame import Frame, Query


class Recordings(Tabular):
    """Several recordings as one, for tables: rows come in the order of their times, from each file once.

        with rtmw.Recordings("monday/") as monday:
            frame = monday.to_pandas("pump/speed", start="2026-11-22T08:00", columns=["log_time", "rpm"])

    `source`: a file, a folder, a pattern such as `day-*.mcap`, at s3://bucket/prefix or not; or several of these.
    `strict`: what cannot be read is an error; False: it is left out, and `left_out` says what it was and why.
    Structures that a type has had become one table; types of different names do not. Any thread may read.

    Errors: FileNotFoundError where there is no recording, RecordingError and RecordingDamaged, which name the file;
    without `strict` only where none can be read.
    """

    def __init__(self, source: Source, *, strict: bool = True) -> None:
        self._sources = [source] if isinstance(source, (str, os.PathLike)) else list(source)
        self._strict = strict
        self._opened: dict[Path, Recording] = {}
        self._unopened: dict[Path, RecordingError] = {}
        self._damage: dict[str, None] = {}
        try:
            self.refresh()
        except BaseException:
            self.close()
            raise

    def refresh(self) -> bool:
        """Looks again: are there more files, or more whole chunks in files that are being written? Errors as above."""
        files, grown = len(self._opened), [recording.refresh() for recording in self._opened.values()]
        self._unopened.clear()
        for path in find_recordings(self._sources):
            if path not in self._opened:
                self._open(path)
        if not self._opened:
            raise next(iter(self._unopened.values()))
        return any(grown) or len(self._opened) > files

    def _open(self, path: Path) -> None:
        recording: Recording | None = None
        try:
            recording = Recording(path)
            _ = recording.chunks  # reads the index, which may be damaged
        except RecordingError as error:
            if recording is not None:
                recording.close()
            if self._strict:
                raise
            self._unopened[path] = error
        else:
            self._opened[path] = recording

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that are read, in the order of their names."""
        return tuple(self._opened)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Files that cannot be read, and damaged chunks that tables were made without so far; without `strict`."""
        return (*map(str, self._unopened.values()), *self._damage)

    @property
    def message_count(self) -> int:
        return sum(recording.message_count for recording in self._opened.values())

    def topics(self) -> dict[str, list[TopicInfo]]:
        """The topics by name, with type, messages, rate and what is missing: several of a topic that has had several
        types."""
        found: dict[str, list[TopicInfo]] = {}
        for topic in run_of([info_of(recording) for recording in self._opened.values()]).topics:
            found.setdefault(topic.topic, []).append(topic)
        return found

    def _repr_html_(self) -> str:
        return as_html(f"Recordings {some(self._sources)}", self._recordings(), self.left_out)

    def _recordings(self) -> tuple[Recording, ...]:
        return tuple(self._opened.values())

    def _rows(self, frame: Frame, query: Query) -> Iterator[pa.RecordBatch]:
        def leave_out(error: RecordingDamaged) -> None:
            self._damage.setdefault(str(error))

        return frame.read_in_order(query, None if self._strict else leave_out)

    def close(self) -> None:
        for recording in self._opened.values():
            recording.close()

    def __repr__(self) -> str:
        return f"<rtmw.Recordings {counted(len(self._opened), 'file')}, {counted(self.message_count, 'message')}>"


def info(path: Path) -> RecordingInfo:
    """Raises RecordingError, OSError."""
    with Recording(path) as recording:
        return info_of(recording)
