"""Whose processor time a query of Spark takes: that of Python's workers, and of the JVM by what its threads do."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import psutil

PYTHON, TASKS, COMPILERS, REST = "Python", "tasks", "compilers", "rest of the JVM"
_THREADS = {"Executor task": TASKS, "C1 Compiler": COMPILERS, "C2 Compiler": COMPILERS}
"""How the names of threads begin."""


def spent() -> Counter[str]:
    """Seconds of processor time so far, of all processes that this one has started; workers that ended count, too."""
    total: Counter[str] = Counter()
    for process in psutil.Process().children(recursive=True):
        try:
            total.update(_of(process))
        except psutil.NoSuchProcess:
            continue
    return total


def _of(process: psutil.Process) -> dict[str, float]:
    if process.name() == "java":
        return _by_thread(process)
    times = process.cpu_times()
    return {PYTHON: times.user + times.system + times.children_user + times.children_system}


def _by_thread(process: psutil.Process) -> dict[str, float]:
    found = defaultdict[str, float](float)
    for thread in process.threads():
        try:
            name = Path(f"/proc/{process.pid}/task/{thread.id}/comm").read_text().strip()
        except OSError:
            continue
        kind = next((kind for begin, kind in _THREADS.items() if name.startswith(begin)), REST)
        found[kind] += thread.user_time + thread.system_time
    return found


def shares(before: Counter[str], count: int) -> str:
    """What was spent since then, in ns for each of so many messages."""
    now = spent()
    parts = ((name, round(1e9 * (now[name] - before[name]) / count)) for name in (PYTHON, TASKS, COMPILERS, REST))
    return "processor time of a message: " + ", ".join(f"{ns} ns {name}" for name, ns in parts if ns > 0)
