"""How much a query reads of its recordings, and how much the index spared it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from rtmw.recording.frames.scan import Extent, share_of
from rtmw.spark.log_scan import LogPartition
from rtmw.spark.partitions import Partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAME: Final = "rtmw.spark.read "
"""How the function of a `rtmw.spark.read` is called in Spark's plans, with the figures behind it."""


@dataclass(frozen=True)
class Scanned:
    """The extent that a query reads, as planned from the indexes."""

    partitions: int
    """Tasks."""
    read: Extent
    """Chunks that tasks read, messages in them, and their bytes in the files.

    Of a durable log: stretches of its indexes, or segments without one. An index does not say how many records a
    stretch has, so `messages` is 0.
    """
    skipped: Extent
    """Chunks in which, by the index, no row can be."""

    @classmethod
    def of(cls, partitions: Sequence[Partition | LogPartition]) -> Self:
        read = sum((partition.extent for partition in partitions), Extent())
        return cls(len(partitions), read, sum((partition.skipped for partition in partitions), Extent()))

    def __add__(self, other: Scanned) -> Scanned:
        return Scanned(self.partitions + other.partitions, self.read + other.read, self.skipped + other.skipped)

    def __str__(self) -> str:
        tasks = f"{self.partitions} partition{'' if self.partitions == 1 else 's'}"
        return f"{share_of(self.read, self.skipped)}, in {tasks}"


def scanned(frame: DataFrame) -> Scanned:
    """How much a DataFrame reads of its recordings; nothing is read for it.

    Raises TypeError when it reads none, and for a DataFrame of Spark Connect, whose plan is not here.
    """
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        raise TypeError("scanned() needs a DataFrame of a session in this process; Spark Connect plans elsewhere")
    found = [*_reads(plan.queryExecution().sparkPlan())]
    if not found:
        raise TypeError("this DataFrame reads no recording, or not at first hand: ask before it is cached")
    return sum(found[1:], found[0])


def name_of(read: Scanned) -> str:
    """The name that Spark shows in its plans for a function that reads so much."""
    return _NAME + json.dumps(dict(zip(("partitions", "read", "skipped"), astuple(read), strict=True)))


def _reads(plan: Any) -> Iterator[Scanned]:
    """Yields what is read by each scan of recordings below a node of a physical plan."""
    match plan.getClass().getSimpleName():
        case "BatchScanExec":
            yield from _of_source(plan)
        case "MapInArrowExec" if (name := plan.func().name()).startswith(_NAME):
            figures = json.loads(name.removeprefix(_NAME))
            yield Scanned(figures["partitions"], Extent(*figures["read"]), Extent(*figures["skipped"]))
        case _:
            for child in _listed(plan.children()):
                yield from _reads(child)


def _of_source(scan: Any) -> Iterator[Scanned]:
    """Yields what a scan by `format("rtmw")` reads; nothing if it is a scan of another source."""
    given = [*_listed(scan.inputPartitions())]
    if given and all(one.getClass().getSimpleName() == "PythonInputPartition" for one in given):
        partitions = [pickle.loads(one.pickedPartition()) for one in given]
        if all(isinstance(partition, Partition | LogPartition) for partition in partitions):
            yield Scanned.of(partitions)


def _listed(sequence: Any) -> Iterator[Any]:
    """Yields the elements of a Scala sequence."""
    return (sequence.apply(place) for place in range(sequence.length()))
