"""A node that serves transfers, for as long as a block lasts: what programs with letters need."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import rtmw
from bench.log_peers.server import server

SIZE = 200


def answers(domain: int) -> bool:
    """Its core lets a program join."""
    try:
        with rtmw.Sender("ready", domain=domain):
            return True
    except rtmw.CoreNotRunning:
        return False


@contextmanager
def serving(domain: int, folder: Path) -> Generator[None]:
    command = [sys.executable, "-m", "rtmw", "node", "--domain", str(domain)]
    command += ["--serve", "transfer", "--data", str(folder / "transfers")]
    with server(command, folder, lambda: answers(domain)):
        yield
