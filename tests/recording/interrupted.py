"""Recordings whose writer is struck by an exception at some moment, as by Ctrl-C: one file each, in a folder."""

from __future__ import annotations

import random
import signal
import sys
from contextlib import suppress
from pathlib import Path

from rtmw.recording import RecordingWriter

MOST = 50_000


class Struck(BaseException):
    pass


def strike(*_: object) -> None:
    raise Struck


def write(path: Path, chance: random.Random, until_closed: bool) -> None:
    payload = chance.randbytes(3000)
    with RecordingWriter(path, chunk_bytes=1 << 16, compression=chance.choice(("none", "lz4"))) as writer:
        channel = writer.channel("topic", 0, "x")
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0005, 0.02))
        try:
            for row in range(MOST):
                writer.write(channel, payload, log_time=row, publish_time=row, sequence=row)
                if row % 100 == 99:
                    writer.metadata("hundred", {"row": str(row)})
        finally:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, 0.003) if until_closed else 0)


def main() -> None:
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
    for number in range(rounds):
        until_closed = number % 2 == 1
        name = f"{number}_{'open' if until_closed else 'closed'}.mcap"
        signal.signal(signal.SIGALRM, strike)
        with suppress(Struck):
            try:
                write(folder / name, random.Random(number), until_closed)
            finally:
                signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    main()
