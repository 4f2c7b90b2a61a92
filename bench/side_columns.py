"""What reading a recording costs Python, step by step, and what columns beside each chunk would cost and spare.

    python -m bench.side_columns [MESSAGES]

The recording is that of the question `scan`. Figures are processor time of this thread and bytes of file, of each
message. Nothing of this is part of a recording: docs/design/recordings.md says why.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

import rtmw
from bench.questions.scan import FOLDER
from bench.telemetry import NAMES, TOPIC, recorded

T = TypeVar("T")
ONE = 5
"""The column that is read alone."""


class Spent:
    """Nanoseconds and bytes, by step."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()

    def timed(self, step: str, work: Callable[..., T], *given: Any) -> T:
        before = time.thread_time_ns()
        made = work(*given)
        self.total[step] += time.thread_time_ns() - before
        return made

    def each(self, step: str, items: Iterable[Any]) -> Iterator[Any]:
        """The items; what it takes to get them is of the step."""
        left = iter(items)
        while (item := self.timed(step, next, left, None)) is not None:
            yield item


def stream(batch: pa.RecordBatch, compression: str | None) -> pa.Buffer:
    """As it would lie in a file, or goes to the JVM."""
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def back(written: pa.Buffer, names: list[int] | None = None) -> pa.Table:
    return pa.ipc.open_stream(written, options=pa.ipc.IpcReadOptions(included_fields=names)).read_all()


def measured(path: Path) -> dict[str, float]:
    """Of each message."""
    spent, count = Spent(), 0
    with rtmw.Recording(path) as recording:
        for made in spent.each("read, decompress and decode, ns", recording.record_batches(TOPIC, columns=NAMES)):
            spent.timed("to the JVM, ns", stream, made, None)
            beside = spent.timed("columns beside: make, ns", stream, made, "lz4")
            spent.timed("columns beside: read all, ns", back, beside)
            spent.timed("columns beside: read one, ns", back, beside, [ONE])
            spent.total["columns beside, bytes"] += beside.size
            count += made.num_rows
    spent.total["file, bytes"] = path.stat().st_size
    return {step: total / count for step, total in spent.total.items()}


def main(count: int) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for step, each in measured(recorded(FOLDER, count)).items():
        print(f"{step:32}{each:8.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
