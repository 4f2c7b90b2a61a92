"""Transfers between two nodes: thousands of seeded worlds, and a file of 1 GiB whose cores are killed 200 times, and
whose cable is pulled 100 times, over TLS and over TCP.

python -m tests.torture.transfers [SECONDS [MIB KILLS [PULLS]]]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.torture.transfers.pulls import pull
from tests.transfer.carry.pair import MIB, Pair
from tests.transfer.wire.world import run

SEEDS = 10_000
SECONDS = 600.0


def worlds(seconds: float) -> None:
    began, met, seed = time.monotonic(), Counter[str](), 0
    while seed < SEEDS and time.monotonic() - began < seconds:
        try:
            met += run(seed)
        except BaseException:
            print(f"seed {seed} failed")
            raise
        seed += 1
    print(f"{seed} seeds: {dict(met)}", flush=True)


def kills(size: int, number: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(Path(folder), size)
        try:
            pair.endure(number)
        finally:
            pair.close()
    again = (pair.sent - size) / number / MIB
    print(f"{size // MIB} MiB came whole over {number} kills; {again:.1f} MiB were sent again each time")


def pulls(size: int, number: int) -> None:
    for how, tls in (("TLS", True), ("TCP", False)):
        again = pull(size, number, tls=tls) / number / MIB
        print(
            f"{size // MIB} MiB came whole over {how} and {number} pulls of the cable; {again:.1f} MiB beside each time"
        )


def main(seconds: float, size: int, kill: int, times: int) -> None:
    worlds(seconds)
    kills(size, kill)
    pulls(size, times)


if __name__ == "__main__":
    numbers = [float(argument) for argument in sys.argv[1:]]
    seconds, mib, kill, times = [*numbers, *(SECONDS, 1024.0, 200.0, 100.0)[len(numbers) :]]
    main(seconds, int(mib) * MIB, int(kill), int(times))
