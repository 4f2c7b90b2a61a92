"""What must hold when all is over."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rtmw
from rtmw import observe
from tests.torture.soak.board import INSTANCES, Board
from tests.torture.soak.roles import TOPIC, USED_BANDS

OWN_BYTES, OPEN_FILES = 8 << 20, 4
"""By so much a process may grow: an interpreter by itself; sockets to wake others, and files that are open just now."""
CAUSES = ("received", "missed", "expired", "thinned", "unmatched")


@dataclass(frozen=True)
class Memory:
    """Of the survivors and of their domain."""

    open_files: dict[str, int]
    own_bytes: dict[str, int]
    shared_bytes: dict[str, int]


def own_bytes(pid: int) -> int:
    """Resident and shared with nobody."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("RssAnon:")))


def memory_of(domain: int, survivors: dict[str, int]) -> Memory:
    objects = [path for path in Path("/dev/shm").iterdir() if path.name.startswith(f"rtmw.{domain}.")]
    return Memory(
        {name: len(os.listdir(f"/proc/{pid}/fd")) for name, pid in survivors.items()},
        {name: own_bytes(pid) for name, pid in survivors.items()},
        {path.name: path.stat().st_blocks * 512 for path in objects},
    )


def check_memory(before: Memory, after: Memory) -> None:
    """What it was in the beginning, but for what an interpreter keeps for itself."""
    assert after.shared_bytes == before.shared_bytes, f"/dev/shm: {before.shared_bytes}, then {after.shared_bytes}"
    for what, first, last, more in (
        ("bytes of its own", before.own_bytes, after.own_bytes, OWN_BYTES),
        ("open files", before.open_files, after.open_files, OPEN_FILES),
    ):
        for name, count in last.items():
            assert count <= first[name] + more, f"{name} had {first[name]} {what}, and has {count}"


def audit(domain: int) -> int:
    """The books balance, everything has come back, and the whole pool can be had. How many messages there were."""
    with rtmw.Domain(domain) as attached:
        books = observe.examine(attached, fix=True)
        assert books.problems == (), books.problems
        assert (books.descriptors_loaned, books.descriptors_held, len(books.participants)) == (0, 0, 1), books
        assert books.descriptors_free + books.descriptors_queued == books.descriptors, books
        published = next(view.published for view in observe.topics(attached) if view.name == TOPIC)
        with rtmw.Publisher("whole", domain=attached, reliability=rtmw.Reliability.TIMELY) as publisher:
            publisher.loan(attached.pool).drop()
        assert observe.examine(attached, fix=True).pages_used == 0
        return published


def check_complete(name: str, got: dict[tuple[int, int], int], board: Board, killed_from: int) -> None:
    """Each message that a publisher was told of came; one more may, of a publisher killed before it was told."""
    for instance in range(INSTANCES):
        for band in USED_BANDS:
            told, came = board.told_to(instance, band), got.get((instance, band), 0)
            more = 1 if instance >= killed_from else 0
            assert told <= came <= told + more, f"{name}: {instance} was told of {told} in band {band}, {came} came"


def judge(folder: Path, names: list[str], board: Board, published: int) -> list[dict[str, Any]]:
    """A row of counts for each subscriber; a failure says who missed what."""
    rows: list[dict[str, Any]] = []
    for place, name in enumerate(names):
        if not (folder / str(place)).exists():
            continue
        report: dict[str, Any] = json.loads((folder / str(place)).read_text())
        counted = sum(report[cause] for cause in CAUSES)
        assert counted == published, f"{name}: {counted} of {published} messages are accounted for: {report}"
        if report["reliability"] == "RELIABLE":
            assert report["missed"] == report["expired"] == 0, f"{name}: {report}"
            got = {(instance, band): number for instance, band, number in report["got"]}
            check_complete(name, got, board, len(names))
        rows.append({"name": name} | {cause: report[cause] for cause in CAUSES})
    assert len(rows) == sum("subscriber" in name for name in names), "a subscriber did not report"
    return rows
