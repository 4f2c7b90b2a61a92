"""`make torture`: each part in turn, and a summary. `python -m tests.torture soak weak` runs these parts only."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = {
    "instructions": ["-m", "tests.torture.instructions"],
    "weak": ["-m", "tests.torture.weak"],
    "soak": ["-m", "tests.torture.soak", "600"],
    "pressure": ["-m", "tests.torture.pressure", "300"],
    "fuzz": ["-m", "tests.torture.fuzz"],
    "model": ["-m", "tests.model"],
    "wire": ["-m", "tests.torture.wire", "60"],
    "log": ["-m", "tests.torture.log"],
    "power": ["-m", "tests.torture.log", "power"],
    "net": ["-m", "tests.torture.net"],
    "session": ["-m", "tests.torture.session"],
    "samples": ["-m", "tests.torture.samples"],
    "transfers": ["-m", "tests.torture.transfers"],
    "dds-rtps": ["-m", "tests.torture.dds_rtps"],
}
"""What Python runs for each part. A part ends by itself, and its status says whether all was well."""


def main(wanted: list[str]) -> int:
    unknown = [part for part in wanted if part not in PARTS]
    if unknown:
        print(f"there is no torture named {', '.join(unknown)}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    outcomes: list[tuple[str, int, float]] = []
    for part in wanted or PARTS:
        print(f"== {part}", flush=True)
        began = time.monotonic()
        status = subprocess.run([sys.executable, *PARTS[part]], cwd=ROOT, check=False).returncode
        outcomes.append((part, status, time.monotonic() - began))
    print("\n== summary")
    for part, status, seconds in outcomes:
        print(f"{part:<16}{'nobody was harmed' if status == 0 else 'FAILED':<20}{seconds:>8.0f} s")
    return max(min(status, 1) for _, status, _ in outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
