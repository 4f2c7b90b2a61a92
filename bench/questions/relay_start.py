"""How soon does a relay listen whose record has 100,000 orders that wait?

From the start of its process until it listens, with a record of orders for an agent that is away and keeps them. Beside
it the same with an empty record.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import rtmw
from bench import disk, relays
from bench.cases import RTMW, Case, Figures
from bench.relays import START_S, Line
from bench.stage import Stage, environment
from rtmw.relay import Row

TITLE = "A relay, from the start of its process until it listens"
UNIT = "s"
ROUNDS = 3
WAITING, EMPTY = "100,000 waiting", "nothing waiting"
SOURCE, TO = "AODB", "GATE"
RULES = f'absent = "keep"\n[[allow]]\npeer = "agent:{SOURCE}"\norder = ["{TO}/*"]\n'
BATCH = 1000


def cases(quick: bool) -> Sequence[Case]:
    return [Case(WAITING, (RTMW,), {"orders": 100_000}), Case(EMPTY, (RTMW,), {"orders": 0})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    with disk.new_folder() as folder:
        file = folder / "node.toml"
        file.write_text(relays.settings((SOURCE, TO), RULES, 0))
        fill(folder / "relay" / "record", case.options["orders"])
        command = [sys.executable, "-m", "rtmw.relay", "--data", str(folder), "--config", str(file)]
        begin = time.monotonic()
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stderr=pipe, text=True, env=environment()) as relay:
            assert relay.stdin is not None
            assert relay.stderr is not None
            said = relay.stderr.readline()
            took = time.monotonic() - begin
            relay.stdin.close()  # that ends it
            relay.wait(START_S)
    found = re.search(r"(\d+) open orders", said)
    if int(found[1] if found else 0) != case.options["orders"]:
        raise RuntimeError(f"it says {said.strip()!r}")
    return {system: Figures(took)}


def fill(record: Path, orders: int) -> None:
    """Orders that were stored a moment ago and not sent."""
    record.parent.mkdir(parents=True)
    with rtmw.Log(record, Row, sync=False) as log:
        for first in range(1, orders + 1, BATCH):
            log.append_many([stored(number) for number in range(first, first + BATCH)])


def stored(number: int) -> Row:
    frame = Line(SOURCE).order(TO)
    head, body = frame[1:36], frame[36:-1]
    return Row(
        "STORED", time.time_ns(), number, SOURCE, TO, recipients=[TO], priority=3, lifetime=86400.0,
        head=head, body=body, digest=number.to_bytes(8, "little"), by_content=True,
    )  # fmt: skip
