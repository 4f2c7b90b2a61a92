"""Tables of months of recordings: a folder with a table for each topic. Each message is added exactly once, so
recordings may be added every hour, and again.

A mark says how far a recording has been added to a table: a digest of its first chunks. A table keeps such marks with
its rows, in one commit. A recording that has grown, was renamed, copied or recovered since has the same first chunks,
and so the same marks. Each mark is the digest of all chunks before it, so recordings that only begin alike are not
taken for each other.

Tables of Delta Lake may be at remote places. There a commit is an object that is written if and only if there is none
of its name, which S3 decides (`If-None-Match`): of two programs that write the same commit, one is refused.

Readers that know no Delta Lake get tables of Parquet files.

    TABLE/day=2026-11-22/part-0000000007-0.parquet    rows of commit 7
    TABLE/_commits/0000000007.json                    its files and marks

A commit (1) writes its files under hidden names, (2) writes the list of them under the next number, and (3) gives the
files their names. The list is what counts: the next program finishes step 3 for the last list, and removes hidden files
that no list has. Readers pass over names that begin with a dot or an underscore. One program at a time adds to a table.

A list without files says that columns have wider types from now on: then each file with another type is written anew
under a hidden name, and takes the place of the old one. The next program finishes that, too, so all files get one type
a column, and readers find each row once at any moment.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rtmw.columns.versions import fitted_batch, merged_type
from rtmw.disk import DISK, Disk
from rtmw.errors import RecordingError, UnsupportedType, ValueMismatch, needed
from rtmw.recording.frames.layout import layout_of
from rtmw.recording.frames.scan import Run, Scan, Stream, common_type, sightings, stream_of
from rtmw.recording.places import Claim, RemotePath, said, written_whole
from rtmw.recording.recording import Recording
from rtmw.recording.tools.copying import Progress, no_progress
from rtmw.recording.tools.tables import NULL_PARTITION, ROW_GROUP
from rtmw.recording.versions import versions_of
from rtmw.text.patterns import is_among, is_own

if TYPE_CHECKING:
    from datetime import date

    from rtmw.recording.contents import Chunk


LISTS: Final = "_commits"
"""The folder of a table of Parquet files that has the lists of its commits."""


class Table(Protocol):
    """A table on a disk. Readers see all rows of a commit or none of them."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        """All columns of its rows so far; none before the first commit."""
        ...

    def knows(self, mark: str) -> bool:
        """Was there a commit with this mark?"""
        ...

    def commit(self, rows: pa.Table, marks: Collection[str]) -> None:
        """Adds rows, and how far their recordings are in the table by now. Raises OSError, RecordingError."""
        ...

    def widen(self, columns: Mapping[str, pa.DataType]) -> None:
        """Gives columns of it types that hold more values, also in the rows that are there. Raises as `commit`.

        Each row is there at any moment, also if the program is killed.
        """
        ...

    def compact(self) -> None:
        """Makes few large files of many small ones. Raises RecordingError for a format that cannot."""
        ...

    def close(self) -> None:
        """Lets other programs add to it."""
        ...


_HIDDEN: Final = ("_", ".")
"""Readers pass over folders whose names begin so; and `..` is another folder."""


def folder_of(catalog: Path, topic: str) -> Path:
    """The folder of a topic's table: its name, with @2F for a slash and the like.

    The name is the same in a URL. With %2F, Delta Lake would write to one folder and look for the rows in another.
    """
    name = quote(topic, safe="").replace("~", "%7E").replace("%", "@")
    return catalog / (f"@{ord(name[0]):02X}{name[1:]}" if name.startswith(_HIDDEN) else name)


DAY: Final = "day"
"""The column by which tables are partitioned: the date of `log_time` in UTC."""


@dataclass(frozen=True)
class Topic:
    """A topic of a recording, and how its messages become rows."""

    name: str
    scan: Scan
    streams: dict[int, Stream]

    @classmethod
    def of(cls, recording: Recording, name: str) -> Topic:
        """Raises ValueError for a topic of several types, UnsupportedType for a type that columns cannot hold."""
        streams = {channel.id: stream_of(recording, channel, True) for channel in recording.topics()[name]}
        descriptions = common_type(versions_of(sightings(recording.chunks, streams)))
        wanted = layout_of(descriptions, "widen").chosen(())
        scan = Scan(wanted, pa.schema([column.field for column in wanted]), descriptions, unsigned="widen")
        return cls(name, scan, streams)

    def rows(self, recording: Recording, first: int) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
        """Yields for each chunk from `first` on how many chunks there are up to it, and its rows.

        Raises RecordingDamaged, ValueMismatch.
        """
        number = sum(chunk.message_count for chunk in recording.chunks[:first])
        for count, chunk in enumerate(recording.chunks[first:], first + 1):
            batches: list[pa.RecordBatch] = []
            if not self.streams.keys().isdisjoint(chunk.counts):
                run = Run(recording.path, ((chunk, number),), self.streams)
                batches = [lasting(batch) for batch in self.scan.read_run(recording, run)]
            yield count, batches
            number += chunk.message_count


def lasting(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows with their day as the first column, and all columns in types that every format of tables has."""
    fields = [field.with_type(_plain(field.type)).with_nullable(True) for field in batch.schema]
    arrays = [array.cast(field.type) for array, field in zip(batch.columns, fields, strict=True)]
    day = pc.cast(batch.column("log_time"), pa.date32(), safe=False)
    return pa.RecordBatch.from_arrays([day, *arrays], schema=pa.schema([pa.field(DAY, pa.date32()), *fields]))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Without dictionaries and fixed lengths. All parts may be null: a later version of a type may leave them out."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)).with_nullable(True) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type), True))
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_duration(kind):
        return pa.int64()  # Delta has no durations: microseconds
    return kind


_APP: Final = "rtmw:"
"""Begins the id of the transaction that a mark is."""


class DeltaTopic:
    """A table of a topic. Raises NotInstalled without the package deltalake, RecordingError for one of Parquet files:
    who reads that would see the rows of both."""

    def __init__(self, folder: Path) -> None:
        if not isinstance(folder, RemotePath) and (folder / LISTS).is_dir():
            raise RecordingError(f"{folder} is a table of Parquet files: use --format parquet, or name another folder")
        self._lake: Any = needed("deltalake", "deltalake", "catalog", "a table of Delta Lake")
        self._folder = folder
        self._present = self._opened()

    def _opened(self) -> Any:
        """None: nothing was added yet. Raises RemoteFailed, RecordingError."""
        where, how = str(self._folder), storage_options()
        with self._told():
            exists = self._lake.DeltaTable.is_deltatable(where, storage_options=how)
            return self._lake.DeltaTable(where, storage_options=how) if exists else None

    @contextmanager
    def _told(self) -> Generator[None]:
        try:
            with said(self._folder) if isinstance(self._folder, RemotePath) else nullcontext():
                yield
        except self._lake.exceptions.DeltaError as error:
            raise RecordingError(f"{self._folder}: Delta Lake refuses the rows: {error}") from error

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        import pyarrow as arrow

        if self._present is None:
            return {}
        return {field.name: field.type for field in arrow.schema(self._present.schema().to_arrow())}

    def knows(self, mark: str) -> bool:
        return self._present is not None and self._present.transaction_version(_APP + mark) is not None

    def commit(self, rows: pa.Table, marks: Collection[str]) -> None:
        done = [self._lake.Transaction(_APP + mark, 1) for mark in sorted(marks)]
        how = {"mode": "append", "schema_mode": "merge" if self._present is not None else None}
        self._write(rows, commit_properties=self._lake.CommitProperties(app_transactions=done), **how)

    def widen(self, columns: Mapping[str, pa.DataType]) -> None:
        """In one commit that replaces all files: in a table of Delta Lake, a column has one type in each of them."""
        import pyarrow as arrow

        was = arrow.schema(self._present.schema().to_arrow())
        schema = arrow.schema([field.with_type(columns.get(field.name, field.type)) for field in was])
        with self._told():
            rows = self._present.to_pyarrow_dataset().scanner(batch_readahead=1, fragment_readahead=1).to_reader()
        wider = (fitted_batch(batch, schema) for batch in rows)
        rewritten = arrow.RecordBatchReader.from_batches(schema, wider)
        self._write(rewritten, mode="overwrite", schema_mode="overwrite")

    def _write(self, rows: pa.Table | pa.RecordBatchReader, **how: Any) -> None:
        table = self._present
        with self._told():
            self._lake.write_deltalake(
                table if table is not None else str(self._folder),
                rows,
                partition_by=[DAY],
                writer_properties=self._lake.WriterProperties(compression="ZSTD", max_row_group_size=ROW_GROUP),
                storage_options=storage_options(),
                **how,
            )
        self._present = self._opened()

    def compact(self) -> None:
        if self._present is not None:
            with self._told():
                self._present.optimize.compact()

    def close(self) -> None:
        """Others need not wait: Delta Lake refuses the later one of two commits with the same mark."""


def storage_options() -> dict[str, str]:
    """The option that deltalake, unlike pyarrow, does not take from the environment: a server with HTTP without TLS."""
    return {"allow_http": "true"} if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://") else {}


_UNDER_WAY: Final = "."


@dataclass(frozen=True)
class _Commit:
    """The content of the list of a commit."""

    files: list[str]
    marks: list[str]
    columns: str
    """The schema of its rows, as Arrow serializes it, base64."""

    @classmethod
    def read(cls, path: Path, number: int) -> Self:
        """Raises RecordingError."""
        try:
            if int(path.stem) == number:
                return cls(**json.loads(path.read_text()))
        except (ValueError, TypeError):
            pass
        raise RecordingError(f"{path} is damaged, or one before it is missing: what is in the table is not known")

    def schema(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.columns)))


class ParquetTopic:
    """A table of a topic. Raises RecordingError for a folder of another kind, and while another program adds to it."""

    def __init__(self, folder: Path, disk: Disk = DISK) -> None:
        if folder.exists() and any(folder.iterdir()) and not (folder / LISTS).is_dir():
            raise RecordingError(f"{folder} is no table of Parquet files that rtmw has made: name another folder")
        self.folder, self._disk = folder, disk
        self._claim = Claim(folder / LISTS, RecordingError(f"{folder}: another program adds to this table"))
        self._marks, self._columns, self._next, last = set[str](), dict[str, pa.DataType](), 0, _Commit([], [], "")
        for path in sorted((folder / LISTS).glob("*.json")):
            last = _Commit.read(path, self._next)
            self._marks.update(last.marks)
            self._columns |= {column.name: column.type for column in last.schema()}
            self._next += 1
        self._publish(last.files)
        for path in folder.glob(f"{DAY}=*/{_UNDER_WAY}part-*"):
            path.unlink()
        if self._next and not last.files:
            self._widen_files()

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return self._columns

    def knows(self, mark: str) -> bool:
        return mark in self._marks

    def commit(self, rows: pa.Table, marks: Collection[str]) -> None:
        files = [self._write(day, part) for day, part in _by_day(rows)]
        self._list(files, marks, rows.schema)
        self._publish(files)

    def widen(self, columns: Mapping[str, pa.DataType]) -> None:
        self._list([], (), pa.schema([*columns.items()]))
        self._widen_files()

    def _widen_files(self) -> None:
        for path in sorted(self.folder.glob(f"{DAY}=*/part-*")):
            schema = pq.read_schema(path)
            wider = pa.schema([field.with_type(self._columns[field.name]) for field in schema])
            if not wider.equals(schema):
                self._widen_file(path, wider)

    def _widen_file(self, path: Path, schema: pa.Schema) -> None:
        hidden = path.with_name(_UNDER_WAY + path.name)
        with pq.ParquetFile(path) as file, pq.ParquetWriter(hidden, schema, compression="zstd") as writer:
            for batch in file.iter_batches(ROW_GROUP):
                writer.write_batch(fitted_batch(batch, schema))
        self._disk.sync_file(hidden)
        self._disk.rename(str(hidden), None, str(path), None)
        self._disk.sync_folder(path.parent)

    def compact(self) -> None:
        raise RecordingError("files of Parquet cannot be replaced while others read them; use --format delta")

    def _write(self, day: date | None, rows: pa.Table) -> str:
        folder = self.folder / f"{DAY}={day or NULL_PARTITION}"
        self._disk.make_folders(folder)
        name = f"{folder.name}/part-{self._next:010}.parquet"
        hidden = self.folder / _hidden(name)
        pq.write_table(rows, hidden, compression="zstd", row_group_size=ROW_GROUP)
        self._disk.sync_file(hidden)
        self._disk.sync_folder(folder)
        return name

    def _list(self, files: list[str], marks: Collection[str], schema: pa.Schema) -> None:
        """The moment of the commit: the list gets its name."""
        path = self.folder / LISTS / f"{self._next:010}.json"
        commit = _Commit(files, sorted(marks), base64.b64encode(schema.serialize()).decode())
        with written_whole(path, disk=self._disk) as hidden:
            hidden.write_text(json.dumps(asdict(commit)))
        self._marks |= set(marks)
        self._columns |= {column.name: column.type for column in schema}
        self._next += 1

    def _publish(self, files: list[str]) -> None:
        for name in files:
            if not (self.folder / name).exists():
                self._disk.rename(str(self.folder / _hidden(name)), None, str(self.folder / name), None)
        for folder in {(self.folder / name).parent for name in files}:
            self._disk.sync_folder(folder)

    def close(self) -> None:
        self._claim.close()


def _hidden(name: str) -> str:
    folder, _, last = name.rpartition("/")
    return f"{folder}/{_UNDER_WAY}{last}"


def _by_day(rows: pa.Table) -> Iterator[tuple[date | None, pa.Table]]:
    """The rows of each day, without the column that the name of their folder says."""
    days = rows.column(DAY)
    for day in pc.unique(days).to_pylist():
        mask = pc.is_null(days) if day is None else pc.equal(days, day)
        yield day, rows.filter(mask).drop_columns([DAY])


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
