"""A folder of Parquet files, partitioned by topic and hour, written in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rtmw.recording.times import UNSET_NS

if TYPE_CHECKING:
    from rtmw.recording.frames.scan import Stream
    from rtmw.recording.tools.tables import TopicTable
    from rtmw.recording.versions import Version

_HOUR_NS: Final = 3600 * 10**9
_NO_HOUR: Final = -1
NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name that readers of such folders give to a partition whose value is null."""
_BUFFERED: Final = 64 << 20
"""Bytes of all partitions that wait to be written; then those with most are."""
ROW_GROUP: Final = 1 << 17
"""Rows of a row group at most."""
_OPEN: Final = 64
"""Files at a time; a partition that is met again later has another one."""

_Key = tuple[str, int, int]
"""Topic, place of the version among those of the topic, hour."""


class ParquetFolder:
    """A context manager; all is written at its end.

    `versions`: of each topic. Where there are several, each has a folder of its own: readers of a folder take the
    columns of its first file for those of all.
    """

    def __init__(self, folder: Path, versions: Mapping[str, Sequence[Version]]) -> None:
        self._folder, self._versions = folder, versions
        self.messages: dict[str, int] = {}
        """Messages written, by topic."""
        self._waiting: dict[_Key, list[pa.RecordBatch]] = {}
        self._bytes: Counter[_Key] = Counter()
        self._rows: Counter[_Key] = Counter()
        self._open: dict[_Key, Any] = {}
        """The file of each partition; the one that was written to last is last."""
        self._parts: Counter[_Key] = Counter()

    def add(self, found: TopicTable) -> None:
        """Takes rows; they are written when there are many."""
        self.messages[found.topic] = self.messages.get(found.topic, 0) + found.table.num_rows
        version = self._version(found.stream)
        hours = np.where(found.log_time_ns == UNSET_NS, _NO_HOUR, found.log_time_ns // _HOUR_NS)
        for hour in np.unique(hours).tolist():
            rows = found.table if (hours == hour).all() else found.table.filter(pa.array(hours == hour))
            key = (found.topic, version, hour)
            self._waiting.setdefault(key, []).append(rows)
            self._bytes[key] += rows.nbytes
            self._rows[key] += rows.num_rows
            if self._rows[key] >= ROW_GROUP:
                self._write(key)
        while self._bytes.total() > _BUFFERED:
            self._write(self._bytes.most_common(1)[0][0])

    def _version(self, stream: Stream) -> int:
        """Returns the place of a stream's version among those of its topic."""
        about = (stream.type_name, stream.description, stream.problem)
        return next(place for place, version in enumerate(self._versions[stream.topic]) if version.has(*about))

    def _write(self, key: _Key) -> None:
        batches = self._waiting.pop(key)
        del self._bytes[key], self._rows[key]
        writer = self._open.pop(key, None) or self._begin(key, batches[0].schema)
        self._open[key] = writer
        writer.write_table(pa.Table.from_batches(batches))
        if len(self._open) > _OPEN:
            self._open.pop(next(iter(self._open))).close()

    def _begin(self, key: _Key, schema: pa.Schema) -> Any:
        topic, version, hour = key
        named = NULL_PARTITION if hour == _NO_HOUR else datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%dT%H")
        apart = [f"version={version + 1}"] if len(self._versions[topic]) > 1 else []
        folder = self._folder.joinpath(f"topic={quote(topic, safe='')}", *apart, f"hour={named}")
        folder.mkdir(parents=True, exist_ok=True)
        number = self._parts[key]
        self._parts[key] += 1
        return pq.ParquetWriter(folder / f"part-{number}.parquet", schema, compression="zstd")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for key in [*self._waiting] if error is None else []:
                self._write(key)
        finally:
            for writer in self._open.values():
                writer.close()
