"""A guard against regressions: rtmw beside the machine itself, in one run, by generous ratios and never by time.

Both are measured in turn. On a busy machine one of them may be unlucky, so the pair is measured again, a few times; a
real regression is there every time. The limits are several times what an idle machine shows.
"""

from __future__ import annotations

import pytest

from bench import baseline
from bench.cases import RTMW, Case
from bench.questions import question
from bench.stage import Failed, Stage

TRIES = 6
SHORT = {"seconds": 0.3}
POLLING = Case("64 B", (RTMW,), {**SHORT, "size": 64, "batch": 50})
COPYING = Case("1 MiB", (RTMW,), {**SHORT, "size": 1 << 20, "batch": 10, "whole": True})
SLEEPING = Case("one processor", (RTMW,), {**SHORT, "size": 64, "batch": 50, "waits": True, "pinned": (0, 0)})
ALONE, CROWDED = (Case(f"{count} idle", (RTMW,), {"batches": 60, "readers": count}) for count in (1, 64))


def measured(name: str, case: Case) -> float:
    return question(name).measure(Stage("32M"), RTMW, case)[RTMW].value


def middle(program: str, *arguments: object) -> float:
    """µs, as the baseline in C says."""
    times = sorted(baseline.run(program, *arguments))
    return times[len(times) // 2] / 1000


def ratio(name: str) -> float:
    cpus = Stage().processors
    if name == "polling":
        return measured("round_trip", POLLING) / middle("spin", 2000, *cpus)
    if name == "copying":
        return measured("full_payload", COPYING) / middle("handover", 1 << 20, 100, *cpus)
    if name == "sleeping":
        return measured("asleep", SLEEPING) / middle("futex", 1000, cpus[0], cpus[0])
    return measured("fan_out", CROWDED) / measured("fan_out", ALONE)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "limit"),
    [
        pytest.param("polling", 40.0, id="a round trip that polls, to one word between two spinning processes"),
        pytest.param("copying", 8.0, id="a body written and read in full, to the same in C"),
        pytest.param("sleeping", 10.0, id="a round trip that sleeps, to a bare futex"),
        pytest.param("crowded", 6.0, id="a publish call beside 64 idle subscribers, to one beside one"),
    ],
)
def test_the_ratio_to_the_machine_itself_stays_in_bounds(name: str, limit: float) -> None:
    seen: list[float | str] = []
    for _ in range(TRIES):
        try:
            seen.append(found := ratio(name))
        except baseline.NoCompiler as error:
            pytest.skip(str(error))
        except Failed as error:
            seen.append(str(error))
            continue
        if found <= limit:
            return
    pytest.fail(f"{name}: {seen}, none within {limit} ×")
