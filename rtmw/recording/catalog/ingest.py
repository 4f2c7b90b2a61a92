"""Adds recordings to the tables of a catalog, without what is there already: so it may run every hour, and again.

A mark says how far a recording has been added to a table: a digest of its first chunks. A table keeps such marks with
its rows, in one commit. A recording that has grown, was renamed, copied or recovered since has the same first chunks,
and so the same marks. Each mark is the digest of all chunks before it, so recordings that only begin alike are not
taken for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from rtmw.columns.versions import fitted_batch, merged_type
from rtmw.errors import RecordingError, UnsupportedType, ValueMismatch
from rtmw.patterns import is_among, is_own
from rtmw.recording.catalog.delta import DeltaTopic
from rtmw.recording.catalog.parquet import ParquetTopic
from rtmw.recording.catalog.rows import Topic
from rtmw.recording.catalog.table import Table, folder_of
from rtmw.recording.recording import Recording
from rtmw.recording.tools.copying import Progress, no_progress

if TYPE_CHECKING:
    from rtmw.recording.contents import Chunk


def marks_of(chunks: Iterable[Chunk]) -> list[str]:
    """The mark after each chunk."""
    digest, marks = blake2b(digest_size=16), list[str]()
    for chunk in chunks:
        counts = sorted(chunk.counts.items())
        digest.update(repr((chunk.position, chunk.start_ns, chunk.end_ns, chunk.uncompressed_size, counts)).encode())
        marks.append(digest.hexdigest())
    return marks


def done(marks: list[str], is_known: Callable[[str], bool]) -> int:
    """How many chunks a table has, which knows some of these marks."""
    return next((count for count in range(len(marks), 0, -1) if is_known(marks[count - 1])), 0)


FORMATS: Final[dict[str, Callable[[Path], Table]]] = {"delta": DeltaTopic, "parquet": ParquetTopic}
COMMIT_BYTES: Final = 256 << 20
"""Rows of all tables that wait for a commit; then those of the table with most are committed."""


@dataclass
class Ingested:
    """The outcome of a call: messages added, and problems."""

    messages: dict[str, int] = field(default_factory=dict[str, int])
    """Messages added, by topic; 0: all of its messages were there already."""
    problems: dict[str, str] = field(default_factory=dict[str, str])
    """The reason why messages of a topic could not be added, or not all of them: by file and topic."""
    damaged: dict[str, str] = field(default_factory=dict[str, str])
    """The reason why a file could not be read, or not to its end."""


class _Waiting:
    """A table, and the rows that will be in its next commit."""

    def __init__(self, table: Table, evolve: bool) -> None:
        self.table = table
        self.bytes = 0
        self._evolve = evolve
        self._columns = dict(table.columns)
        self._rows: list[pa.RecordBatch] = []
        self._marks: dict[Path, str] = {}

    def add(self, path: Path, mark: str, added: Sequence[pa.RecordBatch]) -> int:
        """How many rows. Raises ValueError for a column that has another type in the table."""
        for schema in {batch.schema for batch in added}:
            self._columns = self._agreed(schema)
        self._rows += added
        self._marks[path] = mark
        self.bytes += sum(batch.nbytes for batch in added)
        return sum(batch.num_rows for batch in added)

    def knows(self, mark: str) -> bool:
        """Whether the table has this mark, or has it after the next commit."""
        return mark in self._marks.values() or self.table.knows(mark)

    def _agreed(self, schema: pa.Schema) -> dict[str, pa.DataType]:
        """The columns of the table with those of more rows."""
        found = dict(self._columns)
        for column in schema:
            known = found.setdefault(column.name, column.type)
            if known != column.type:
                found[column.name] = self._common(column.name, known, column.type)
        return found

    def _common(self, name: str, known: pa.DataType, kind: pa.DataType) -> pa.DataType:
        """The type of a column that holds the values of the table and of a recording. Raises ValueError."""
        changed = f"column {name!r} is {known} in the table, and {kind} in this recording, whose type has changed"
        try:
            common = merged_type([known, kind], name)
        except UnsupportedType:
            raise ValueError(f"{changed}: add it to another folder") from None
        if common != known and not self._evolve:
            raise ValueError(f"{changed}: widen the column to {common} with --evolve, or add it to another folder")
        return common

    def commit(self) -> None:
        """Without rows there is nothing to be kept: that a chunk has none is soon seen again."""
        if self._rows:
            wider = {
                name: self._columns[name] for name, kind in self.table.columns.items() if self._columns[name] != kind
            }
            if wider:
                self.table.widen(wider)
            rows = pa.concat_tables([self._fitted(batch) for batch in self._rows], promote_options="permissive")
            self.table.commit(rows.combine_chunks(), set(self._marks.values()))
        self._rows, self._marks, self.bytes = [], {}, 0

    def _widen(self) -> None:
        known = self.table.columns
        wider = {name: kind for name, kind in self._columns.items() if name in known and known[name] != kind}
        if wider:
            self.table.widen(wider)

    def _fitted(self, batch: pa.RecordBatch) -> pa.Table:
        schema = pa.schema([field.with_type(self._columns[field.name]) for field in batch.schema])
        return pa.Table.from_batches([fitted_batch(batch, schema)])


class Catalog:
    """A folder of tables, open for adding. A context manager: all is committed at its end, unless an error ends it.

    `evolve`: a column gets a wider type where the values of a recording need it.
    """

    def __init__(
        self, folder: Path, form: str = "delta", *, evolve: bool = False, commit_bytes: int = COMMIT_BYTES
    ) -> None:
        self._folder, self._open, self._evolve, self._commit_bytes = folder, FORMATS[form], evolve, commit_bytes
        self._tables: dict[str, _Waiting] = {}
        self._stack = ExitStack()
        self.ingested = Ingested()
        self.known = set[str]()
        """Topics of the recordings, also those that nobody wants."""

    def add(self, path: Path, topics: Sequence[str] | None = None, progress: Progress = no_progress) -> None:
        """The messages of a recording that are not there yet. What cannot be read stands in `ingested.damaged`."""
        try:
            with _opened(path) as recording:
                self._add(recording, topics, progress)
        except (RecordingError, ValueMismatch) as error:
            self.ingested.damaged[str(path)] = str(error)

    def _add(self, recording: Recording, topics: Sequence[str] | None, progress: Progress) -> None:
        self.known.update(recording.topics())
        marks, wanted = marks_of(recording.chunks), [t for t in recording.topics() if _is_wanted(t, topics)]
        for number, name in enumerate(wanted):
            try:
                self._add_topic(recording, Topic.of(recording, name), marks)
            except (ValueError, UnsupportedType) as error:
                self.ingested.problems[f"{recording.path}, {name}"] = str(error)
            progress(number + 1, len(wanted))

    def _add_topic(self, recording: Recording, topic: Topic, marks: list[str]) -> None:
        waiting = self._table(topic.name)
        first = done(marks, waiting.knows)
        count = self.ingested.messages.setdefault(topic.name, 0)
        for chunks, batches in topic.rows(recording, first):
            count += waiting.add(recording.path, marks[chunks - 1], batches)
            self.ingested.messages[topic.name] = count
            if sum(table.bytes for table in self._tables.values()) > self._commit_bytes:
                max(self._tables.values(), key=lambda table: table.bytes).commit()

    def _table(self, topic: str) -> _Waiting:
        if topic not in self._tables:
            table = self._open(folder_of(self._folder, topic))
            self._tables[topic] = _Waiting(self._stack.enter_context(closing(table)), self._evolve)
        return self._tables[topic]

    def compact(self) -> None:
        """Makes few large files of many small ones, in all tables of this call. Raises RecordingError."""
        for waiting in self._tables.values():
            waiting.commit()
            waiting.table.compact()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        with self._stack:
            for waiting in self._tables.values() if kind is None else ():
                waiting.commit()


def _opened(path: Path) -> Recording:
    """Raises RecordingError, also for a file that cannot be opened, such as a link to one that is not there."""
    try:
        return Recording(path)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error


def _is_wanted(topic: str, topics: Sequence[str] | None) -> bool:
    return not is_own(topic) if topics is None else is_among(topic, topics)
