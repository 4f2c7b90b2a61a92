"""A core that kills itself when so many batches of records of this life are on the disk: `--batches N`; with `--lost`,
when the last of so many that begin work is about to go there, and it has told whatever it tells before."""

from __future__ import annotations

import argparse
import sys
from operator import attrgetter

from rtmw.transfer.core import __main__ as core
from tests.transfer.dying import die_when_durable, die_when_lost

TELLS_S = 0.1
"""So long what it tells too early has time to leave."""

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, required=True)
    parser.add_argument("--lost", action="store_true")
    asked, sys.argv[1:] = parser.parse_known_args()
    if asked.lost:
        die_when_lost(asked.batches, attrgetter("begins"), TELLS_S)
    else:
        die_when_durable(asked.batches)
    sys.exit(core.main())
