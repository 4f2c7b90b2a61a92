"""Two hosts on this machine: two domains, each with a node, that meet on one DDS domain over loopback."""

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

from bench.domain import domain

READY = 20.0
"""Seconds in which a node has to be ready."""
END = 10.0


@contextmanager
def node(number: int, dds_domain: int, environment: dict[str, str]) -> Iterator[None]:
    """A node, ready; it ends with the block."""
    with tempfile.TemporaryDirectory(prefix="rtmw-bench-") as folder:
        supervisor = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        address = str(Path(folder, "notify"))
        supervisor.bind(address)
        supervisor.settimeout(READY)
        command = [sys.executable, "-m", "rtmw", "node", "--domain", str(number), "--dds-domain", str(dds_domain)]
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
def hosts(pool: str, environment: dict[str, str]) -> Iterator[tuple[int, int]]:
    """Their domains. Both nodes may run on every processor."""
    with ExitStack() as stack:
        here, there = (stack.enter_context(domain(pool)) for _ in range(2))
        for number in (here, there):
            stack.enter_context(node(number, here, dict(os.environ) | environment))
        yield here, there
