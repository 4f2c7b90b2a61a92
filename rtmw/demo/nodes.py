"""Two hosts on this machine: two domains with a node each, that meet on a DDS domain over loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rtmw.demo.crew import END_S, START_S, CrewError


@contextmanager
def node(number: int, dds_domain: int) -> Generator[None]:
    """A node of a domain, ready; it ends with the block."""
    with (
        tempfile.TemporaryDirectory(prefix="rtmw-demo-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor,
    ):
        supervisor.bind(address := str(Path(folder, "notify")))
        supervisor.settimeout(START_S)
        process = subprocess.Popen(
            [sys.executable, "-m", "rtmw", "node", "--domain", str(number), "--dds-domain", str(dds_domain)],
            env={**os.environ, "NOTIFY_SOCKET": address},
            process_group=0,  # Ctrl-C is for the parent, which ends its children in order
        )
        try:
            supervisor.recv(100)  # READY=1
            yield
        except TimeoutError:
            raise CrewError(f"The node of domain {number} did not start; its own words are above.") from None
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Make sure that it is gone."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
