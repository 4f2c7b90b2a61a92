"""How long does the slowest of a hundred appends take while 16 writers append at once?

The value is the 99th percentile of an append of 200 bytes, as in `log_append`: the writers never rest, so an append
waits for others, too. `C fdatasync`: of a write and an fdatasync on the same file system, by a single program that has
the disk and the processors to itself, and not beside these writers. `C group commit`: of 16 threads in
C that share syncs, into one file that is filled ahead, without a log: no log with so many writers can do better.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from bench.cases import FDATASYNC, GROUP_COMMIT, RTMW, RTMW_C, Case, Figures
from bench.numbers import percentile, spread
from bench.questions.log_append import answered
from bench.stage import Stage

TITLE = "The 99th of a hundred appends of 200 B, under load"
UNIT = "µs"
ROUNDS = 5


def cases(quick: bool) -> Sequence[Case]:
    options = {"seconds": 0.3 if quick else 0.6, "part": "threads", "writers": 16}
    return [Case("16 threads", (RTMW, RTMW_C, GROUP_COMMIT, FDATASYNC), options)]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    times, _ = answered(stage, system, case)
    slowest = percentile(sorted(chain(*times)), 0.99)
    return {system: Figures(slowest, spread(list(chain(*times))))}
