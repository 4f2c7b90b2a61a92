"""Two hosts on this machine: two domains, each with a node, that meet on one DDS domain over loopback or a cable."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.cable import Place
from bench.domain import domain

READY = 20.0
"""Seconds in which a node has to be ready."""
END = 10.0


@contextmanager
def node(number: int, dds_domain: int, environment: dict[str, str], place: Place) -> Iterator[None]:
    """A node, ready; it ends with the block."""
    with tempfile.TemporaryDirectory(prefix="rtmw-bench-") as folder:
        supervisor = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        address = str(Path(folder, "notify"))
        supervisor.bind(address)
        supervisor.settimeout(READY)
        command = [*place.enter, sys.executable, "-m", "rtmw", "node", "--interface", place.interface]
        command += ["--domain", str(number), "--dds-domain", str(dds_domain)]
        process = subprocess.Popen(
            command, env=environment | {"NOTIFY_SOCKET": address}, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            supervisor.recv(100)  # READY=1
            yield
        finally:
            supervisor.close()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def hosts(pool: str, environment: dict[str, str], places: tuple[Place, Place]) -> Iterator[tuple[int, int]]:
    """Their domains. Both nodes may run on every processor."""
    with ExitStack() as stack:
        here, there = (stack.enter_context(domain(pool)) for _ in range(2))
        for number, place in zip((here, there), places, strict=True):
            stack.enter_context(node(number, here, dict(os.environ) | environment, place))
        yield here, there
