"""How much a query reads of its recordings, and how much the index spared it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rtmw.spark.partitions import Extent, Partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Scanned:
    """What a query reads, as planned from the indexes."""

    partitions: int
    """Tasks."""
    read: Extent
    """Chunks that tasks read, messages in them, and their bytes in the files."""
    skipped: Extent
    """Chunks in which, by the index, no row can be."""

    def __str__(self) -> str:
        chunks, size = self.read.chunks + self.skipped.chunks, self.read.bytes + self.skipped.bytes
        share = self.read.bytes / size if size else 0.0
        return (
            f"{self.read.chunks} of {chunks} chunks, {self.read.bytes} of {size} bytes ({share:.1%}), "
            f"in {self.partitions} partitions"
        )


def scanned(frame: DataFrame) -> Scanned:
    """How much a DataFrame reads of its recordings; nothing is read for it.

    Raises TypeError when it reads none, and for a DataFrame of Spark Connect, whose plan is not here.
    """
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        raise TypeError("scanned() needs a DataFrame of a session in this process; Spark Connect plans elsewhere")
    partitions = [*_partitions(plan.queryExecution().sparkPlan())]
    if not partitions:
        raise TypeError("this DataFrame reads no recording, or not at first hand: ask before it is cached")
    read = sum((partition.extent for partition in partitions), Extent())
    skipped = sum((partition.skipped for partition in partitions), Extent())
    return Scanned(len(partitions), read, skipped)


def _partitions(plan: Any) -> Iterator[Partition]:
    """Of all scans of recordings below a physical plan."""
    for leaf in _listed(plan.collectLeaves()):
        if leaf.getClass().getSimpleName() != "BatchScanExec":
            continue
        for given in _listed(leaf.inputPartitions()):
            if given.getClass().getSimpleName() == "PythonInputPartition":
                partition = pickle.loads(given.pickedPartition())
                if isinstance(partition, Partition):
                    yield partition


def _listed(sequence: Any) -> Iterator[Any]:
    """Of a Scala sequence."""
    return (sequence.apply(place) for place in range(sequence.length()))
