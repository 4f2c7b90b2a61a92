"""`make torture-instructions`: every call, a kill and a stop at every instruction, and a table of what was tried."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.torture.instructions.rig import CannotRun, Harmed, Rig, build

EXPLANATION = """
A kill comes before every instruction, twice: once the others go on first, and once the sweep comes first. Of a call
with more than 10,000 instructions each is tried the first and the last time that a loop comes to it, one way or the
other; 1,000 of them, evenly spread."""


def play(rig: Rig, call: str) -> tuple[int, int, int]:
    """Instructions, kills and stops."""
    kill, stop = rig.run(call, "kill"), rig.run(call, "stop")
    return kill.instructions, kill.victims, stop.victims


def show(name: str, numbers: tuple[int, int, int], seconds: float) -> None:
    print(f"{name:<34}" + "".join(f"{number:>14,}" for number in numbers) + f"{seconds:>10.1f}", flush=True)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        try:
            rig = build(Path(folder))
        except CannotRun as reason:
            print(f"instructions: cannot run here: {reason}")
            return 0
        print(f"{'call':<34}{'instructions':>14}{'kills':>14}{'stops':>14}{'seconds':>10}")
        sums, failed, began = (0, 0, 0), 0, time.monotonic()
        for call in rig.calls():
            start = time.monotonic()
            try:
                numbers = play(rig, call)
            except Harmed as harm:
                failed += 1
                print(f"{call:<34}  HARMED:\n{harm}", flush=True)
                continue
            show(call, numbers, time.monotonic() - start)
            sums = (sums[0] + numbers[0], sums[1] + numbers[1], sums[2] + numbers[2])
        show("together", sums, time.monotonic() - began)
        print(EXPLANATION)
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
