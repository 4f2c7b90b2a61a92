"""Looks for what cannot be in the history of a replicated log, whoever made it.

    python -m tests.replica.history FILE...        status 1 if an anomaly was found; each is printed

A history is a file of JSON lines, one for each thing that a client saw:

    {"op": "append", "client": "c1", "id": "17", "asked": 1.0, "answered": 1.2, "answer": "written", "position": 40}
    {"op": "resolve", "client": "c1", "id": "18", "asked": 2.0, "answered": 2.1, "answer": "absent"}
    {"op": "read", "client": "r1", "asked": 3.0, "answered": 3.1, "from": 0, "to": 80, "records": [[0, "16"]]}

Times are of one clock. `position` is anything that grows along the log: an offset, a sequence number. `answer` is
"written" or "cached" (it is in the log), "absent" (it is not, and will not be), or "pending" and "unknown" (anything
may be); a request without an answer has no `answered`. A read says which positions it saw all of: from `from`, up to
and without `to`; `is_fresh` says that it claims to show what was written before it was asked. `is_final` marks a read
of the whole log at rest. O(n log n), for positions are known.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

Entry = dict[str, Any]
IN_LOG: Final = {"written", "cached"}


class Anomaly(NamedTuple):
    kind: str
    words: str


class Log(NamedTuple):
    """What all reads together say of the log."""

    positions: list[int]
    ids: dict[int, str]
    places: dict[str, list[int]]


def check(history: Iterable[Entry]) -> list[Anomaly]:
    entries = [*history]
    reads = [one for one in entries if one["op"] == "read"]
    answers = [one for one in entries if one["op"] != "read" and one.get("answered") is not None]
    found, log = _log_of(reads)
    asked = {one["id"] for one in entries if one["op"] == "append"}
    found += [Anomaly("invented", f"{id!r} was never asked for") for id in log.places if id not in asked]
    for part in (_twice, _untrue):
        found += part(answers, log)
    found += _lost(answers, reads, log)
    for polls in (_skipped, _backwards):
        found += polls(reads, log)
    found += _reordered(answers)
    return found


def _log_of(reads: list[Entry]) -> tuple[list[Anomaly], Log]:
    ids, found = dict[int, str](), list[Anomaly]()
    for read in reads:
        for position, id in read["records"]:
            if ids.setdefault(position, id) != id:
                found.append(Anomaly("two values", f"position {position} held {ids[position]!r} and {id!r}"))
    places = defaultdict[str, list[int]](list)
    for position in sorted(ids):
        places[ids[position]].append(position)
    return found, Log(sorted(ids), ids, places)


def _twice(answers: list[Entry], log: Log) -> Iterator[Anomaly]:
    """A record that is in the log at two positions, or was said to be."""
    said = defaultdict[str, set[int]](set)
    for id, positions in log.places.items():
        said[id].update(positions)
    for one in answers:
        if one["answer"] in IN_LOG and one.get("position") is not None:
            said[one["id"]].add(one["position"])
    for id, at in said.items():
        if len(at) > 1:
            yield Anomaly("doubled", f"{id!r} is at {sorted(at)}")


def _untrue(answers: list[Entry], log: Log) -> Iterator[Anomaly]:
    """Absent, and yet it is there, or was said to be written."""
    written = {one["id"] for one in answers if one["answer"] in IN_LOG}
    for one in answers:
        if one["answer"] == "absent" and (one["id"] in log.places or one["id"] in written):
            yield Anomaly("untrue", f"{one['id']!r} was said to be absent, and is there")


def _lost(answers: list[Entry], reads: list[Entry], log: Log) -> Iterator[Anomaly]:
    """It was written, and a read of its position, or the final one, does not show it."""
    final = [one for one in reads if one.get("is_final")]
    fresh = sorted((one["asked"], one["to"]) for one in reads if one.get("is_fresh"))
    shown = [{id for _, id in one["records"]} for one in final]
    times, least = [at for at, _ in fresh], list[int]()
    for _, to in reversed(fresh):
        least.append(min(to, least[-1]) if least else to)
    least.reverse()  # the lowest end of the fresh reads from here on
    for one in answers:
        if one["answer"] not in IN_LOG:
            continue
        id, position = one["id"], one.get("position")
        if any(id not in ids for ids in shown):
            yield Anomaly("lost", f"{id!r} was {one['answer']}, and the log at rest does not have it")
        at = bisect_right(times, one["answered"])
        if position is not None and at < len(least) and least[at] <= position:
            yield Anomaly(
                "stale", f"{id!r} at {position} was {one['answer']}, and a later fresh read ends at {least[at]}"
            )
        if position is not None and log.ids.get(position, id) != id:
            yield Anomaly("two values", f"{id!r} was written at {position}, where {log.ids[position]!r} is")


def _skipped(reads: list[Entry], log: Log) -> Iterator[Anomaly]:
    """A read passes over a position at which another read found a record."""
    for one in reads:
        low, high = bisect_left(log.positions, one["from"]), bisect_left(log.positions, one["to"])
        missing = {*log.positions[low:high]} - {position for position, _ in one["records"]}
        if missing:
            yield Anomaly("skipped", f"{one['client']} read {one['from']} to {one['to']} without {sorted(missing)[:3]}")


def _backwards(reads: list[Entry], log: Log) -> Iterator[Anomaly]:
    """The records of a read, or the reads of a client that follows, go back."""
    del log
    last = dict[str, int]()
    for one in sorted(reads, key=lambda read: float(read["answered"])):
        positions = [position for position, _ in one["records"]]
        if positions != sorted(positions):
            yield Anomaly("backwards", f"a read of {one['client']} has positions in the order {positions[:5]}")
        if one.get("follows") and one["from"] < last.get(one["client"], one["from"]):
            yield Anomaly("backwards", f"{one['client']} reads from {one['from']} after {last[one['client']]}")
        last[one["client"]] = one["to"]


def _reordered(answers: list[Entry]) -> Iterator[Anomaly]:
    """What was asked after another had been answered lies behind it."""
    placed = [one for one in answers if one["answer"] in IN_LOG and one.get("position") is not None]
    ended = sorted(placed, key=lambda one: float(one["answered"]))
    highest: Entry = {"position": -1, "id": ""}
    at = 0
    for one in sorted(placed, key=lambda one: float(one["asked"])):
        while at < len(ended) and ended[at]["answered"] < one["asked"]:
            highest = max(highest, ended[at], key=lambda of: int(of["position"]))
            at += 1
        if one["position"] < highest["position"]:
            words = f"{one['id']!r} at {one['position']} was asked after {highest['id']!r}"
            yield Anomaly("reordered", f"{words} at {highest['position']} was answered")


def main() -> int:
    wrong = 0
    for name in sys.argv[1:]:
        lines = Path(name).read_text(encoding="utf-8").splitlines()
        found = check(json.loads(line) for line in lines if line.strip())
        wrong += len(found)
        print(f"{name}: {len(lines)} entries, {len(found)} anomalies")
        for one in found:
            print(f"  {one.kind}: {one.words}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
