"""How long a relay takes to start, with orders that wait and old rows.

python -m tests.relay.starting 100000 1000000 262144     waiting orders, old rows, rows behind the last checkpoint
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rtmw.clock import CLOCK
from rtmw.relay import rows as r
from rtmw.relay.frame import Frame
from rtmw.relay.rows import Row
from rtmw.relay.server import Server
from rtmw.relay.settings import Agent, Relay
from rtmw.relay.store import Store

_BATCH: Final = 100


def order(number: int, body: bytes = b"", to: str = "GATE") -> Row:
    """It waits for an agent that is away."""
    frame = Frame("AODB", to, b"%022d" % number, "O", "I", body or b"body of %d" % number)
    head = Frame.decode(frame.encode()).head
    return Row(
        r.STORED, CLOCK.wall_ns(), number, "AODB", to, recipients=[to], priority=3, lifetime=1e6, head=head,
        body=frame.data, digest=frame.digest, by_content=True, rule="node.toml, line 24",
        version="451819582230",
    )  # fmt: skip


def delivered(number: int) -> list[Row]:
    """The rows of an order that has come."""
    of = (CLOCK.wall_ns(), number, "AODB", "BAGS", "BAGS")
    return [order(number, b"x" * 200, "BAGS"), Row(r.SENT, *of, tries=1), Row(r.DELIVERED, *of, tries=1)]


def append(store: Store, rows: list[Row]) -> None:
    """As a server does after a step."""
    for row in rows:
        store.state.apply(row)
    store.append(rows)


def fill(store: Store, first: int, orders: int) -> None:
    """Orders that have come, from number `first` on."""
    for begin in range(first, first + orders, _BATCH):
        numbers = range(begin, min(begin + _BATCH, first + orders))
        append(store, [row for number in numbers for row in delivered(number)])


@dataclass
class Started:
    """A start, as its process saw it."""

    seconds: float
    """Of the processor until it could listen, Python's own start with it."""
    open: int
    rows: int
    """That were read behind the checkpoint."""


def start_in_process(folder: Path, *, waiting: int, old: int, behind: int = 0) -> Started:
    """Makes the record in `folder`, and starts a relay on it."""
    store = Store(folder, 80.0)
    append(store, [order(number) for number in range(1, waiting + 1)])
    fill(store, waiting + 1, old // 3)
    asyncio.run(store.checkpoint())
    fill(store, waiting + 1 + old // 3, behind // 3)
    store.close()
    command = [sys.executable, "-m", "tests.relay.starting", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Started(**json.loads(done.stdout))


def start(folder: Path) -> None:
    """What `Server` does before it listens."""
    agents = tuple(Agent(name, name.encode(), "127.0.0.1", absent="keep") for name in ("AODB", "GATE", "BAGS"))
    server = Server(folder, Relay(agents=agents))
    spent = time.process_time()
    print(json.dumps({"seconds": spent, "open": len(server.store.state.open), "rows": server.store.rows}))
    server.close()


def main() -> None:
    if len(sys.argv) == 2:
        start(Path(sys.argv[1]))
        return
    waiting, old, behind = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        print(start_in_process(Path(folder), waiting=waiting, old=old, behind=behind))


if __name__ == "__main__":
    main()
