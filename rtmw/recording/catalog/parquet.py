"""Tables of Parquet files, for readers that know no Delta Lake.

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
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rtmw.columns.versions import fitted_batch
from rtmw.disk import DISK, Disk
from rtmw.errors import RecordingError
from rtmw.recording.catalog.rows import DAY
from rtmw.recording.catalog.table import LISTS
from rtmw.recording.claim import Claim
from rtmw.recording.tools.parquet import NULL_PARTITION, ROW_GROUP
from rtmw.recording.tools.whole import written_whole

if TYPE_CHECKING:
    from datetime import date

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
