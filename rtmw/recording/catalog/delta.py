"""Tables of Delta Lake: a commit of its log is atomic, and holds marks as transactions of the application.

They may be at remote places. There a commit is an object that is written if and only if there is none of its name,
which S3 decides (`If-None-Match`): of two programs that write the same commit, one is refused.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rtmw.columns.versions import fitted_batch
from rtmw.errors import RecordingError
from rtmw.optional import needed
from rtmw.recording.catalog.rows import DAY
from rtmw.recording.catalog.table import LISTS
from rtmw.recording.places import RemotePath, said
from rtmw.recording.tools.parquet import ROW_GROUP

if TYPE_CHECKING:
    import pyarrow as pa

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
