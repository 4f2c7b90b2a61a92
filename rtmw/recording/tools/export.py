"""Recordings as files of other kinds: Parquet, partitioned by topic and hour; CSV and JSON lines for small uses."""

from __future__ import annotations

import base64
import csv
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from rtmw.errors import NotInstalled, RecordingDamaged, RecordingError
from rtmw.recording.batch import Damaged
from rtmw.recording.frames.scan import sightings, stream_of
from rtmw.recording.places import written_whole
from rtmw.recording.recording import Recording
from rtmw.recording.tools.copying import Progress, Section, no_progress
from rtmw.recording.versions import Sighting, Version, versions_of
from rtmw.text.strict_json import as_json

try:
    from rtmw.recording.tools.tables import ParquetFolder, TopicTable, tables
except ImportError as error:
    raise NotInstalled(
        f"to export recordings, pyarrow is needed, and cannot be imported ({error}): pip install 'rtmw[spark]'"
    ) from error

if TYPE_CHECKING:
    import pyarrow as pa

_LIST: Final = (list, dict)


def export_parquet(
    sources: Sequence[Path], folder: Path, section: Section, progress: Progress = no_progress
) -> dict[str, int]:
    """Writes FOLDER/topic=…/hour=…/part-….parquet, of a topic with several versions of its type FOLDER/topic=…/
    version=…/hour=…/part-….parquet; how many messages of each topic.

    Raises FileExistsError, RecordingError, RecordingDamaged, ValueMismatch, OSError: then there is no folder.
    """
    with written_whole(folder) as temporary:
        temporary.mkdir()
        with ParquetFolder(temporary, _versions(sources, section)) as parts:
            for found in _all(sources, section, progress):
                parts.add(found)
        return parts.messages


def export_lines(
    source: Sequence[Path], file: IO[str], form: str, section: Section, damaged: Damaged | None = None
) -> int:
    """Writes `csv` or `jsonl`; how many messages. `damaged` is told of a recording that is left out from its damage on;
    None: that is an error.

    Raises RecordingError for CSV of several topics or types; then nothing is written.
    """
    if form == "csv" and _may_have_several(source, section):
        of = _One()
        for found in _all(source, section, no_progress, None if damaged is None else lambda _: None):
            of.check(found)
    count = 0
    write = _Csv(file).write if form == "csv" else _Jsonl(file).write
    for found in _all(source, section, no_progress, damaged):
        write(found)
        count += found.table.num_rows
    return count


def _may_have_several(sources: Sequence[Path], section: Section) -> bool:
    """Whether the section may have several topics or types. The indexes do not say which messages lie in its time."""
    chosen: set[tuple[str, str | None]] = set()
    for path in sources:
        with Recording(path) as recording:
            topics = recording.topics()
            for name in topics if section.topics is None else section.meant(topics) or ():
                chosen |= {(name, recording.type_name(channel)) for channel in topics[name]}
    return len(chosen) > 1


def _versions(sources: Sequence[Path], section: Section) -> dict[str, list[Version]]:
    """The versions of each topic, by the indexes."""
    found: dict[str, list[Sighting]] = {}
    for path in sources:
        with Recording(path) as recording:
            names = section.meant(recording.topics())
            wanted = {n: c for n, c in recording.channels.items() if names is None or c.topic in names}
            streams = {number: stream_of(recording, channel, True) for number, channel in wanted.items()}
            for sighting in sightings(recording.chunks, streams):
                found.setdefault(sighting.topic, []).append(sighting)
    return {topic: versions_of(seen) for topic, seen in found.items()}


def _all(
    sources: Sequence[Path], section: Section, progress: Progress, damaged: Damaged | None = None
) -> Iterator[TopicTable]:
    if section.topics is not None:
        with ExitStack() as opened:
            section.names(*(opened.enter_context(Recording(path)) for path in sources))
    for recording in section.each(sources):
        done = 0
        try:
            for found in tables(recording, section):
                yield found
                done += found.table.num_rows
                progress(done, recording.message_count)
        except RecordingDamaged as error:
            if damaged is None:
                raise
            damaged(error)


class _Jsonl:
    """An object a message, with its topic."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, found: TopicTable) -> None:
        rows: list[dict[str, Any]] = found.table.to_pylist()
        for row in rows:
            self._file.write(as_json({"topic": found.topic, **row}, _plain) + "\n")


class _One:
    """The one topic of one type that CSV can hold."""

    def __init__(self) -> None:
        self._of: tuple[str, pa.Schema] | None = None

    def check(self, found: TopicTable) -> bool:
        """Whether it is the first table. Raises RecordingError for one of another topic or type."""
        of, is_first = (found.topic, found.table.schema), self._of is None
        self._of = self._of or of
        if of != self._of:
            raise RecordingError(
                f"CSV is for one topic of one type; there are {self._of[0]} and {found.topic}: choose one with --topics"
            )
        return is_first


class _Csv:
    """A row a message, a column a member; parts of members have dots in their names, lists are JSON."""

    def __init__(self, file: IO[str]) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._one = _One()

    def write(self, found: TopicTable) -> None:
        if self._one.check(found):
            self._writer.writerow(_names(found.table.schema))
        rows: list[dict[str, Any]] = found.table.to_pylist()
        for row in rows:
            self._writer.writerow([_cell(value) for value in _flat(row, found.table.schema)])


def _names(schema: Any, before: str = "") -> list[str]:
    found: list[str] = []
    for field in schema:
        parts = _parts(field)
        found += _names(parts, f"{before}{field.name}.") if parts else [before + field.name]
    return found


def _parts(field: Any) -> list[Any]:
    """The fields of a struct; none of anything else."""
    import pyarrow as pa

    return list(field.type) if pa.types.is_struct(field.type) else []


def _flat(row: dict[str, Any] | None, schema: Any) -> list[Any]:
    found: list[Any] = []
    for field in schema:
        value = None if row is None else row[field.name]
        parts = _parts(field)
        found += _flat(value, parts) if parts else [value]
    return found


def _cell(value: Any) -> Any:
    if isinstance(value, _LIST):
        return as_json(value, _plain)
    return _plain(value) if isinstance(value, (bytes, datetime, timedelta)) else value


def _plain(value: bytes | datetime | timedelta) -> str | float:
    """A value without a JSON type: bytes as base64, times in ISO format, durations in seconds."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.isoformat() if isinstance(value, datetime) else base64.b64encode(value).decode()
