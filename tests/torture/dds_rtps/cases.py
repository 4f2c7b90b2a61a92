"""The list: what each case has the writer offer and the reader ask for, and what has to come of it.

Policies are called as tests/net/foreign/peer.py calls them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

Policies = dict[str, Any]
RELIABLE, BEST_EFFORT = {"best_effort": 0}, {"best_effort": 1}
DURABILITIES = ("VOLATILE", "TRANSIENT_LOCAL", "TRANSIENT", "PERSISTENT")
SCOPES = ("INSTANCE", "TOPIC", "GROUP")


@dataclass(frozen=True)
class Case:
    """One row of the list."""

    name: str
    asks: str
    writer: Policies = field(default_factory=dict[str, Any])
    reader: Policies = field(default_factory=dict[str, Any])
    outcome: str = "data"
    """data: the reader gets what is written; incompatible: both sides are told that policies keep them apart; apart:
    nothing comes; and otherwise what of runs.py has to hold."""
    colors: int = 1
    """Instances."""
    writers: int = 1
    count: int = 20
    """Messages."""
    period_s: float = 0.02
    """Between two of them."""
    read_s: float = 0.0
    """Between two looks of the reader; 0: it reads what comes."""
    extra: int = 0
    """Bytes that a message has besides."""


def cases() -> Iterator[Case]:
    yield Case("Test_Domain_0", "data on DDS domain 0; here a free one", reader=BEST_EFFORT)
    yield Case("Test_Domain_1", "nothing between two DDS domains", outcome="domains")
    yield Case("Test_Domain_2", "data on DDS domain 1; here another free one", reader=BEST_EFFORT)
    yield Case("Test_DataRepresentation_0", "XCDR1 meets XCDR1", {"xcdr": 1}, {"xcdr": 1})
    yield Case("Test_DataRepresentation_1", "XCDR1 does not meet XCDR2", {"xcdr": 1}, {"xcdr": 2}, "incompatible")
    yield Case("Test_DataRepresentation_2", "XCDR2 does not meet XCDR1", {"xcdr": 2}, {"xcdr": 1}, "incompatible")
    yield Case("Test_DataRepresentation_3", "XCDR2 meets XCDR2", {"xcdr": 2}, {"xcdr": 2, **BEST_EFFORT})
    yield from reliability()
    yield from ownership()
    yield Case("Test_Deadline_0", "a writer of 3 s meets a reader of 5 s", {"deadline": 3}, {"deadline": 5})
    yield Case("Test_Deadline_1", "5 s meets 5 s", {"deadline": 5}, {"deadline": 5})
    yield Case("Test_Deadline_2", "7 s does not meet 5 s", {"deadline": 7}, {"deadline": 5}, "incompatible")
    yield Case("Test_Deadline_3", "a missed deadline is told", {"deadline": 0.5}, {"deadline": 0.5}, "deadline")
    yield Case("Test_Topic_0", "data on one topic")
    yield Case("Test_Topic_1", "nothing between two topics", outcome="topics")
    yield Case("Test_Cft_0", "a content filter on the key", RELIABLE, {"filter": 1})
    yield Case("Test_Cft_1", "a content filter on another member", RELIABLE, {"filter": 1})
    yield Case("Test_Partition_0", "data in one partition", {"partition": "p1"}, {"partition": "p1"})
    yield Case("Test_Partition_1", "nothing between two", {"partition": "p1"}, {"partition": "p2"}, "apart")
    yield Case("Test_Partition_2", "p* meets p1, and not x1", {"partition": "p1"}, {"partition": "p*"}, writers=2)
    yield from durability()
    every = "one sample of ten arrives where ten are written in the reader's interval"
    yield from over_instances("Test_TimeBasedFilter", every, RELIABLE, {"interval": 1.0}, "thinned", period_s=0.1)
    for number, how in enumerate(("unregister", "dispose", "close")):
        asks = f"the reader sees that instances end ({how})"
        yield Case(f"Test_FinalInstanceState_{number}", asks, {"ends": how}, {}, "instances", colors=4)
    yield Case("Test_LargeData_0", "100,000 bytes in fragments", RELIABLE, RELIABLE, "complete", extra=100_000)
    yield from lifespan()
    yield from presentation("OrderedAccess", "ordered")
    yield from presentation("CoherentSets", "coherent")


def over_instances(
    name: str, asks: str, writer: Policies, reader: Policies, outcome: str, **how: Any
) -> Iterator[Case]:
    yield Case(f"{name}_0", asks, writer, reader, outcome, **how)
    yield Case(f"{name}_1", "the same, of four instances", writer, reader, outcome, colors=4, **how)


def reliability() -> Iterator[Case]:
    yield Case("Test_Reliability_0", "best effort both: in order, none twice", BEST_EFFORT, BEST_EFFORT, "ordered")
    yield Case("Test_Reliability_1", "best effort does not meet reliable", BEST_EFFORT, RELIABLE, "incompatible")
    yield Case("Test_Reliability_2", "reliable meets best effort", RELIABLE, BEST_EFFORT)
    yield Case("Test_Reliability_3", "reliable meets reliable", RELIABLE, RELIABLE)
    many = {"count": 500, "period_s": 0.0}
    yield Case("Test_Reliability_4", "reliable: none lost, in order", RELIABLE, RELIABLE, "complete", **many)
    yield Case("Test_Reliability_5", "the same, of four instances", RELIABLE, RELIABLE, "complete", colors=4, **many)
    kept, asks = {**RELIABLE, "depth": 5}, "KEEP_LAST 5 is enough for a reader that is four times slower"
    yield from over_instances("Test_History", asks, kept, kept, "complete", count=40, period_s=0.05, read_s=0.2)


def ownership() -> Iterator[Case]:
    only, one = {"exclusive": 1}, "two writers of one instance"
    yield Case("Test_Ownership_0", "SHARED meets SHARED")
    yield Case("Test_Ownership_1", "SHARED does not meet EXCLUSIVE", {}, only, "incompatible")
    yield Case("Test_Ownership_2", "EXCLUSIVE does not meet SHARED", only, {}, "incompatible")
    yield Case("Test_Ownership_3", f"EXCLUSIVE, {one}: only the stronger is heard", only, only, writers=2)
    yield Case("Test_Ownership_4", "EXCLUSIVE, two instances: both are heard", only, only, writers=2)
    yield Case("Test_Ownership_5", f"SHARED, {one}: both are heard", RELIABLE, RELIABLE, "both", writers=2)
    asks = "SHARED, two instances: both are heard"
    yield Case("Test_Ownership_6", asks, RELIABLE, RELIABLE, "both", writers=2, colors=2)


def durability() -> Iterator[Case]:
    for number, (offered, asked) in enumerate(product(range(4), repeat=2)):
        meets = "meets" if offered >= asked else "does not meet"
        yield Case(
            f"Test_Durability_{number}",
            f"{DURABILITIES[offered]} {meets} {DURABILITIES[asked]}",
            {"durable": offered} if offered else {},
            {"durable": asked} if asked else {},
            "data" if offered >= asked else "incompatible",
        )
    yield Case("Test_Durability_16", "a late reader of VOLATILE gets nothing old", RELIABLE, RELIABLE, "late")
    kept = {**RELIABLE, "durable": 1}
    yield Case("Test_Durability_17", "a late reader of TRANSIENT_LOCAL gets all that is kept", kept, kept, "kept")


def lifespan() -> Iterator[Case]:
    numbers = iter(range(8))
    for given, (life_s, period_s, read_s) in product((RELIABLE, BEST_EFFORT), ((0.25, 0.1, 0.5), (1.0, 0.4, 2.0))):
        for colors in (1, 4):
            asks = (
                f"of samples that live {life_s:g} s, written every {period_s:g} s, 2 or 3 are read after {read_s:g} s"
            )
            of, how = ("", "reliable" if given is RELIABLE else "best effort")
            of = ", four instances" if colors > 1 else of
            yield Case(
                f"Test_Lifespan_{next(numbers)}", f"{asks}, {how}{of}", {**given, "lifespan": life_s}, given,
                "lifespan", colors=colors, count=int(3.2 * read_s / period_s), period_s=period_s, read_s=read_s,
            )  # fmt: skip


def presentation(name: str, policy: str) -> Iterator[Case]:
    def both(offered: int, asked: int, **more: int) -> tuple[Policies, Policies]:
        return {policy: 1, "scope": offered, **more}, {policy: 1, "scope": asked, **more}

    pairs = [*product(range(3), repeat=2)]
    for number, (offered, asked) in enumerate(pairs):
        meets, outcome = ("meets", "data") if offered >= asked else ("does not meet", "incompatible")
        asks = f"{policy} access of {SCOPES[offered]} {meets} {SCOPES[asked]}"
        yield Case(f"Test_{name}_{number}", asks, *both(offered, asked), outcome)
    without = ({"scope": 1}, {policy: 1, "scope": 1})
    yield Case(f"Test_{name}_9", f"without {policy} access does not meet with it", *without, "incompatible")
    whole = [(1, 0)] if policy == "ordered" else [(0, 0), (1, 1), (2, 2)]
    number = 10
    for durable in ({}, {"durable": 1}):
        for offered, asked in [pair for pair in pairs if pair[0] >= pair[1]] if durable else []:
            asks = f"{policy} access of {SCOPES[offered]} meets {SCOPES[asked]}, both TRANSIENT_LOCAL"
            yield Case(f"Test_{name}_{number}", asks, *both(offered, asked, **durable))
            number += 1
        for offered, asked in whole:
            kept = ", TRANSIENT_LOCAL" if durable else ""
            asks = f"the reader sees {policy} samples, {SCOPES[offered]}{kept}"
            yield Case(f"Test_{name}_{number}", asks, *both(offered, asked, **durable), colors=4)
            number += 1
