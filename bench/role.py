"""One process of a measurement: `python -m bench.role`, started by stage.py with a line of JSON on its standard input.

It plays one part of a question, and answers in lines of JSON. It ends by itself when its time is over.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import IO, Any


@dataclass
class Role:
    """What a part is told, and its line to the other parts."""

    question: str
    part: str
    peer: str
    name: str
    place: str
    domain: int
    limit: float
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    cpu: int | None = None
    lines_in: IO[str] | None = None
    lines_out: IO[str] | None = None

    def pin(self) -> None:
        """This thread, and those it starts from now on, to the processor it was given, if any."""
        if self.cpu is not None:
            os.sched_setaffinity(0, {self.cpu})

    def tell(self, word: str) -> None:
        """Tell all other parts."""
        self._write({"tell": word})

    def hear(self) -> str:
        """What another part has told; waits for it."""
        assert self.lines_in is not None
        line = self.lines_in.readline()
        if not line:
            raise SystemExit("the stage is gone")
        return line.strip()

    def answer(self, result: object) -> None:
        self._write({"result": result})

    def _write(self, line: object) -> None:
        assert self.lines_out is not None
        self.lines_out.write(json.dumps(line) + "\n")
        self.lines_out.flush()


def private_output() -> IO[str]:
    """Standard output for our lines alone: what a library prints goes to standard error."""
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return lines


def leave(number: int, _: object) -> None:
    """Unwinds, so that systems clean up."""
    raise SystemExit(f"ended by {signal.Signals(number).name}")


def main() -> None:
    role = Role(**json.loads(sys.stdin.readline()), lines_in=sys.stdin, lines_out=private_output())
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, leave)
    signal.alarm(int(role.limit) + 5)
    play: Callable[[Role], object] = getattr(import_module(f"bench.questions.{role.question}"), role.part)
    gc.disable()
    try:
        role.answer(play(role))
    except ImportError as error:
        role._write({"missing": str(error)})
    except Exception as error:
        role._write({"failed": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
