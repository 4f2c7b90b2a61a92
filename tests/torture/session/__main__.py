"""Thousands of seeds of two nodes on a wire that cuts and loses, and each rule taken out: tests/net/session/wire.py.

Then thousands of stories of two cores that hypothesis makes up: tests/net/session/machine.py.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from hypothesis import settings

from tests.net.session.machine import STORIES, tell
from tests.net.session.mutants import MUTANTS, harm
from tests.net.session.wire import run

SEEDS = 5000
SECONDS = 900.0
TOLD = 5000
"""Stories."""


def main(seconds: float) -> int:
    began, met, seed = time.monotonic(), Counter[str](), 0
    while seed < SEEDS and time.monotonic() - began < seconds:
        try:
            met += run(seed, turns=600)
        except BaseException:
            print(f"seed {seed} failed")
            raise
        seed += 1
    print(f"{seed} seeds: {dict(met)}")
    tell(settings(STORIES, max_examples=TOLD))
    wrong = 0
    for rule in MUTANTS:
        seen = harm(rule, range(1000))
        print(f"without {rule!r}: {seen or 'NOTHING'}", flush=True)
        wrong += seen is None
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
