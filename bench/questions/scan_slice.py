"""How much of a recording does Spark read for a hundredth of its time? The share of its bytes, as planned."""

from __future__ import annotations

from collections.abc import Sequence

import rtmw
from bench.cases import RTMW, Case, Figures
from bench.questions import scan
from bench.role import Role
from bench.stage import Part, Stage
from bench.telemetry import BEGIN_NS, EVERY_NS, recorded

TITLE = "Spark reads a slice of time"
UNIT = "% of the bytes"


def cases(quick: bool) -> Sequence[Case]:
    options = scan.cases(quick)[0].options
    return [Case("1 % of the time", (RTMW,), options)]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    scan.FOLDER.mkdir(parents=True, exist_ok=True)
    share, note = stage.play("scan_slice", system, [Part("slice_of_time", case.options)], limit=scan.LIMIT)[0]
    return {RTMW: Figures(share, note=note)}


def slice_of_time(role: Role) -> tuple[float, str]:
    """The 48th hundredth; its messages are counted, so that it is known to be that."""
    count, spark = role.options["count"], scan.session(1)
    start = BEGIN_NS + count * 47 // 100 * EVERY_NS
    frame = scan.recording(spark, recorded(scan.FOLDER, count), start=start, end=start + count // 100 * EVERY_NS)
    if frame.count() != count // 100:
        raise ValueError(f"{frame.count()} messages, where {count // 100} were")
    scanned = rtmw.spark.scanned(frame)
    return 100 * scanned.read.bytes / (scanned.read.bytes + scanned.skipped.bytes), str(scanned)
