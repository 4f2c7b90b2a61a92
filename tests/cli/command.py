"""Running a command of `rtmw` in a test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

Run = Callable[..., tuple[int, str, str]]
Start = Callable[..., subprocess.Popen[str]]


@contextmanager
def starting(*command: str, said: str) -> Generator[Start]:
    """Starts `rtmw` with this command and more words, and waits until it has said something. It ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "rtmw", *command, *arguments]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        started.append(process)
        assert process.stderr is not None
        assert said in process.stderr.readline()
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def document(run: Run, *arguments: str) -> Any:
    """The JSON that a command printed."""
    status, out, err = run(*arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)
