"""How soon is a new process in? `import`: the import of the library alone. `first message`: from the end of the import
until a message of 64 bytes has gone to a program that was there before, asleep, and its answer has come back.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median

from bench.cases import RTMW, Case, Figures
from bench.peers import ALL, LIBRARIES
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "A new process"
UNIT = "ms"
TIMES = 5
IMPORT = "import time; start = time.perf_counter(); import {}; print((time.perf_counter() - start) * 1000)"
FIRST = """
import rtmw, sys, time
start = time.perf_counter()
name, domain = sys.argv[1], int(sys.argv[2])
with rtmw.Domain(domain, create=False) as attached:
    subscriber = rtmw.Subscriber(name + "back", domain=attached)
    publisher = rtmw.Publisher(name + "out", domain=attached)
    publisher.publish(bytes(64))
    subscriber.receive(10)
    print((time.perf_counter() - start) * 1000)
"""


def cases(quick: bool) -> Sequence[Case]:
    return [Case("import", (RTMW,) if quick else ALL), Case("first message", (RTMW,))]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    if case.name == "import":
        part = Part("imports", {"library": LIBRARIES[system]})
        return {system: Figures(median(stage.play("attach", system, [part])[0]))}
    return {system: Figures(median(stage.play("attach", system, [Part("newcomers"), Part("resident")])[0]))}


def timed(program: str, *arguments: str) -> float:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=20)
    if done.returncode:
        raise ImportError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed")
    return float(done.stdout.split()[-1])


def imports(role: Role) -> list[float]:
    """Milliseconds, in fresh processes; the first only fills the caches of files."""
    return [timed(IMPORT.format(role.options["library"])) for _ in range(TIMES + 1)][1:]


def newcomers(role: Role) -> list[float]:
    role.hear()
    return [timed(FIRST, role.name, str(role.domain)) for _ in range(TIMES + 1)][1:]


def resident(role: Role) -> None:
    import rtmw

    with rtmw.Domain(role.domain) as domain:
        subscriber = rtmw.Subscriber(f"{role.name}out", domain=domain)
        publisher = rtmw.Publisher(f"{role.name}back", domain=domain)
        role.tell("there")
        end = time.monotonic() + role.limit
        for _ in range(TIMES + 1):
            body = subscriber.receive(max(0.0, end - time.monotonic())).value
            publisher.publish(body)
