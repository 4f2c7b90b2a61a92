"""`make torture-soak`: sixteen processes publish and take, are stopped and continued, and some of them killed.

    python -m tests.torture.soak SECONDS

Twelve survive: publishers and subscribers of all reliabilities. Four are killed at random, and others take their place.
In the end each RELIABLE survivor must have had every message in order and once; each of the others must have counted
every message that it did not get; and memory must be what it was in the beginning.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import rtmw
from tests.conftest import free_number
from tests.torture.soak.crowd import SURVIVORS, Crowd
from tests.torture.soak.judge import CAUSES, audit, check_memory, judge, memory_of

POOL = "8M"
WARM_UP = 0.2
"""Of the time: until then an interpreter gets what it keeps."""


def in_another_process(work: Callable[[], object]) -> Any:
    """What it returns, through JSON: the parent itself never attaches."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, json.dumps(work()).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"status {status:#x}"
    return json.loads(text)


def create(number: int) -> None:
    rtmw.Domain(number, pool=POOL, reserve=0).close()


def show(rows: list[dict[str, Any]], published: int, crowd: Crowd) -> None:
    print(f"\n{'subscriber':<32}" + "".join(f"{cause:>12}" for cause in CAUSES))
    for row in rows:
        print(f"{row['name']:<32}" + "".join(f"{row[cause]:>12,}" for cause in CAUSES))
    print(f"\n{published:,} messages, {crowd.kills} processes killed, {crowd.stops} stopped and continued.")
    print("Each message came or is counted, to the RELIABLE each came once and in order, and memory is what it was.")


def soak(number: int, seconds: float, folder: Path) -> None:
    crowd = Crowd(number, folder)
    try:
        in_another_process(lambda: create(number))
        crowd.begin_all()
        crowd.run(seconds * WARM_UP)
        before = memory_of(number, crowd.survivors)
        crowd.run(seconds * (1 - WARM_UP))
        check_memory(before, memory_of(number, crowd.survivors))
        crowd.end()
        published = in_another_process(lambda: audit(number))
        show(judge(folder, list(SURVIVORS), crowd.board, published), published, crowd)
    finally:
        crowd.kill_all()
        with suppress(rtmw.DomainNotFound):
            rtmw.Domain.unlink(number)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        soak(int(os.environ.get("RTMW_DOMAIN") or free_number()), float(sys.argv[1]), Path(folder))


if __name__ == "__main__":
    main()
