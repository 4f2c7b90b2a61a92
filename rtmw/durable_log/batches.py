"""Records of a log as columns, many in one step: no Python object stands for a record."""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np

from rtmw.durable_log.reading import Origin, Reading
from rtmw.errors import LogDamaged, needed
from rtmw.log import RUN_DATA, RUN_IDS, RUN_KEYS

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from rtmw.columns.rows import Rows
    from rtmw.log._log import _Run
    from rtmw.recording.frames.layout import Column

T = TypeVar("T")

MOST_ROWS, MOST_BYTES = 1 << 12, 1 << 17
"""Limits of a batch, whichever is reached first: it stays in the processor's cache while it is worked on."""
EVER_NS: Final = (1 << 64) - 1
"""Later than each record."""
_ALL: Final = RUN_DATA | RUN_KEYS | RUN_IDS


@lru_cache(maxsize=1)
def metadata() -> dict[str, pa.Field]:
    """The columns of each record, in Arrow. Keys and ids that are numbers are shown in digits, those of bytes in
    hexadecimal digits."""
    import pyarrow as pa

    fields = (
        pa.field("position", pa.int64(), False),
        pa.field("time", pa.timestamp("us", tz="UTC"), False),
        pa.field("epoch", pa.int32(), False),
        pa.field("key", pa.string(), True),
        pa.field("id", pa.string(), True),
        pa.field("time_ns", pa.int64(), False),
        pa.field("payload", pa.binary(), False),
    )
    return {field.name: field for field in fields}


class RunColumns:
    """A run of the reader in C, as columns of numpy and of Arrow. `path`: of the log, for errors."""

    def __init__(self, path: str, run: _Run) -> None:
        self._path = path
        self.count, self._position, self._time_ns, self._epoch, self._place, self._size, self._data = run[:7]
        self._labels = {"key": run[7], "id": run[8]}

    def __len__(self) -> int:
        return self.count

    @cached_property
    def position(self) -> NDArray[np.int64]:
        """Where each record lies."""
        return np.frombuffer(self._position, np.int64)

    @cached_property
    def time_ns(self) -> NDArray[np.int64]:
        """When each was appended: nanoseconds since 1970, by the wall clock of then."""
        return np.frombuffer(self._time_ns, np.int64)

    @cached_property
    def epoch(self) -> NDArray[np.int32]:
        """1 in a log that one host writes; in a replicated log that of the master which appended it."""
        return np.frombuffer(self._epoch, np.int32)

    @property
    def data(self) -> bytes:
        """The data of all records, one behind the other."""
        assert self._data is not None
        return self._data

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Record i has `data[offsets[i] : offsets[i + 1]]`: one number more than there are records."""
        assert self._place is not None
        return np.append(np.frombuffer(self._place, np.int64), len(self.data))

    def rows(self) -> Rows:
        """The data of each record, as `rtmw.columns` takes it."""
        from rtmw.columns.rows import Rows

        assert self._place is not None
        assert self._size is not None
        return Rows(self.data, np.frombuffer(self._place, np.int64), np.frombuffer(self._size, np.int64))

    def column(self, name: str) -> pa.Array:
        """One of position, time, epoch, key, id, time_ns and payload, as `to_arrow` gives it. LogDamaged: a key or an
        id that should be text is none."""
        import pyarrow as pa

        match name:
            case "position":
                return self._numbers(self._position, pa.int64())
            case "time_ns":
                return self._numbers(self._time_ns, pa.int64())
            case "time":
                return pa.array(self.time_ns // 1000, metadata()["time"].type)
            case "epoch":
                return self._numbers(self._epoch, pa.int32())
            case "payload":
                from rtmw.columns import payload_array

                return payload_array(self.rows())
            case _:
                return self._texts(name)

    def _numbers(self, memory: bytes, kind: pa.DataType) -> pa.Array:
        import pyarrow as pa

        return pa.Array.from_buffers(kind, self.count, [None, pa.py_buffer(memory)])

    def _texts(self, name: str) -> pa.Array:
        import pyarrow as pa

        texts = self._labels[name]
        assert texts is not None
        text, ends, is_there = texts
        offsets = np.concatenate([np.zeros(1, np.int32), np.frombuffer(ends, np.int32)])
        validity = np.packbits(np.frombuffer(is_there, np.uint8), bitorder="little")
        array = pa.Array.from_buffers(pa.string(), self.count, [*map(pa.py_buffer, (validity, offsets, text))])
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            first, last = int(self.position[0]), int(self.position[-1])
            raise LogDamaged(
                f"{self._path}: the {name} of a record from {first} to {last} is no text ({error}); read without the "
                f"column {name!r}, or save what is whole: rtmw log salvage",
                self._path,
                first,
                last,
            ) from None
        return array


@lru_cache(maxsize=64)
def _columns(description: bytes) -> tuple[Column, ...]:
    """The columns of a table of such a log: what each record has, then the members of its type, or its payload as
    bytes."""
    from rtmw.recording.frames.layout import layout_of
    from rtmw.types.message_type import read_document

    descriptions = () if read_document(description)["kind"] == "bytes" else (description,)
    layout = layout_of(descriptions, "keep", False, metadata())
    return layout.chosen(layout.usual)


class LogBatch(RunColumns, Generic[T]):
    """Records of a log, in the order of their positions, as columns. They are durable.

    `len` is their number. The arrays are numpy's, with one number a record; nothing is copied from them.
    """

    def __init__(self, path: str, run: _Run, end: int, origin: Origin[T], description: bytes) -> None:
        super().__init__(path, run)
        self._end, self._origin, self._description = end, origin, description

    def values(self) -> list[T]:
        """The data of each record as a value of the log's type. Raises ValueMismatch."""
        decode, data = self._origin.decode, self.data
        places = self.offsets.tolist()
        return [decode(data[begin:end]) for begin, end in pairwise(places)]

    def to_arrow(self) -> pa.RecordBatch:
        """A row a record: position, time, key, id and so on, and a column a member of the type, or `payload`.

        The columns are those of Spark (docs/spark.md). Needs pyarrow. Raises ValueMismatch, UnsupportedType,
        LogDamaged, NotInstalled.
        """
        arrow = needed("pyarrow", "PyArrow", "arrow", "to_arrow()")
        columns = _columns(self._description)
        members = self._members() if any(column.member is not None for column in columns) else None
        arrays = [
            self.column(column.name) if column.member is None or members is None else members.column(column.member)
            for column in columns
        ]
        return arrow.RecordBatch.from_arrays(arrays, schema=arrow.schema([column.field for column in columns]))

    def _members(self) -> pa.RecordBatch:
        from rtmw.columns import merged_versions

        ((members, _),) = merged_versions((self._description,)).decode(self.rows(), 0, False)
        return members

    def commit(self) -> None:
        """All records of this batch, and all before them, are done with; see LogRecord.commit."""
        self._origin.commit(self._end)

    def __repr__(self) -> str:
        return f"<rtmw.LogBatch {self.count} records from {int(self.position[0])}, {len(self.data)} bytes>"


class LogBatches(Reading[LogBatch[T], T]):
    """Iterates over the records of a log as batches, as `Log.read_batches` gives it; else as LogRecords."""

    def _make(self, end: int) -> list[LogBatch[T]]:
        run = self._reader.run(end, _ALL, 0, EVER_NS, MOST_ROWS, MOST_BYTES)
        if run is None:
            return []
        if not run[0]:
            raise self._unknown(*run[9:])
        folder = self._folder
        return [LogBatch(folder.path, run, self._reader.position, self._origin, folder.description)]

    def _place(self, made: LogBatch[T]) -> int:
        return int(made.position[0])
