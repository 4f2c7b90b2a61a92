"""Which chunks a task reads: runs of them from the index alone, so large that no processor is idle."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.datasource import InputPartition

from rtmw.recording import Chunk, Recording
from rtmw.recording.frames.scan import Extent, Run, Stream, extent_of
from rtmw.spark.filters import Selection
from rtmw.spark.survey import Surveyed

if TYPE_CHECKING:
    from rtmw.recording.frames.pruning import Pruning

SMALLEST, USUAL = 16 << 20, 256 << 20
"""Bytes of a partition that is not said how large to be: about USUAL, and less where a processor has less to read. Each
task costs Spark's JVM and worker as much processor time as a twentieth of USUAL (docs/performance.md)."""
OPENING = 512 << 10
"""Bytes that a task reads in the time that it takes to open another file."""

_T = TypeVar("_T")

Chosen = list[list[tuple[Chunk, int]]]
"""Chunks of each recording, each with the number of its first message in the file."""


class Partition(InputPartition):
    """The chunks that one task reads. `skipped` is in the first partition only: the extent that no task has to read."""

    def __init__(self, runs: tuple[Run, ...], skipped: Extent | None = None) -> None:
        super().__init__(None)
        self.runs = runs
        self.skipped = skipped or Extent()

    @property
    def extent(self) -> Extent:
        return extent_of(chunk for run in self.runs for chunk, _ in run.chunks)


def partitions_of(
    surveyed: list[Surveyed], selection: Selection, target: int | None, found: Chosen | None = None
) -> list[Partition]:
    """Returns at least one partition. `target`: bytes of messages in each. `found`: what `chunks_of` gave; None: it
    is called without a condition."""
    chosen = [*zip(surveyed, chunks_of(surveyed, selection) if found is None else found, strict=True)]
    sizes = (size for _, found in chosen for size in (OPENING * bool(found), *(c.uncompressed_size for c, _ in found)))
    size = target or sensible(sizes)
    runs = [run for one, found in chosen for run in runs_of(one, found, selection, size)]
    skipped = extent_of(chunk for one, found in chosen for chunk in _others(one, found))
    first, *others = [*packed(runs, size_of, size)] or [()]
    return [Partition(first, skipped), *map(Partition, others)]


def chunks_of(surveyed: list[Surveyed], selection: Selection, pruning: Pruning | None = None) -> Chosen:
    """The chunks of each recording that may have rows. `pruning`: a condition that all rows meet."""
    return [pruned(one, [*wanted_chunks(one, selection)], pruning) for one in surveyed]


def packed(parts: Iterable[_T], size_of: Callable[[_T], int], target: int) -> Iterator[tuple[_T, ...]]:
    """Parts in their order, together until they have about `target` bytes: many small ones are few tasks."""
    group, size = list[_T](), 0
    for part in parts:
        more = size_of(part)
        if group and size + more > target:
            yield tuple(group)
            group, size = [], 0
        group.append(part)
        size += more
    if group:
        yield tuple(group)


def size_of(run: Run) -> int:
    """The cost of reading a run, in bytes."""
    return OPENING + sum(chunk.uncompressed_size for chunk, _ in run.chunks)


def sensible(parts: Iterable[int]) -> int:
    """Bytes of a partition, so that each processor gets as many: none is idle while others read the last ones.

    `parts`: bytes of each part that is not divided. A partition may have nearly one more than its share.
    """
    sizes, processors = [*parts], os.cpu_count() or 1
    share, largest = sum(sizes) // processors, max(sizes, default=0)
    if share < SMALLEST:
        return SMALLEST
    waves = max((share + USUAL // 2) // USUAL, 1)
    return share // waves + largest


def wanted_streams(one: Surveyed, selection: Selection) -> dict[int, Stream]:
    return {number: stream for number, stream in one.streams.items() if selection.wants(stream.topic)}


def wanted_chunks(one: Surveyed, selection: Selection) -> Iterator[tuple[Chunk, int]]:
    """Chunks that may have rows, each with the number of its first message in the file."""
    streams, first = wanted_streams(one, selection), 0
    for chunk in one.chunks:
        if not streams.keys().isdisjoint(chunk.counts) and selection.overlaps(chunk):
            yield chunk, first
        first += chunk.message_count


def pruned(one: Surveyed, found: list[tuple[Chunk, int]], pruning: Pruning | None) -> list[tuple[Chunk, int]]:
    """Chunks that may have rows for which the condition is true."""
    if pruning is None or not found:
        return found
    with Recording(one.path) as recording:
        return [*pruning.kept(recording, found, one.streams)]


def _others(one: Surveyed, found: list[tuple[Chunk, int]]) -> Iterator[Chunk]:
    read = {chunk.number for chunk, _ in found}
    return (chunk for chunk in one.chunks if chunk.number not in read)


def runs_of(one: Surveyed, found: list[tuple[Chunk, int]], selection: Selection, target: int) -> Iterator[Run]:
    """Chunks, each with the number of its first message, in runs of about `target` bytes."""
    streams = wanted_streams(one, selection)
    for run in packed(found, lambda chosen: chosen[0].uncompressed_size, target):
        yield _run(one.path, run, streams)


def _run(path: Path, chunks: tuple[tuple[Chunk, int], ...], streams: dict[int, Stream]) -> Run:
    there = {number for chunk, _ in chunks for number in chunk.counts}
    return Run(path, chunks, {number: stream for number, stream in streams.items() if number in there})
