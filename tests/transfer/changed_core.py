"""A core of which something is another: `--age SECONDS` and `--bytes N` of transactions, `--wall SECONDS` that its wall
clock is ahead, `--segment BYTES` of its log, `--left SECONDS` that parts of absent nodes are kept."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from typing import Any

from rtmw.clock import Clock
from rtmw.transfer.core import __main__ as core
from rtmw.transfer.core import process
from rtmw.transfer.limits import Limits

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--age", type=float, default=60.0)
    parser.add_argument("--bytes", type=int, default=64 << 20)
    parser.add_argument("--wall", type=float, default=0.0)
    parser.add_argument("--segment", type=int, default=0)
    parser.add_argument("--left", type=float, default=1e6)
    asked, rest = parser.parse_known_args()
    sys.argv[1:] = rest
    ahead = int(asked.wall * 1e9)
    Clock.wall_ns = lambda _: time.time_ns() + ahead  # type: ignore[method-assign]
    Clock.wall = lambda _: time.time() + asked.wall  # type: ignore[method-assign]
    if asked.segment:
        smaller: Any = partial(process.Store, segment=asked.segment, checkpoint=8 * asked.segment)
        process.Store = smaller  # type: ignore[misc]
    limits = Limits(transaction_age=asked.age, transaction_bytes=asked.bytes, left_age=asked.left)
    core._limits = lambda _: limits
    sys.exit(core.main())
