"""Transactions beside bare appends of the same bytes, in one run: `python -m tests.transfer.speed`.

Each line is a median of rounds; the kinds take turns, so that what else the machine does meets all of them. What counts
are the ratios of one run.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import rtmw
from rtmw.transfer.records import TransferState
from tests.transfer.driven import Driven
from tests.transfer.letters import me
from tests.transfer.memory import header

BODY = bytes(200)


def rate(work: Callable[[int], object], threads: int, each: int) -> float:
    """Calls a second, of so many threads with so many calls each."""

    def loop() -> None:
        for turn in range(each):
            work(turn)

    crowd = [threading.Thread(target=loop) for _ in range(threads)]
    begin = time.perf_counter()
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    return threads * each / (time.perf_counter() - begin)


def transaction(store: Driven, sends: int) -> None:
    txn = store.begin()
    for _ in range(sends):
        store.send(header(BODY), BODY, txn=txn)
    store.commit(txn)


def consume(store: Driven) -> None:
    letter = store.take("ingest", me())
    assert letter is not None
    store.settle(letter, TransferState.CONSUMED)


def measure(folder: Path, rounds: int, calls: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    with rtmw.Log(folder / "log") as log, Driven(folder / "transfers", node="plant") as store:
        store.join("ingest", me())
        for _ in range(rounds):
            for threads in (1, 16):
                each = calls // threads
                note(f"bare appends, {threads} threads", rate(lambda _: log.append(BODY), threads, each))
                sent = rate(lambda _: store.send(header(BODY), BODY), threads, each)
                note(f"sends without a transaction, {threads} threads", sent)
                note(
                    f"transactions of one send, {threads} threads", rate(lambda _: transaction(store, 1), threads, each)
                )
                tens = rate(lambda _: transaction(store, 10), threads, each // 10) * 10
                note(f"sends in transactions of ten, {threads} threads", tens)
            note("taken and consumed, 1 threads", rate(lambda _: consume(store), 1, calls // 4))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=1600)
    parser.add_argument(
        "--folder", type=Path, help="on the disk that is meant; default: that of the system's temporary files"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        found = {
            name: statistics.median(values) for name, values in measure(Path(folder), asked.rounds, asked.calls).items()
        }
    for name, value in found.items():
        bare = found[f"bare appends, {name.rpartition(', ')[2]}"]
        print(f"{name:45} {value:10,.0f}/s  {value / bare:6.2f} × bare appends")


if __name__ == "__main__":
    main()
