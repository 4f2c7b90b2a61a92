"""Which records of a log a query reads: by the sparse indexes of its segments, before a record is looked at.

A segment that is sealed has an index, which says of each stretch of 64 KiB or more its latest time; of a segment as a
whole the earliest time is known, too. Conditions on positions and times leave out segments, and then stretches of
those that are left. A segment without an index is read, in pieces: the last one never has an index, and may be all
that there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from rtmw.log import Folder, bases, segment, stretches
from rtmw.log_batches import metadata
from rtmw.recording.frames.pruning import all_of, between, places_for
from rtmw.recording.frames.scan import Extent
from rtmw.recording.times import UNSET_NS
from rtmw.spark.log_scan import LogPartition
from rtmw.spark.partitions import SMALLEST, packed, sensible

_FEW: Final = 8
"""Segments whose stretches are looked at one by one; of more, the share that stretches spare is small."""
_SCHEMA: Final = pa.schema([metadata()[name] for name in ("position", "time", "time_ns")])
_UNITS: Final = {"time": 1000, "time_ns": 1}


class Stretch(NamedTuple):
    """Records from a position on, below another. Times are unknown where there is no index: then None."""

    start: int
    end: int
    earliest_ns: int | None = None
    latest_ns: int | None = None
    share: float = 1.0
    """The share of its bytes that compaction has left."""

    @property
    def size(self) -> int:
        """Bytes of its records, as they lie in the file."""
        return round((self.end - self.start) * self.share)

    def guarantee(self) -> Any:
        """An expression that is true of all of its records."""
        known = [self._between("position", self.start, self.end - 1)]
        if self.earliest_ns is not None and self.latest_ns is not None and self.latest_ns < UNSET_NS:
            for name, unit in _UNITS.items():
                known.append(self._between(name, self.earliest_ns // unit, self.latest_ns // unit))
        return all_of(known)

    def _between(self, name: str, least: int, most: int) -> Any:
        kind = metadata()[name].type
        return between(name, pa.scalar(least, kind), pa.scalar(most, kind))


def segments_of(folder: Folder, start: int, end: int) -> Iterator[list[Stretch]]:
    """The stretches of each segment from `start`, at which a record begins, up to `end`."""
    begins = bases(folder)
    for base, behind in pairwise([*begins, max(end, begins[-1] + 1 if begins else end)]):
        if behind > start and base < end:
            yield [*_stretches(folder, base, behind, (max(base, start), min(behind, end)))]


def _stretches(folder: Folder, base: int, behind: int, bounds: tuple[int, int]) -> Iterator[Stretch]:
    """Yields the stretches of a segment that lie within bounds, cut at them."""
    removed = segment(folder.path, folder.descriptor, folder.uuid, base)[-1]
    found = stretches(folder.path, folder.descriptor, folder.uuid, base)
    share = 1 - removed / (behind - base)
    if found is not None and found[0] == behind:  # the last one grows
        yield from _clipped(_indexed(found, share), bounds)
    elif removed:
        yield Stretch(*bounds, share=share)
    else:
        yield from _pieces(folder, base, bounds)


def _indexed(index: tuple[int, int, int, bytes], share: float) -> Iterator[Stretch]:
    behind, _, earliest_ns, latest = index
    numbers = np.frombuffer(latest, np.uint64).reshape(-1, 2).tolist()
    ends = [position for position, _ in numbers[1:]] + [behind]
    for (position, latest_ns), end in zip(numbers, ends, strict=True):
        yield Stretch(position, end, earliest_ns, latest_ns, share)


def _pieces(folder: Folder, base: int, bounds: tuple[int, int]) -> Iterator[Stretch]:
    """Each begins with the first record behind so many bytes, which is found without those before it."""
    start, end = bounds
    begins = [start]
    with closing(folder.reader(base)) as reader:
        for place in range(start + SMALLEST, end, SMALLEST):
            record = reader.scan(base, place)
            if record is not None and begins[-1] < record[0] < end:
                begins.append(record[0])
    yield from (Stretch(*both) for both in pairwise([*begins, end]))


def _clipped(found: Iterable[Stretch], bounds: tuple[int, int]) -> Iterator[Stretch]:
    start, end = bounds
    for one in found:
        if one.end > start and one.start < end:
            is_whole = start <= one.start and one.end <= end
            yield one if is_whole else one._replace(start=max(one.start, start), end=min(one.end, end))


def _as_one(found: Sequence[Stretch]) -> Stretch:
    latest = None if found[0].latest_ns is None else max(one.latest_ns or 0 for one in found)
    return found[0]._replace(end=found[-1].end, latest_ns=latest)


def needed(segments: Sequence[Sequence[Stretch]], condition: Any) -> list[Stretch]:
    """Stretches that may have records for which a condition is true: an expression on metadata(), or None."""
    if condition is not None:
        places = places_for([_as_one(one).guarantee() for one in segments], _SCHEMA, condition)
        segments = [one for at, one in enumerate(segments) if places is None or at in places]
    listed = [stretch for one in segments for stretch in one]
    if condition is None or len(segments) > _FEW:
        return listed
    places = places_for([one.guarantee() for one in listed], _SCHEMA, condition)
    return [one for at, one in enumerate(listed) if places is None or at in places]


def log_partitions(
    folder: Folder, start: int, end: int, target: int | None, condition: Any = None
) -> list[LogPartition]:
    """Runs of stretches of about `target` bytes, at least one. `start` is a position at which a record begins."""
    segments = [*segments_of(folder, start, end)]
    found = needed(segments, condition)
    everything, wanted = _extent(chain.from_iterable(segments)), _extent(found)
    skipped = Extent(everything.chunks - wanted.chunks, 0, everything.bytes - wanted.bytes)
    groups = [*packed(found, lambda stretch: stretch.size, target or sensible(one.size for one in found))] or [()]
    return [
        LogPartition(folder.path, _runs(group), _extent(group), Extent() if number else skipped)
        for number, group in enumerate(groups)
    ]


def _extent(found: Iterable[Stretch]) -> Extent:
    sizes = [one.size for one in found]
    return Extent(len(sizes), 0, sum(sizes))


def _runs(group: Iterable[Stretch]) -> tuple[tuple[int, int], ...]:
    """Stretches that follow each other are one run."""
    runs = list[tuple[int, int]]()
    for one in group:
        if runs and runs[-1][1] == one.start:
            runs[-1] = (runs[-1][0], one.end)
        else:
            runs.append((one.start, one.end))
    return tuple(runs)
