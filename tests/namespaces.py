"""Programs in namespaces of their own, where the kernel lets a test make them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest


def require(*command: str) -> None:
    """Skip the test where this command, which makes a namespace and ends, is not permitted."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"no namespaces: {error.filename} is not installed")
    if done.returncode != 0:
        pytest.skip(f"no namespaces: not permitted here: {' '.join(command)}: {done.stderr.strip()}")


def start(
    command: Sequence[str], source: str, script: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """A Python program under `command`, from source; it talks by lines, with errors among them."""
    script.write_text(f"import sys; sys.path[:0] = {sys.path!r}\n{textwrap.dedent(source)}")
    return subprocess.Popen(
        [*command, sys.executable, "-u", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(env or {})},
    )


def line(program: subprocess.Popen[str]) -> str:
    """The next line that it prints."""
    assert program.stdout is not None
    return program.stdout.readline().rstrip("\n")


def send(program: subprocess.Popen[str]) -> None:
    """An empty line for its `input()`."""
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()
