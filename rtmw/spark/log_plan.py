"""Which records of a log a query reads: by the sparse indexes of its segments, before a record is looked at.

A segment that is sealed has an index, which says of each stretch of 64 KiB or more its latest time; of a segment as a
whole the earliest time is known, too. Conditions on positions and times leave out segments, and then stretches of
those that are left. A segment without an index is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rtmw.log import Folder, stretches
from rtmw.log_batches import metadata
from rtmw.recording.frames.expressions import all_of
from rtmw.recording.frames.extent import Extent
from rtmw.recording.frames.pruning import between, places_for
from rtmw.recording.times import UNSET_NS
from rtmw.spark.log_scan import LogPartition
from rtmw.spark.partitions import sensible

_FEW: Final = 8
"""Segments whose stretches are looked at one by one; of more, the share that stretches spare is small."""
_SCHEMA: Final = pa.schema([metadata()[name] for name in ("position", "time", "time_ns")])
_UNITS: Final = {"time": 1000, "time_ns": 1}


@dataclass(frozen=True)
class Stretch:
    """Records from a position on, below another. Times are unknown where there is no index: then None."""

    start: int
    end: int
    earliest_ns: int | None = None
    latest_ns: int | None = None

    def guarantee(self) -> Any:
        """What is true of all of its records, as an expression."""
        known = [self._between("position", self.start, self.end - 1)]
        if self.earliest_ns is not None and self.latest_ns is not None and self.latest_ns < UNSET_NS:
            for name, unit in _UNITS.items():
                known.append(self._between(name, self.earliest_ns // unit, self.latest_ns // unit))
        return all_of(known)

    def _between(self, name: str, least: int, most: int) -> Any:
        kind = metadata()[name].type
        return between(name, pa.scalar(least, kind), pa.scalar(most, kind))


def bases_of(folder: Folder) -> list[int]:
    """Positions at which segments begin: there a task may begin to read."""
    return sorted(int(name.removesuffix(".seg")) for name in os.listdir(folder.descriptor) if name.endswith(".seg"))


def segments_of(folder: Folder, start: int, end: int) -> Iterator[list[Stretch]]:
    """The stretches of each segment from `start`, at which a record begins, up to `end`."""
    bases = bases_of(folder)
    for base, behind in pairwise([*bases, max(end, bases[-1] + 1 if bases else end)]):
        if behind > start and base < end:
            yield [*_clipped(_stretches(folder, base, behind), start, end)]


def _stretches(folder: Folder, base: int, behind: int) -> Iterator[Stretch]:
    found = stretches(folder.path, folder.descriptor, folder.uuid, base)
    if found is None or found[0] != behind:  # the last one grows
        yield Stretch(base, behind)
        return
    numbers = np.frombuffer(found[3], np.uint64).reshape(-1, 2).tolist()
    ends = [position for position, _ in numbers[1:]] + [behind]
    for (position, latest_ns), end in zip(numbers, ends, strict=True):
        yield Stretch(position, end, found[2], latest_ns)


def _clipped(found: Iterable[Stretch], start: int, end: int) -> Iterator[Stretch]:
    for one in found:
        if one.end > start and one.start < end:
            yield Stretch(max(one.start, start), min(one.end, end), one.earliest_ns, one.latest_ns)


def _as_one(segment: Sequence[Stretch]) -> Stretch:
    latest = None if segment[0].latest_ns is None else max(one.latest_ns or 0 for one in segment)
    return Stretch(segment[0].start, segment[-1].end, segment[0].earliest_ns, latest)


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
    total = sum(one.end - one.start for one in found)
    everything = [one for segment in segments for one in segment]
    skipped = Extent(len(everything) - len(found), 0, sum(one.end - one.start for one in everything) - total)
    groups = [*_groups(found, target or sensible(total))] or [[]]
    return [
        LogPartition(folder.path, _runs(group), _extent(group), Extent() if number else skipped)
        for number, group in enumerate(groups)
    ]


def _extent(group: Sequence[Stretch]) -> Extent:
    return Extent(len(group), 0, sum(one.end - one.start for one in group))


def _groups(found: Iterable[Stretch], target: int) -> Iterator[list[Stretch]]:
    group, size = list[Stretch](), 0
    for one in found:
        if group and size >= target:
            yield group
            group, size = [], 0
        group.append(one)
        size += one.end - one.start
    if group:
        yield group


def _runs(group: Iterable[Stretch]) -> tuple[tuple[int, int], ...]:
    """Stretches that follow each other are one run."""
    runs = list[tuple[int, int]]()
    for one in group:
        if runs and runs[-1][1] == one.start:
            runs[-1] = (runs[-1][0], one.end)
        else:
            runs.append((one.start, one.end))
    return tuple(runs)
