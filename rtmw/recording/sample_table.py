"""`rtmw.table`: live messages as an Arrow table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtmw.errors import UnsupportedType, needed
from rtmw.recording.batch import Batch
from rtmw.recording.contents import Chunk
from rtmw.recording.versions import versions_of
from rtmw.shm import Sample, Subscriber

if TYPE_CHECKING:
    import pyarrow as pa

_ABSENT: Final = ("log_time", "log_time_ns", "file", "offset")
"""Columns of a recording that a message has only in a file."""


def table(samples: Iterable[Sample[Any]], *, columns: Sequence[str] | None = None, typed: bool = True) -> pa.Table:
    """Live messages as an Arrow table: a row each, a column a member, as in a table of a recording.

        rtmw.table(subscriber.take_many(1000)).to_pandas()

    `samples`: what a subscriber took, of one type, or of versions of it, which become one table. `columns`: these only,
    in this order. `typed`: False gives payloads instead of members. The rows are copies: the samples may go.

    Errors: TypeError for what is no sample, ValueError for samples of several types, a column that there is not, and a
    sample that was released; UnsupportedType for a type that columns cannot hold, NotInstalled.
    """
    arrow = needed("pyarrow", "PyArrow", "arrow", "rtmw.table()")
    from rtmw.recording.frames.layout import METADATA, layout_of
    from rtmw.recording.frames.scan import Run, Scan, Stream, common_type, sightings

    taken = _checked(samples)
    kinds = [(one.topic, one.type_name, one._description if typed else None) for one in taken]
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    streams = {number: Stream(*kind) for kind, number in numbers.items()}
    batch = _batch(taken, [numbers[kind] for kind in kinds])
    descriptions = common_type(versions_of(sightings([batch.chunk], streams))) if typed else ()
    known = {name: field for name, field in METADATA.items() if name not in _ABSENT}
    try:
        layout = layout_of(descriptions, "keep", False, known)
    except UnsupportedType as error:
        raise UnsupportedType(f"{error}. typed=False gives payloads") from None
    chosen = layout.chosen((columns,) if isinstance(columns, str) else tuple(columns or ()))
    schema = arrow.schema([column.field for column in chosen])
    rows = Scan(chosen, schema, descriptions).rows(batch, 0, Run(Path("samples"), (), streams))
    return arrow.Table.from_batches(rows, schema)


def _checked(samples: Iterable[Sample[Any]]) -> list[Sample[Any]]:
    if isinstance(samples, (Sample, Subscriber)):  # a subscriber iterates for ever
        raise TypeError("rtmw.table() makes a table of several samples, such as subscriber.take_many(1000)")
    taken = list(samples)
    for one in taken:
        if not isinstance(one, Sample):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"rtmw.table() takes samples of a subscriber, and {type(one).__name__} is none")
    return taken


def _batch(samples: Sequence[Sample[Any]], numbers: Sequence[int]) -> Batch:
    """The samples as a chunk of a recording; `numbers`: of their channels."""
    payloads = [one.data for one in samples]
    size = np.array([len(payload) for payload in payloads], np.int64)
    times = np.array([one.source_time_ns for one in samples], np.int64)
    columns: dict[str, Any] = {
        "channel": np.array(numbers, np.uint16),
        "sequence": np.array([one.sequence for one in samples], np.uint64),
        "log_time": times,
        "publish_time": times,
        "position": np.cumsum(size) - size,
        "size": size,
        "priority": np.array([one.priority for one in samples], np.uint8),
        "publisher": np.array([one.publisher for one in samples], np.uint64),
        "expires": np.array([one.expires_ns or 0 for one in samples], np.int64),
    }
    start_ns, end_ns = (int(times.min()), int(times.max())) if samples else (0, 0)
    chunk = Chunk(0, 0, 0, start_ns, end_ns, Counter(numbers), "", 0, int(size.sum()))
    batch = Batch(chunk, b"".join(payloads), columns.__getitem__)
    batch.has_flags = False
    return batch
