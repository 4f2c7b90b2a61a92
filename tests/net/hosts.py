"""Hosts for tests: rtmw domains of this machine, each with a node, that meet on a DDS domain of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import rtmw

PATIENCE = 60.0
"""Seconds after which something that has to happen has not."""


class Host:
    """A domain, and the node that carries it."""

    def __init__(self, number: int, dds_domain: int, folder: Path) -> None:
        self.number, self.dds_domain, self._folder = number, dds_domain, folder
        self.domain = rtmw.Domain(number, pool="8M")
        self.log = folder / f"node_{number}.log"
        self._node: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str, seconds: float = PATIENCE) -> None:
        """Start the node, and wait until it says that it is ready."""
        address = f"{self._folder}/notify_{self.number}"
        Path(address).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
            supervisor.bind(address)
            supervisor.settimeout(seconds)
            self.launch(*arguments, notify=address)
            assert supervisor.recv(100) == b"READY=1", self.said

    def launch(self, *arguments: str, notify: str = "") -> subprocess.Popen[bytes]:
        """Start the node, and wait for nothing."""
        command = [sys.executable, "-m", "rtmw", "node", "--domain", str(self.number)]
        command += ["--dds-domain", str(self.dds_domain), *arguments]
        env = {**os.environ, "PYTHONPATH": str(Path(rtmw.__file__).parents[1]), "NOTIFY_SOCKET": notify}
        with self.log.open("ab") as log:
            self._node = subprocess.Popen(command, stdout=log, stderr=log, env=env)
        return self._node

    @property
    def node(self) -> subprocess.Popen[bytes]:
        assert self._node is not None, "no node was started"
        return self._node

    @property
    def said(self) -> str:
        """The node's log."""
        return self.log.read_text() if self.log.exists() else ""

    def stop(self) -> int:
        """End the node as systemd does; its exit status."""
        self.node.send_signal(signal.SIGTERM)
        return self.node.wait(PATIENCE)

    def kill(self) -> None:
        self.node.kill()
        self.node.wait(PATIENCE)

    def end(self) -> None:
        """Leave nothing behind."""
        if self._node is not None and self._node.poll() is None:
            self.kill()
        sys.stderr.write(f"\n--- node of domain {self.number}:\n{self.said}")
        self.domain.close()
        rtmw.Domain.unlink(self.number)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for a condition that has to come true."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"{what}: not within {seconds} s"
        time.sleep(0.02)
